"""What a fit returns: labels, the model, its evaluation; and the files that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

import labelgrad
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import NewExamples
from labelgrad.auto.data.sources import (
    Source,
    open_source,
    suffix_of,
    table_pieces,
    table_suffix,
    with_unlabeled,
)
from labelgrad.auto.data.tables import TablePreprocessor
from labelgrad.auto.data.views import open_views
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.labels import csv_pieces, filled_in, ids_digest, read_labels
from labelgrad.auto.plain_values import built
from labelgrad.auto.predictor import (
    MODEL,
    MODEL_INFO,
    Predictions,
    Predictor,
    interval_margin,
    read_predictor,
)
from labelgrad.auto.task import Array, Task, log_normalize
from labelgrad.files import digest_of, digest_of_file, json_bytes, read_json, write_whole
from labelgrad.reasons import reason_of

if TYPE_CHECKING:
    from labelgrad.auto.base_models.base import FittedModel
    from labelgrad.auto.evaluation import Evaluation
    from labelgrad.auto.run import Manifest

LABELS, RESULT, REPORT = "labels.csv", "result.json", "report.html"
TABLE = "table"  # with the ending of the file that was fitted
FILLED_IN = ("label", "confidence", "std", "source")  # what it has of the table of labels
HELD_OUT, PREDICTIONS = "held_out.safetensors", "predictions.safetensors"
FILES = (LABELS, HELD_OUT, PREDICTIONS, MODEL_INFO, MODEL, RESULT, REPORT)  # of every result
MOST_JSON = 2**28  # bytes
FEW = 2.0  # labels, added where held-out labels are few
BY = "prediction/"  # before a model's name, in the names of arrays


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of labeled examples by models that were fitted without their labels."""

    rows: Array  # (n,) positions in the data
    y: Array  # (n,) targets as the task has them
    fold: Array  # (n,)
    fold_means: Array  # (folds, columns): the mean over unlabeled examples, without each fold
    predictions: Mapping[str, Array]  # by model, (n, columns); also "ensemble" and "student"

    def check(self, examples: int, task: Task) -> None:
        """Refuse arrays that do not fit together, or a run of so many examples."""
        n, folds, columns = len(self.rows), int(self.fold.max(initial=-1)) + 1, task.columns
        _check("rows", self.rows, (n,), below=examples)
        _check("fold", self.fold, (n,), below=folds)
        _check("y", self.y, (n,), below=len(task.classes) or None)
        _check("fold_means", self.fold_means, (folds, columns))
        for name, one in {"ensemble": np.zeros(0), **self.predictions}.items():
            _check(name, one, (n, columns))

    def support(self, least: float = 0.0) -> float:
        """The share of the confidence above `least` that held-out labels bear out, at most 1.

        Two labels that are as confident as they should be are added, for those that have none.
        """
        prediction = log_normalize(self.predictions["ensemble"].astype(float))
        confidence = np.exp(prediction.max(1, initial=-np.inf))
        above = confidence > least
        right = int((prediction[above].argmax(1) == self.y[above]).sum())
        return min(1.0, (right + FEW) / (float(confidence[above].sum()) + FEW))


@dataclass(frozen=True, eq=False)
class UnlabeledPredictions:
    """What each base model predicts of the unlabeled examples, and what lies near them.

    A prediction is the code of the most probable class with its probability, or the mean and the
    standard deviation in standardized units. Where a fit has learned from a sample of the unlabeled
    examples, `rows` are those of the sample.
    """

    rows: Array  # (n,) positions in the data
    nearest: Array  # (n, 3) positions of the nearest labeled examples
    predictions: Mapping[str, Array]  # by model, (n, 2) float32

    def check(self, examples: int) -> None:
        """Refuse arrays that do not fit together, or a run of so many examples."""
        n = len(self.rows)
        _check("rows", self.rows, (n,), below=examples)
        _check("nearest", self.nearest, (n, *self.nearest.shape[1:2]), below=examples)
        for name, one in self.predictions.items():
            _check(name, one, (n, 2))


def _check(name: str, array: Array, shape: Sequence[int], below: int | None = None) -> None:
    kinds = "iuf" if below is None else "iu"
    if array.shape != tuple(shape) or array.dtype.kind not in kinds:
        raise ValueError(f"{name} has no numbers of the shape {tuple(shape)}")
    if below is not None and array.size and not 0 <= array.min() <= array.max() < below:
        raise ValueError(f"{name} has numbers that are not from 0 to {below - 1}")


def pack_arrays(of: HeldOut | UnlabeledPredictions) -> bytes:
    """All arrays as a file."""
    arrays = vars(of) | {BY + name: one for name, one in of.predictions.items()}
    del arrays["predictions"]
    return save_arrays({name: np.ascontiguousarray(one) for name, one in arrays.items()})


def _unpack_arrays(content: bytes, evaluation: Evaluation) -> dict[str, Any]:
    """The fields of an object that `pack_arrays` wrote; a file has its arrays in no order."""
    arrays: dict[str, Any] = load_arrays(content)
    models = [score.name for score in evaluation.scores if BY + score.name in arrays]
    return {"predictions": {name: arrays.pop(BY + name) for name in models}} | arrays


@dataclass(frozen=True)
class About:
    """What was fitted, and how: the part of `result.json` that is not the evaluation."""

    kind: str  # of the data: "table", "images", "texts", "arrays"
    task: str
    data: str | None  # their path, if they have one
    labeled: int
    unlabeled: int
    class_counts: dict[str, int] = field(default_factory=dict)  # labels of each class
    learned_from: int | None = None  # unlabeled examples, where there were too many to use all
    skipped: tuple[tuple[str, str], ...] = ()  # id, reason
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    version: str = labelgrad.__version__


@dataclass(frozen=True, eq=False)
class Result:
    """What a fit returns, or what `labelgrad.load` reads from a run folder.

    Attributes
    ----------
    labels
        A `polars.DataFrame` with one row per example (`labelgrad.auto.labels`).
    evaluation
        The models' scores on held-out labels.
    predictor
        The saved network with its preprocessor.
    held_out
        Out-of-fold predictions of labeled examples.
    base_model_predictions
        What each base model predicts of unlabeled examples.
    about
        Counts, notes, seconds.
    config
        The options of the fit.
    page
        The report as HTML.
    source
        The table that was fitted, while it is open.
    folder
        The run folder, if there is one.
    load_notes
        What has changed in the folder since it was written.

    """

    labels: pl.DataFrame
    evaluation: Evaluation
    predictor: Predictor
    held_out: HeldOut
    base_model_predictions: UnlabeledPredictions
    about: About
    config: FitConfig
    page: str = ""
    ensemble: FittedModel | None = None
    ensemble_files: Mapping[str, bytes] = field(default_factory=dict)  # to be saved
    source: Source | None = None
    folder: Path | None = None
    load_notes: tuple[str, ...] = ()
    load_ensemble: Callable[[], FittedModel] | None = None

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.predictor.model.task

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of this fit, a sentence each."""
        return self.about.notes

    @property
    def summary(self) -> str:
        """Whether unlabeled data improved on the best supervised model, in one sentence."""
        return self.evaluation.summary

    def leaderboard(self) -> pl.DataFrame:
        """The models' scores on held-out labels, best first."""
        return self.evaluation.leaderboard()

    @property
    def id_name(self) -> str:
        """What an example is called by: "row", "file", or the id column of a table."""
        return self.predictor.preprocessor.id_name

    @cached_property
    def digest(self) -> str:
        """What tells this result from another one; a fit that is repeated has the same."""
        return digest_of(self.predictor.files()[MODEL] + pack_arrays(self.held_out))

    def predict(self, data: Any, *, ensemble: bool = False, events: Events = SILENT) -> Predictions:
        """Predictions for new data of the kind the model was fitted on.

        Parameters
        ----------
        data
            A path, an array or a data frame.
        ensemble
            Use the ensemble instead of the network; a run that is loaded has it if it was
            fitted with `keep_ensemble`.
        events
            Receives notes and progress.

        Returns
        -------
        Predictions
            Calibrated probabilities, or values.

        """
        new = self.predictor.preprocessor.transform(_existing(data), self.config, events)
        return self._predict(new, ensemble)

    def predict_in_parts(
        self, data: Any, *, ensemble: bool = False, events: Events = SILENT
    ) -> Iterator[Predictions]:
        """The same, some thousand examples at a time, so that memory stays bounded."""
        preprocessor = self.predictor.preprocessor
        parts = preprocessor.transform_in_parts(_existing(data), self.config, events)
        return (self._predict(new, ensemble) for new in parts)

    def _predict(self, new: NewExamples, ensemble: bool) -> Predictions:
        if not ensemble:
            return self.predictor.predictions(new)
        model = self._ensemble
        try:
            prediction = model.predict(new.examples)
        except (RuntimeError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
            reason = reason_of(error)
            raise ValueError(f"The ensemble cannot predict these data ({reason}).") from None
        margin = interval_margin(self.held_out.predictions["ensemble"], self.held_out.y, self.task)
        return replace(self.predictor, margin=margin).predictions(new, prediction)

    @cached_property
    def _ensemble(self) -> FittedModel:
        if found := self.load_ensemble() if self.load_ensemble else self.ensemble:
            return found
        raise ValueError("This run has no saved ensemble; fit again with keep_ensemble.")

    def report(self, path: str | Path = REPORT) -> Path:
        """Write the report, one page that needs nothing else, and give its path."""
        write_whole(Path(path), self.page.encode())
        return Path(path)

    def table(self, data: Any = None, *, labels: pl.DataFrame | None = None) -> Any:
        """The table that was fitted, with a label in every row.

        Parameters
        ----------
        data
            The table, a path or a data frame; a run that was fitted on a file knows it.
        labels
            The labels to fill in, such as those of `guaranteed_labels`; all by default.

        Returns
        -------
        data frame
            Of the library that the data are of, or of polars: the target is filled in, and
            `confidence` (for values `std`) and `source` are added.

        Examples
        --------
        >>> import polars as pl
        >>> from labelgrad import fit
        >>> pets = pl.DataFrame({"kg": [3, 4, 5, 30, 40, 9], "pet": [*"ccddd", None]})
        >>> fit(pets, target="pet", base_models="linear", steps=5).table().columns
        ['kg', 'pet', 'confidence', 'source']
        """
        source, filled = self._filled_in(data, labels)
        if isinstance(source.data, Path):
            return filled.collect()
        frame = nw.from_native(source.data, eager_only=True)
        names = filled.collect_schema().names()
        target = getattr(self.predictor.preprocessor, "target", None) or names[-3]
        place, added = names.index(target), names[-2:]
        own = [*frame.columns, *names[len(frame.columns) :]]  # as the data frame writes them
        columns = [
            nw.new_series(name, cells.to_list(), backend=nw.get_native_namespace(frame))
            for name, cells in zip(
                (own[place], *added), filled.select(target, *added).collect(), strict=True
            )
        ]
        dtype = frame.schema.get(own[place], nw.String())
        if self.task.classes and dtype not in (nw.String, nw.Object):
            columns[0] = columns[0].cast(dtype)
        return frame.with_columns(*columns).to_native()

    def save_table(
        self, path: str | Path, data: Any = None, *, labels: pl.DataFrame | None = None
    ) -> None:
        """Write what `table` gives; the name of the file decides its format."""
        write_whole(Path(path), self._table_pieces(suffix_of(Path(path)), data, labels))

    @property
    def table_file(self) -> str | None:
        """The name of the table with labels in the run folder, if a file was fitted."""
        data = self.source.data if self.source else None
        return TABLE + table_suffix(data) if isinstance(data, Path) else None

    def _table_pieces(
        self, suffix: str, data: Any = None, labels: pl.DataFrame | None = None
    ) -> Iterable[bytes]:
        source, filled = self._filled_in(data, labels)
        return table_pieces(filled, suffix, source.separator, self.config.cache)

    def with_cells(self, listed: pl.DataFrame) -> pl.DataFrame:
        """A list of ids, with the cells of the fitted table, or the texts, if they are at hand."""
        preprocessor, every = self.predictor.preprocessor, self.labels.to_series(0).to_list()
        try:
            if preprocessor.kind == "texts":
                views = open_views(self.about.data, preprocessor, every, self.config)
                row_of = {name: row for row, name in enumerate(every)}
                texts = [views.view(row_of[name]).text for name in listed[self.id_name]]
                return listed.with_columns(pl.Series("text", texts, dtype=pl.String))
            source = self._fitted_table()
        except (ValueError, OSError, ImportError):
            return listed  # images, or data that are elsewhere: ids are what there is
        taken = {*listed.columns, getattr(preprocessor, "target", None)}
        names = [name for name in source.schema if name not in taken]
        ids, place = self.labels.select(self.id_name), "\0place"
        places = ids.with_row_index(place).join(listed, on=self.id_name, how="semi")
        cells = source.frame.select(pl.col(names).cast(pl.String, strict=False))
        cells = cells.with_row_index(place).filter(pl.col(place).is_in(places[place].implode()))
        found = places.join(cells.collect(engine="streaming"), on=place).drop(place)
        return listed.join(found, on=self.id_name, how="left", maintain_order="left")

    def _fitted_table(self, data: Any = None) -> Source:
        """The table that was fitted, opened; a ValueError if the run is of no table."""
        preprocessor, source = self.predictor.preprocessor, self.source
        if not isinstance(preprocessor, TablePreprocessor):
            raise ValueError(f"The run is of {preprocessor.kind}, and not of a table.")
        if data is not None or source is None:
            data = _path(self.about.data if data is None else data)
            if data is None or (isinstance(data, Path) and not data.exists()):
                where = data or "a data frame"
                raise ValueError(f"The fitted table is not at hand ({where}); give it to `table`.")
            source = open_source(data, self.config)
            source = with_unlabeled(source, preprocessor.target, self.config)
        if source.rows != len(self.labels):
            counts = f"{source.rows} rows, and the run has {len(self.labels)} examples"
            raise ValueError(f"{source.name} has {counts}; give the table that was fitted.")
        return source

    def _filled_in(self, data: Any, labels: pl.DataFrame | None) -> tuple[Source, pl.LazyFrame]:
        """The table, and the same with labels."""
        source, every = self._fitted_table(data), self.labels
        if labels is not None:
            ids, *names = [self.id_name, *(each for each in FILLED_IN if each in every.columns)]
            texts: Any = {pl.Enum: pl.String, pl.Categorical: pl.String}
            known, chosen = (each.select(ids, *names).cast(texts) for each in (every, labels))
            known = known.filter(pl.col("source") != "imputed").join(chosen, on=ids, how="anti")
            some = pl.concat([chosen, known], how="vertical_relaxed")
            every = every.select(ids).join(some, on=ids, how="left", maintain_order="left")
        target = getattr(self.predictor.preprocessor, "target", None)
        return source, filled_in(source, target, every)

    def contents(self) -> dict[str, bytes | Iterable[bytes]]:
        """The files of the result by their names; long ones in pieces."""
        about = {
            "about": asdict(self.about),
            "summary": self.evaluation.summary,
            "evaluation": asdict(self.evaluation),
            "config": self.config.to_dict(),
            "ids": ids_digest(self.labels),
        }
        name = self.table_file
        return {
            LABELS: csv_pieces(self.labels),
            **({name: self._table_pieces(name.removeprefix(TABLE))} if name else {}),
            HELD_OUT: pack_arrays(self.held_out),
            PREDICTIONS: pack_arrays(self.base_model_predictions),
            **self.predictor.files(),
            **self.ensemble_files,
            RESULT: json_bytes(about),
            REPORT: self.page.encode(),
        }

    def __repr__(self) -> str:
        where = "" if self.folder is None else f" in {self.folder}"
        about = self.about
        return f"<Result of {about.labeled} labels and {about.unlabeled} unlabeled{where}>"

    def __str__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        board = self.leaderboard()
        table: str = board._repr_html_() if len(board) else ""
        return f"<p>{escape(self.summary)}</p>{table}"


def _path(data: Any) -> Any:
    return Path(data) if isinstance(data, str) else data


def _existing(data: Any) -> Any:
    if isinstance(path := _path(data), Path) and not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    return path


def read_result(manifest: Manifest, network: Any, options: Mapping[str, Any]) -> Result:
    """The result that a manifest lists; `options` override those of the run."""
    from labelgrad.auto.ensemble_io import INDEX, read_ensemble
    from labelgrad.auto.evaluation import Evaluation

    with manifest.using(RESULT):
        saved = read_json(manifest.read(RESULT, MOST_JSON))
        about = built(About, saved["about"])
        evaluation = built(Evaluation, saved["evaluation"])
        config = FitConfig.from_dict(saved["config"]).override(options)
        ids = saved["ids"]
    predictor = read_predictor(manifest, network, config)
    task = predictor.model.task
    with manifest.using(LABELS):
        path = manifest.folder / LABELS
        labels = read_labels(path, task, predictor.preprocessor.id_name)
        if ids_digest(labels) != ids:
            raise ValueError("its examples are not those of the run")
        changed = digest_of_file(path) != manifest.files.get(LABELS)
    with manifest.using(HELD_OUT):
        held_out = HeldOut(**_unpack_arrays(manifest.read(HELD_OUT), evaluation))
        held_out.check(len(labels), task)
    with manifest.using(PREDICTIONS):
        predictions = UnlabeledPredictions(**_unpack_arrays(manifest.read(PREDICTIONS), evaluation))
        predictions.check(len(labels))
    ensemble = partial(read_ensemble, manifest, predictor)
    return Result(
        labels,
        evaluation,
        predictor,
        held_out,
        predictions,
        about,
        config,
        page=manifest.read(REPORT).decode(),
        folder=manifest.folder,
        load_notes=(f"{LABELS} was changed after the run.",) if changed else (),
        load_ensemble=ensemble if INDEX in manifest.files else None,
    )
