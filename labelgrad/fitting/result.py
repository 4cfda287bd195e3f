"""What a fit gives back, and the folder it is kept in."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

import labelgrad
from labelgrad.files import digest_of_file, json_bytes, read_json, write_whole
from labelgrad.fitting.cross_validation import CurvePoint
from labelgrad.fitting.kept_pool import KeptPool, PackedPool, load_pool
from labelgrad.fitting.labels import (
    Example,
    ImputedLabel,
    examples_csv,
    labels_csv,
    read_examples,
    read_labels,
)
from labelgrad.fitting.many_labels import FILE as RECORDS
from labelgrad.fitting.many_labels import (
    ManyExamples,
    ManyLabels,
    both,
    read_records,
    record_pieces,
)
from labelgrad.fitting.plan import Plan
from labelgrad.fitting.pooling import Pooled
from labelgrad.fitting.predictor import FORMAT, Predictions, Predictor, load_predictor
from labelgrad.fitting.run_files import (
    CONFIG,
    EXAMPLES,
    HELD_OUT,
    LABELS,
    METRICS,
    REPORT,
    SAID_BY,
    SUMMARY,
)
from labelgrad.fitting.run_folder import AGAIN, Digests, read_digests, write_files
from labelgrad.fitting.statements import FILE as STATEMENTS
from labelgrad.fitting.statements import Statements, read_statements
from labelgrad.fitting.verdict import Calibration, Verdict, shown_error
from labelgrad.inputs.arrays import unpacked
from labelgrad.inputs.base import Encoding, Prepared, join_few
from labelgrad.inputs.kinds import prepare, prepare_in_parts
from labelgrad.inputs.row_names import RowNames
from labelgrad.plain_values import built


@dataclass(frozen=True)
class Counts:
    """How many examples of each kind there were, and how many labels of each class."""

    labeled: int
    unlabeled: int
    skipped: int
    classes: dict[str, int] = field(default_factory=dict)  # none where labels are values


@dataclass(frozen=True)
class Summary:
    """What was done, and what came of it: the content of `result.json`."""

    data: str  # the path, or the kind of what was handed over
    kind: str
    task: str
    counts: Counts
    skipped: Sequence[tuple[str, str]]  # name, reason
    notes: Sequence[str]
    plan: Plan
    folds: int
    step: int  # that every training reached
    seconds: float
    stopped: bool  # before its end
    verdict: Verdict
    calibration: Calibration | None
    curves: Sequence[CurvePoint]
    learned_from: int | None = None  # of the unlabeled examples, where they were too many
    version: str = labelgrad.__version__

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        found: dict[str, Any] = {"format": FORMAT, "labelgrad": self.version} | asdict(self)
        del found["version"]
        if self.learned_from is None:
            del found["learned_from"]
        if not self.counts.classes:
            del found["counts"]["classes"]
        found["verdict"] |= {"sentence": self.verdict.sentence}
        found["curves"] = [point_to_json(point) for point in self.curves]
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Summary:
        """The summary that `to_json` made these values of."""
        own = {name: value for name, value in found.items() if name not in ("format", "labelgrad")}
        own["verdict"] = {k: v for k, v in found["verdict"].items() if k != "sentence"}
        return built(cls, own | {"version": found["labelgrad"]})


@dataclass(frozen=True, eq=False)
class Result:
    """A model, a label for every unlabeled example, and what was found on the way.

    `labels` has a row for each unlabeled example, `examples` one for every example with its given
    label, or with what its neighbours say. Both go into a table as they are, such as
    `pandas.DataFrame(result.labels)`.
    """

    predictor: Predictor
    summary: Summary
    labels: Sequence[ImputedLabel]
    held_out: dict[str, NDArray[Any]]  # rows, labels, and outputs by method
    page: str  # the report
    folder: Path | None = None
    examples: Sequence[Example] = ()
    pooled: Pooled | None = None  # the witnesses themselves; a loaded run has them no more
    statements: Statements | None = None  # what each witness says of each row of `labels`
    notes: Sequence[str] = ()  # of a loaded run: what was changed in its folder since

    def predict(
        self,
        data: str | Path | ArrayLike,
        *,
        strict: bool = False,
        pool: bool = False,
        encoding: Encoding | None = None,
    ) -> Predictions:
        """Predictions for new data of the kind the model was trained on: a path, or an array.

        `encoding` says where an encoder and its cache are, if they are elsewhere than they were.

        With `pool` they are the pool's in place of the student's; a run that is loaded has it if
        it was fitted with `keep_pool`.
        """
        config = self.predictor.config
        new = prepare(config.preprocessing, data, strict=strict, encoding=encoding)
        return self._predicted(new, pool=pool)

    def predict_in_parts(
        self,
        data: str | Path | ArrayLike,
        *,
        strict: bool = False,
        pool: bool = False,
        encoding: Encoding | None = None,
    ) -> Iterator[Predictions]:
        """The same, some thousand examples at a time: `save_parts` writes what memory cannot hold.

        >>> import numpy as np
        >>> import labelgrad
        >>> x = np.random.default_rng(0).normal(size=(60, 4))
        >>> result = labelgrad.fit(x, np.where(np.arange(60) < 20, x[:, 0] > 0, -1), steps=20)
        >>> [len(some) for some in result.predict_in_parts(x[:3])]
        [3]
        """
        settings = self.predictor.config.preprocessing
        for new in prepare_in_parts(settings, data, strict=strict, encoding=encoding):
            yield self._predicted(new, pool=pool)

    def _predicted(self, new: Prepared, *, pool: bool) -> Predictions:
        raw = self.predictor.raw_of(new)
        if pool:
            said = self._said_by_pool(new.x, raw)
        else:
            said = self.predictor(new.x if raw is None else raw)
        return self.predictor.config.predictions(said, new.names, new.skipped)

    def _said_by_pool(self, x: Tensor, raw: Tensor | None) -> Tensor:
        """The pool's probabilities, or its values in their own units."""
        config = self.predictor.config
        try:
            said = torch.from_numpy(self._pool.of_new(x, raw))
        except (RuntimeError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
            reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
            raise ValueError(f"The pool cannot be asked about these data ({reason}).") from None
        if not said.isfinite().all():
            raise ValueError("The pool says nothing finite about some of these data.")
        return said.exp() if config.classes else said[:, 0] * config.spread + config.mean

    @cached_property
    def _pool(self) -> Pooled | KeptPool:
        """The pool of this process, or that of the folder, which is read when it is needed."""
        if self.pooled is not None:
            return self.pooled
        if self.folder is None:
            raise ValueError("This result has no pool and no folder; load a run that keeps one.")
        return load_pool(self.folder, self.predictor)

    def report(self, path: str | Path = REPORT) -> Path:
        """Write the report, one page that needs nothing else, and say where it is."""
        write_whole(Path(path), self.page.encode())
        return Path(path)

    @property
    def verdict(self) -> str:
        """Whether the unlabeled data helped, in one plain sentence."""
        return self.summary.verdict.sentence

    def save(self, folder: str | Path, pool: PackedPool | None = None) -> None:
        """Write everything into a run folder, all of it or nothing, with its digests."""
        place, key = Path(folder), self.predictor.config.key
        curves = [json.dumps(point_to_json(point)) + "\n" for point in self.summary.curves]
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **self.held_out)
        contents: dict[str, bytes | Iterable[bytes]] = {
            **self.predictor.contents(),
            **self._rows(key),
            METRICS: "".join(curves).encode(),
            HELD_OUT: packed.getvalue(),
            SUMMARY: json_bytes(self.summary.to_json()),
            REPORT: self.page.encode(),
        }
        if self.statements is not None:
            contents[STATEMENTS] = self.statements.content()
        write_files(place, {**contents, **(pool.contents() if pool else {})})
        if pool is not None:
            pool.tidy(place)

    def _rows(self, key: str) -> dict[str, bytes | Iterable[bytes]]:
        """The files that have a line for each example; of very many they come in pieces."""
        labels, examples = self.labels, self.examples
        if isinstance(labels, ManyLabels) and isinstance(examples, ManyExamples):
            return {
                LABELS: labels.pieces(key),
                EXAMPLES: examples.pieces(key),
                RECORDS: record_pieces(labels.records),
            }
        return {LABELS: labels_csv(labels, key), EXAMPLES: examples_csv(examples, key)}

    def __str__(self) -> str:
        return self.verdict

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = ""
        for row in self.summary.verdict.rows:
            if row.error is None:
                continue
            value, low, high = (
                shown_error(number, self.summary.task)
                for number in (row.error.value, row.error.low, row.error.high)
            )
            rows += f"<tr><td>{escape(row.name)}</td><td>{value}</td><td>{low} to {high}</td></tr>"
        head = "<tr><th></th><th>held-out error</th><th>95 % interval</th></tr>"
        return f"<p>{escape(self.verdict)}</p><table>{head}{rows}</table>"


def load(
    folder: str | Path, model: nn.Module | None = None, *, encoding: Encoding | None = None
) -> Result:
    """The result of a run folder; a network of one's own is given as `model`, untrained.

    A fine-tuned encoder is found by its name; `encoding` says where it is, if that is elsewhere
    than it was. A file that is not as it was written is refused, but for the labels, which a person
    may have changed: then `notes` say so.
    """
    place = Path(folder)
    predictor, digests = load_predictor(place, model, encoding=encoding), read_digests(place)
    config = predictor.config
    if RECORDS in digests.of:
        return _load_many(predictor, digests)
    found = {name: digests.read(name) for name in (SUMMARY, EXAMPLES, HELD_OUT, REPORT)}
    name = SUMMARY
    try:
        summary = Summary.from_json(read_json(found[name]))
        if summary.task != config.task:
            raise ValueError(f"it is of a {summary.task}, and {CONFIG} of a {config.task}")
        name = EXAMPLES
        examples = read_examples(found[name], config.task, config.classes)
        name = HELD_OUT
        held_out = read_held_out(found[name], len(config.classes) or 1)
        name = REPORT
        page = found[name].decode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{place / name} cannot be used ({error}); {AGAIN}.") from None
    content = digests.content(LABELS)
    changed = digests.is_changed(LABELS, content)
    try:
        labels = read_labels(content, config.task, config.classes)
        _check_same_names(labels, examples)
    except ValueError as error:
        what = "was changed after the run and cannot be used" if changed else "cannot be used"
        raise ValueError(f"{place / LABELS} {what} ({error}); put it back, or {AGAIN}.") from None
    notes = [f"{LABELS} was changed after the run."] if changed else []
    said = read_statements(digests)
    return Result(
        predictor, summary, labels, held_out, page, place, examples, statements=said, notes=notes
    )


def _load_many(predictor: Predictor, digests: Digests) -> Result:
    """The result of a run of very many examples, whose records stay in their file."""
    place, config = digests.folder, predictor.config
    found = {name: digests.read(name) for name in (SUMMARY, HELD_OUT, REPORT)}
    long = {name: digests.check(name) for name in (RECORDS, EXAMPLES)}
    name = SUMMARY
    try:
        summary = Summary.from_json(read_json(found[name]))
        name = HELD_OUT
        held_out = read_held_out(found[name], len(config.classes) or 1)
        name = RECORDS
        records = read_records(long[name], config.classes)
        name = EXAMPLES
        names = _names_of(long[name], config.key, len(records))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{place / name} cannot be used ({error}); {AGAIN}.") from None
    labels, examples = both(names, config.classes, records)
    notes = []
    if digest_of_file(place / LABELS) != digests.of[LABELS]:
        notes = [f"{LABELS} was changed after the run; of so many examples it is not read again."]
    page = found[REPORT].decode()
    return Result(predictor, summary, labels, held_out, page, place, examples, notes=notes)


def _names_of(path: Path, key: str, count: int) -> Sequence[str]:
    """What the examples of a run are called; rows are numbered from that of the first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        next(rows, None)
        names = [row[0] for row in (islice(rows, 1) if key == "row" else rows) if row]
    if key == "row" and names:
        return RowNames(count, first=int(names[0]))
    if len(names) != count:
        raise ValueError(f"it has {len(names)} examples in place of {count}")
    return names


def read_held_out(content: bytes, width: int) -> dict[str, NDArray[Any]]:
    """The arrays of `held_out.npz`: rows, labels, and outputs of so many columns by name."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            arrays = unpacked(archive, large=len(content))
    except Exception as error:  # a damaged file stumbles anywhere in its decoder
        reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
        raise ValueError(reason) from None
    count = len(arrays["rows"])
    wanted = {name: (count, width) for name in arrays if name.startswith(SAID_BY)}
    for name, shape in (wanted | {"rows": (count,), "y": (count,)}).items():
        if arrays[name].shape != shape or arrays[name].dtype.kind not in "if":
            raise ValueError(f"it has no numbers of the shape {shape} in {name!r}")
    return arrays


def _check_same_names(labels: Sequence[ImputedLabel], examples: Sequence[Example]) -> None:
    unlabeled = {example.name for example in examples if example.given is None}
    strange = [row.name for row in labels if row.name not in unlabeled]
    if strange:
        raise ValueError(f"{join_few(strange)} are no unlabeled examples of the run")


def point_to_json(point: CurvePoint) -> dict[str, Any]:
    """What a point has, without what it has not."""
    return {name: value for name, value in asdict(point).items() if value is not None}
