"""The files of a folder and the labels given to them; nothing outside it is looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from labelgrad.inputs.base import join_few
from labelgrad.inputs.cells import csv_rows

LABELS_FILE = "labels.csv"
UNLABELED = ("unlabeled", "unlabelled")
FILE_HEADERS = ("file", "filename", "file_name", "path", "image", "picture")
LABEL_HEADERS = ("label", "class", "target")


class Files(NamedTuple):
    """Files by their names relative to the folder, and why others are refused."""

    inside: dict[str, Path]
    refused: dict[str, str]


def files_in(folder: Path) -> Files:
    """All files of a folder and its subfolders in the order of their names; hidden ones are not.

    A link is taken for the file it leads to if that lies in the folder, too.
    """
    files, root = Files({}, {}), os.path.realpath(folder)
    for where, folders, names in os.walk(folder, onerror=_give_up):
        relative = Path(where).relative_to(folder).as_posix()
        inside = "" if relative == "." else _printable(relative) + "/"
        links = [name for name in folders if os.path.islink(os.path.join(where, name))]
        for name in links:
            files.refused[inside + _printable(name)] = "a link to a folder, which is not followed"
        folders[:] = sorted(f for f in folders if f not in links and not _hidden(f))
        for name in sorted(name for name in names if not _hidden(name)):
            _sort_in(files, root, inside + _printable(name), os.path.join(where, name))
    return files


def _sort_in(files: Files, root: str, name: str, path: str) -> None:
    if os.path.islink(path) and not os.path.realpath(path).startswith(os.path.join(root, "")):
        files.refused[name] = "a link that leads out of the folder"
    elif os.path.isfile(path):
        files.inside[name] = Path(path)
    else:
        files.refused[name] = "not a regular file"


def _give_up(error: OSError) -> None:
    raise error


def _hidden(name: str) -> bool:
    return name.startswith((".", "__MACOSX"))


def _printable(name: str) -> str:
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


class LabeledFiles(NamedTuple):
    """The files of a folder that are examples, and the labels of those that have one."""

    chosen: dict[str, Path]
    labels: dict[str, str]
    where: str  # the labels stand, as a sentence calls it
    folders: bool  # whether subfolders are the classes
    refused: dict[str, str]
    others: list[str]  # files that are no examples
    what: str  # the examples are, such as pictures
    notes: list[str]

    def left_out(self, names: Sequence[str]) -> list[str]:
        """What to say where only the files of these names could be read."""
        notes, whole = [], set(names)
        lost = {self.labels.get(name, "") for name in self.chosen}
        lost -= {self.labels.get(name, "") for name in whole} | {""}
        if lost and self.folders:
            classes = join_few(sorted(lost))
            notes.append(f"Left out, because none of their {self.what} can be read: {classes}.")
        if self.others:
            notes.append(f"Not {self.what} by their names, and not read: {join_few(self.others)}.")
        return notes


def labeled_files(
    folder: Path,
    labels: Path | None,
    belongs: Callable[[str], bool],
    what: str,
    *,
    strict: bool,
) -> LabeledFiles:
    """The files whose names `belongs` says yes to, or that are listed, and their labels.

    The labels are the subfolders' names, or stand in a file: the given one, or `labels.csv`.
    """
    files = checked_files(folder, strict=strict)
    if labels is None and LABELS_FILE in files.refused:
        raise ValueError(f"{LABELS_FILE} cannot be read: {files.refused[LABELS_FILE]}.")
    folders = labels is None and LABELS_FILE not in files.inside
    if folders:
        known, where, notes = _by_folder(folder, files, belongs, what)
    else:
        path = labels or files.inside[LABELS_FILE]
        if not path.is_file():
            raise FileNotFoundError(f"There is no labels file {path}.")
        known, where = file_labels(path, files), path.name
        notes = [f"Labels are those in {path.name}; files it does not list have none."]
    chosen = {name: path for name, path in files.inside.items() if belongs(name) or name in known}
    if not chosen:
        raise ValueError(f"The folder {folder} holds no {what}.")
    if not any(known.values()):
        raise ValueError(
            f"The folder {folder} does not say what its {what} show: put those of each "
            f"class into a subfolder of its own and the others into `unlabeled`, or list them "
            f"in {LABELS_FILE} with the columns file and label."
        )
    others = [name for name in files.inside if name not in chosen and name != LABELS_FILE]
    return LabeledFiles(chosen, known, where, folders, files.refused, others, what, notes)


def _by_folder(
    folder: Path, files: Files, belongs: Callable[[str], bool], what: str
) -> tuple[dict[str, str], str, list[str]]:
    labels = {name: folder_label(name) for name in files.inside if belongs(name)}
    loose = sum("/" not in name for name in labels)
    said = f"{what.capitalize()} outside the subfolders are unlabeled: {loose}."
    return labels, f"The folder {folder}", [said] if loose else []


def new_files(
    data: Path, belongs: Callable[[str], bool], what: str, *, strict: bool
) -> tuple[dict[str, Path], dict[str, str]]:
    """Examples without labels, which are all that belong in a folder, or one file; and others."""
    if data.is_file():
        return {data.name: data}, {}
    files = checked_files(data, strict=strict)
    chosen = {name: path for name, path in files.inside.items() if belongs(name)}
    if not chosen:
        raise ValueError(f"The folder {data} holds no {what}.")
    return chosen, files.refused


def checked_files(folder: Path, *, strict: bool) -> Files:
    """All files of a folder; if it is `strict`, each must be one that can be read."""
    files = files_in(folder)
    if strict and files.refused:
        name, reason = next(iter(files.refused.items()))
        raise ValueError(f"{name} cannot be read: {reason}.")
    return files


def folder_label(name: str) -> str:
    """The class of a file by the subfolder it is in; empty for none.

    >>> folder_label("cat/old/tom.png"), folder_label("unlabeled/1.png"), folder_label("2.png")
    ('cat', '', '')
    """
    first, slash, _ = name.partition("/")
    return first if slash and first.casefold() not in UNLABELED else ""


def file_labels(path: Path, files: Files) -> dict[str, str]:
    """The label of each file listed in a CSV with the columns file and label."""
    labels: dict[str, str] = {}
    missing = []
    for line, file, label in listed_labels(path, FILE_HEADERS, LABEL_HEADERS, headless=True):
        name = _inside(file, files, f"line {line} of {path.name}")
        if name not in files.inside:
            missing.append(name)
        elif labels.setdefault(name, label) != label:
            raise ValueError(
                f"{path.name} gives {name!r} two labels: {labels[name]!r}, and {label!r} on "
                f"line {line}."
            )
    if missing:
        raise ValueError(
            f"{path.name} names {len(missing)} files that are not in the folder: "
            f"{join_few(missing)}."
        )
    return labels


def listed_labels(
    path: Path, names: Sequence[str], labels: Sequence[str], *, headless: bool = False
) -> list[tuple[int, str, str]]:
    r"""The line, the name and the label of every row of a CSV that has a column for each.

    `names` and `labels` are what these columns may be called; a `headless` file has just the two.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "labels.csv")
    >>> _ = file.write_text("Label,file\ncat,tom.png\n")
    >>> listed_labels(file, ["file"], ["label"])
    [(2, 'tom.png', 'cat')]
    """
    rows, wanted = list(csv_rows(path)), f"the columns {names[0]} and {labels[0]}"
    if not rows:
        raise ValueError(f"{path.name} is empty: it must have {wanted}.")
    first = rows[0][1]
    header = [cell.casefold() for cell in first]
    name = next((header.index(one) for one in names if one in header), None)
    label = next((header.index(one) for one in labels if one in header), None)
    if name is not None and label is not None:
        return [(line, row[name], row[label]) for line, row in rows[1:]]
    if headless and len(first) == 2:
        return [(line, row[0], row[1]) for line, row in rows]
    raise ValueError(f"{path.name} must have {wanted}, got {join_few(first)} in its first line.")


def _inside(file: str, files: Files, where: str) -> str:
    """The name as the folder's files have it; the disk is never asked for what the text says."""
    listed = PurePosixPath(file)
    if not file or listed.is_absolute() or ".." in listed.parts:
        raise ValueError(
            f"A file must be named relative to the folder and in it, got {file!r} in {where}."
        )
    for step in (listed, *listed.parents):
        if str(step) in files.refused:
            raise ValueError(f"{str(step)!r} in {where} is refused: {files.refused[str(step)]}.")
    return str(listed)
