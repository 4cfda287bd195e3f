"""Folders of texts, and what folders of images have in common with them.

Nothing outside the folder is opened.
"""

from __future__ import annotations

import codecs
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.columns import join_few
from labelgrad.auto.data.dataset import Dataset, Examples, NewExamples, Preprocessor
from labelgrad.auto.data.sources import encoding_of, read_pairs
from labelgrad.auto.data.targets import read_targets
from labelgrad.auto.encoders import features as encoders
from labelgrad.auto.encoders.features import State
from labelgrad.auto.encoders.find import check_encoder
from labelgrad.auto.encoders.fine_tuning import raw_inputs
from labelgrad.auto.encoders.pixels import is_image
from labelgrad.auto.encoders.pretrained import TEXTS
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.task import Array

LABELS_FILE = "labels.csv"
LIST_THEM = f"list them in {LABELS_FILE} with the columns file and label"
HIDDEN = (".", "__MACOSX")  # beginnings of names
UNLABELED = ("unlabeled", "unlabelled")
TRAIN, TEST = ("train", "training"), ("test", "testing", "val", "valid", "validation", "dev")
FILE_HEADERS = ("file", "filename", "file_name", "path", "image")
LABEL_HEADERS = ("label", "class", "target")
PART = 2048  # files of new data that are read at once
MAX_BYTES = 4_000_000  # of a file that are read
Files = dict[str, Path]  # by name relative to the folder
Skipped = list[tuple[str, str]]  # name, reason
Labels = tuple[dict[str, str], str, list[str]]  # by name, what sentences call them, notes


@dataclass(eq=False)
class FolderPreprocessor(Preprocessor):
    """How a folder became features; a subclass reads files of one kind."""

    state: State | None  # of the encoder
    fine_tune: bool = False  # whether networks see what the encoder sees
    kind: str = ""
    id_name = "file"
    suffixes: ClassVar[tuple[str, ...]]  # of files that are examples

    @classmethod
    @abstractmethod
    def fit(
        cls, folder: Path, files: Files, config: FitConfig, events: Events
    ) -> tuple[Self, NewExamples, Sequence[str]]:
        """Decide how the files of a folder become features; with notes on them."""

    @abstractmethod
    def transform_files(self, files: Files, config: FitConfig, events: Events) -> NewExamples:
        """Some files as the models see them."""

    def encoded(
        self, X: Array, items: Mapping[str, Any], skipped: Skipped, config: FitConfig
    ) -> NewExamples:
        """Features of an encoder, with what it computed them from if it is to be fine-tuned."""
        state = self.state if self.fine_tune else None
        raw = raw_inputs(state, [*items.values()], config) if state else None
        return NewExamples(Examples(X, raw), [*items], skipped)

    @classmethod
    def takes(cls, data: Any) -> bool:
        """Whether it is a folder; others that contain tables or texts are taken before."""
        return isinstance(data, Path) and data.is_dir()

    @classmethod
    def read(cls, data: Path, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """The files of a folder, with labels from a CSV file or from the names of sub-folders."""
        del y  # labels are in the folder
        check_encoder(config, cls.kind)
        inside, refused = list_files(data)
        examples = [name for name in inside if name.lower().endswith(cls.suffixes)]
        by_folder = config.labels is None and LABELS_FILE not in inside
        labels, where, about = (
            _folder_labels(data, examples, cls.kind)
            if by_folder
            else _listed_labels(inside, config.labels)
        )
        # Files that are listed are examples by any name; those of a test folder are not.
        belonging = {*labels} if by_folder else {*examples, *labels}
        files = {name: path for name, path in inside.items() if name in belonging}
        files |= cls._unlabeled(files, config, about)
        if not files:
            raise ValueError(f"The folder {data} contains no images or texts.")
        if not any(labels.values()):
            raise ValueError(
                f"The {cls.kind} in {data} have no labels: put those of each class into a folder "
                f"of its own and the others into `unlabeled`, or {LIST_THEM}."
            )
        others = inside.keys() - belonging - {*examples, LABELS_FILE}
        if others:
            few = join_few(sorted(others))
            about.append(f"Not {cls.kind} by their names, and not read: {few}.")
        try:
            preprocessor, found, notes = cls.fit(data, files, config, events)
        except encoders.NothingToLearnError as error:
            raise ValueError(f"Nothing can be learned from {data}: {error}.") from None
        given = pl.Series([labels.get(name, "") for name in found.ids], dtype=pl.String)
        targets = read_targets(
            given, config.task, where, are_names=by_folder, unlabeled=config.unlabeled_value
        )
        skipped, state = [*found.skipped, *refused.items()], preprocessor.state
        check_strict(skipped, config)
        return Dataset(
            X=found.examples.X,
            y=targets.y,
            task=targets.task,
            ids=found.ids,
            preprocessor=preprocessor,
            raw=found.examples.raw,
            groups=_listed_groups(inside, config, found.ids),
            has_encoded_features=state is not None,
            encoders=encoders.encoder_names([state]) if state else None,
            notes=[*about, *targets.notes, *notes],
            skipped=skipped,
        )

    @classmethod
    def _unlabeled(cls, files: Files, config: FitConfig, notes: list[str]) -> Files:
        """The files of the folder that `unlabeled` names; their names begin with the folder's."""
        if config.unlabeled is None:
            return {}
        folder = Path(config.unlabeled)
        inside = list_files(folder)[0].items() if folder.is_dir() else ()
        named = {f"{folder.name}/{name}": path for name, path in inside}
        found = {name: path for name, path in named.items() if name.lower().endswith(cls.suffixes)}
        if not found:
            raise ValueError(f"`unlabeled` must be a folder of {cls.kind}, got {folder}.")
        if twice := found.keys() & files.keys():
            raise ValueError(
                f"Both folders have {min(twice)!r}; give the one of `unlabeled` another name."
            )
        notes.append(f"{len(found)} unlabeled {cls.kind} are those in {folder.name}.")
        return found

    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT, size: int | None = PART
    ) -> Iterator[NewExamples]:
        """All files of a folder and its sub-folders, or one file; the last part has the skipped."""
        path, refused = Path(data), dict[str, str]()
        files = {path.name: path}
        if not path.is_file():
            inside, refused = list_files(path)
            files = {n: file for n, file in inside.items() if n.lower().endswith(self.suffixes)}
        if not files:
            raise ValueError(f"The folder {path} contains no {self.kind}.")
        skipped: Skipped = []
        before = None
        size = size or len(files)
        for start in range(0, len(files), size):
            some = dict(islice(files.items(), start, start + size))
            part = self.transform_files(some, config, events)
            skipped += part.skipped
            check_strict([*skipped, *refused.items()], config)
            if len(part.ids):
                if before is not None:
                    yield before
                before = replace(part, skipped=())
        if before is None:
            raise ValueError(none_readable(skipped))
        yield replace(before, skipped=[*skipped, *refused.items()])

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """The preprocessor out of its `asdict`; ValueError if it is damaged."""
        state = None if saved["state"] is None else encoders.check_state(saved["state"])
        return cls(**{**saved, "state": state})


@dataclass(eq=False)
class TextPreprocessor(FolderPreprocessor):
    """How a folder of texts became features."""

    state: State
    kind: str = TEXTS
    suffixes = (".txt", ".text", ".md")

    @classmethod
    def takes(cls, data: Any) -> bool:
        """Whether it is a folder that contains texts and no images."""
        walk = os.walk(data) if super().takes(data) else ()
        names = [name.lower() for _, _, files in walk for name in files]
        return any(n.endswith(cls.suffixes) for n in names) and not any(map(is_image, names))

    @classmethod
    def fit(
        cls, folder: Path, files: Files, config: FitConfig, events: Events
    ) -> tuple[Self, NewExamples, Sequence[str]]:
        """Choose the encoder."""
        del folder
        texts, skipped = load_texts(files)
        if not texts:
            raise ValueError(none_readable(skipped))
        block = encoders.encode_texts([*texts.values()], config, events)
        fitted = cls(block.state, config.fine_tune > 0)
        return fitted, fitted.encoded(block.features, texts, skipped, config), block.notes

    def transform_files(self, files: Files, config: FitConfig, events: Events) -> NewExamples:
        """Some files as the models see them."""
        texts, skipped = load_texts(files)
        block = encoders.encode_again(self.state, [*texts.values()], config, events)
        return self.encoded(block.features, texts, skipped, config)


def check_strict(skipped: Skipped, config: FitConfig) -> None:
    """Raise ValueError if a file cannot be read and `strict` forbids to skip it."""
    if skipped and config.strict:
        raise ValueError(f"{skipped[0][0]} cannot be read: {skipped[0][1]}.")


def none_readable(skipped: Skipped) -> str:
    """The reason why there is nothing to learn or to predict."""
    name, reason = skipped[0]
    return f"None of the {len(skipped)} files can be read; {name}: {reason}."


def list_files(folder: Path) -> tuple[Files, dict[str, str]]:
    """All files of a folder and its sub-folders, sorted by name, and why others are refused.

    Hidden files are left out. A link is followed if it leads to a file in the folder.

    Returns
    -------
    tuple of dict
        Paths by name, and reasons by name.
    """

    def fail(error: OSError) -> None:
        raise error

    inside: Files = {}
    refused: dict[str, str] = {}
    root = os.path.join(os.path.realpath(folder), "")
    for where, folders, names in os.walk(folder, onerror=fail):
        prefix = Path(where).relative_to(folder).as_posix().removeprefix(".")
        folders[:] = sorted(each for each in folders if not each.startswith(HIDDEN))
        files = sorted(file for file in names if not file.startswith(HIDDEN))
        for entry in (*files, *folders):
            path = os.path.join(where, entry)
            name = os.fsencode(f"{prefix}/{entry}".lstrip("/")).decode(errors="backslashreplace")
            if os.path.islink(path) and not os.path.realpath(path).startswith(root):
                refused[name] = "a link that leads out of the folder"
            elif os.path.islink(path) and os.path.isdir(path):
                refused[name] = "a link to a folder, which is not followed"
            elif os.path.isfile(path):
                inside[name] = Path(path)
            elif not os.path.isdir(path):
                refused[name] = "not a regular file"
    return inside, refused


def folder_label(name: str) -> str:
    """The class of a file by its sub-folder; empty for none.

    Examples
    --------
    >>> folder_label("cat/old/tom.png"), folder_label("unlabeled/1.png"), folder_label("2.png")
    ('cat', '', '')
    """
    first, slash, _ = name.partition("/")
    return first if slash and first.casefold() not in UNLABELED else ""


def _folder_labels(folder: Path, names: Sequence[str], what: str) -> Labels:
    train, left_out = _split(names)
    names = [name for name in names if name.partition("/")[0] not in left_out]
    prefix = "" if train is None else f"{train}/"
    labels = {name: folder_label(name.removeprefix(prefix)) for name in names}
    notes = [] if train is None else [f"The classes are the sub-folders of {train!r}."]
    if left_out:
        few = join_few(left_out)
        notes.append(f"Not used, so that you can test on them (labelgrad predict): {few}.")
    if loose := sum("/" not in name.removeprefix(prefix) for name in names):
        notes.append(f"{what.capitalize()} outside the sub-folders are unlabeled: {loose}.")
    return labels, f"The folder {folder}", notes


def _split(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The folder of the classes if it is a "train" beside test folders, and those to leave out.

    >>> _split(["train/cat/1.png", "test/cat/2.png", "unlabeled/3.png"])
    ('train', ['test'])
    >>> _split(["train/1.png", "bus/2.png"])
    (None, [])
    """
    folders = {name.partition("/")[0] for name in names if "/" in name}
    train = [folder for folder in folders if folder.casefold() in TRAIN]
    test = sorted(folder for folder in folders if folder.casefold() in TEST)
    others = {one for one in folders.difference(train, test) if one.casefold() not in UNLABELED}
    has_classes = any(
        name.startswith(f"{one}/") and name.count("/") > 1 for one in train for name in names
    )
    return (train[0], test) if has_classes and len(train) == 1 and not others else (None, [])


def _listed_labels(inside: Files, given: str | None) -> Labels:
    """The labels of a CSV file; the disk is never asked for a path that the file contains."""
    path = inside[LABELS_FILE] if given is None else Path(given)
    if not path.is_file():
        raise FileNotFoundError(f"There is no labels file {path}.")
    labels: dict[str, str] = {}
    for line, file, label in read_pairs(path, FILE_HEADERS, LABEL_HEADERS):
        name = str(PurePosixPath(file))
        if labels.setdefault(name, label) != label:
            two = f"{labels[name]!r}, and {label!r} on line {line}"
            raise ValueError(f"{path.name} gives {name!r} two labels: {two}.")
    if missing := [name for name in labels if name not in inside]:
        few, count = join_few(missing), len(missing)
        raise ValueError(f"{path.name} lists {count} files that are not in the folder: {few}.")
    notes = [f"Labels are those in {path.name}; files it does not list are unlabeled."]
    return labels, path.name, notes


def _listed_groups(inside: Files, config: FitConfig, ids: Sequence[str]) -> Array | None:
    """The groups of files as the labels file lists them, if the options name its column."""
    if not isinstance(config.groups, str):
        return None
    path = inside.get(LABELS_FILE) if config.labels is None else Path(config.labels)
    if path is None:
        raise ValueError(
            f"`groups` needs a column {config.groups!r}, and labels are folders; {LIST_THEM}."
        )
    pairs = read_pairs(path, FILE_HEADERS, [config.groups.casefold()], needs_header=True)
    groups = {str(PurePosixPath(file)): group for _, file, group in pairs}
    return np.array([groups.get(name) for name in ids], object)


def load_texts(files: Files) -> tuple[dict[str, str], Skipped]:
    """The texts that can be read by the names of their files, and why others cannot."""
    texts: dict[str, str] = {}
    skipped: Skipped = []
    for name, path in files.items():
        try:
            with path.open("rb") as file:
                texts[name] = decode_text(file.read(MAX_BYTES)).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror or "unreadable" if isinstance(error, OSError) else str(error)
            skipped.append((name, reason))
    return texts, skipped


def decode_text(content: bytes) -> str:
    r"""The beginning of a text in UTF-8, or in what its byte order mark says.

    It may end within a character.

    >>> decode_text("schön".encode()[:4]), decode_text("schön".encode("utf-16"))
    ('sch', 'schön')
    >>> decode_text(b"\xff\x00")
    Traceback (most recent call last):
    ValueError: not UTF-8; save it as UTF-8
    """
    try:
        text: str = codecs.getincrementaldecoder(encoding_of(content))().decode(content)
    except UnicodeDecodeError:
        raise ValueError("not UTF-8; save it as UTF-8") from None
    if "\0" in text:
        raise ValueError("not a text: it contains a zero byte")
    return text
