"""The table of labels: one row per example, in columns, in memory and as `labels.csv`.

Labels that came with the data, or that a person has set, stand beside imputed ones; `source` tells
them apart. Ten million rows take some hundred megabytes, because classes are stored as codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.data.sources import Source
from labelgrad.auto.data.targets import WHOLE
from labelgrad.auto.task import Array, Classification, Task
from labelgrad.files import write_whole

SOURCES = ("given", "random", "by-class", "corrected", "accepted", "audit", "imputed")
SOURCE_OF_SAMPLING = {"unknown": "given", "random": "random", "by-class": "by-class"}
SOURCE_OF_ANNOTATION = {
    "correction": "corrected",
    "choose": "corrected",
    "accept": "accepted",
    "page": "accepted",
    "audit": "audit",
}
COLUMNS = (  # after the id; only values have a standard deviation
    *("label", "confidence", "std", "source", "prediction", "prediction_confidence", "entropy"),
    *("neighbours", "neighbour_disagreement", "ood_score", "unknown_probability"),
)
NEIGHBOURS = 3
ROWS_AT_ONCE = 2**17  # that are written, or named
NUMBERS_AT_ONCE = 2**22  # of predictions


class Summary(NamedTuple):
    """Predictions without their less probable classes."""

    point: Array  # (n,) int32 codes of classes, or float64 standardized values
    confidence: Array  # (n,) float32: probability of the class, or standard deviation of the value
    entropy: Array  # (n,) float32, NaN for values


def summarize(task: Task, prediction: Array) -> Summary:
    """What the table holds of a prediction.

    >>> found = summarize(Classification(("cat", "dog")), np.log([[0.25, 0.75]]))
    >>> found.point, found.confidence, found.entropy.round(3)
    (array([1], dtype=int32), array([0.75], dtype=float32), array([0.562], dtype=float32))
    """
    if not isinstance(task, Classification):
        mean, std = prediction.T
        return Summary(mean.copy(), std.astype(np.float32), np.full(len(mean), np.nan, np.float32))
    probability = np.exp(prediction)
    entropy = -(probability * prediction).sum(1)
    numbers = (each.astype(np.float32) for each in (probability.max(1), entropy))
    return Summary(prediction.argmax(1).astype(np.int32), *numbers)


def in_parts(rows: Array, width: int) -> Iterator[Array]:
    """Rows, some at a time: so few that `width` numbers for each fit into memory; never none.

    >>> [part.tolist() for part in in_parts(np.arange(3), NUMBERS_AT_ONCE // 2)]
    [[0, 1], [2]]
    """
    size = max(1, min(20_000, NUMBERS_AT_ONCE // width))
    for start in range(0, max(1, len(rows)), size):
        yield rows[start : start + size]


def nearest_labeled(
    points: Array, labeled: Array, rows: Array, count: int = NEIGHBOURS
) -> tuple[Array, Array, Array]:
    """The labeled examples nearest to each of `rows`.

    Returns
    -------
    tuple of arrays
        Their positions, nearest first, (rows, count); the distance of the nearest, (rows,); and
        that of each labeled example to the nearest other one, (labeled,).

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> nearest_labeled(line, np.array([0, 3]), np.array([1, 2]), 1)
    (array([[0],
           [0]]), array([1., 3.]), array([7., 7.]))
    """
    from sklearn.neighbors import NearestNeighbors

    count = min(count, len(labeled))
    nearest, distance = np.zeros((len(rows), count), dtype=np.int64), np.zeros(len(rows))
    search = NearestNeighbors(n_neighbors=count).fit(points[labeled])
    for start in range(0, len(rows), 20_000):
        part = slice(start, start + 20_000)
        distances, places = search.kneighbors(points[rows[part]])
        nearest[part], distance[part] = labeled[places], distances[:, 0]
    own = search.kneighbors(n_neighbors=1)[0][:, 0] if len(labeled) > 1 else np.zeros(1)
    return nearest, distance, own


def label_sources(
    raw: Dataset, dataset: Dataset, sampling: str, annotated: Mapping[str, str]
) -> Array:
    """The position of each example's source in `SOURCES`.

    Parameters
    ----------
    raw
        The data set as it was read.
    dataset
        The same with annotations.
    sampling
        How the labels of `raw` were chosen (`FitConfig.label_sampling`).
    annotated
        How each annotated example got its label, by id. A label that was sampled at random
        stays a random one when it is corrected.

    """
    source = np.full(len(dataset), SOURCES.index("imputed"), dtype=np.uint8)
    source[raw.is_labeled] = SOURCES.index(SOURCE_OF_SAMPLING[sampling])
    for row in dataset.labeled.tolist() if annotated else []:
        how = annotated.get(dataset.ids[row])
        if how is not None and not (sampling == "random" and raw.is_labeled[row]):
            source[row] = SOURCES.index(SOURCE_OF_ANNOTATION[how])
    return source


def label_table(
    dataset: Dataset,
    source: Array,
    label: Summary,
    prediction: Summary,
    *,
    nearest: tuple[Array, Array, Array, Array],
    typical_error: float = 1.0,
) -> pl.DataFrame:
    """The table of labels.

    Parameters
    ----------
    dataset
        The examples, with annotations.
    source
        The position of each example's source in `SOURCES`.
    label, prediction
        The ensemble's and the saved model's predictions of the unlabeled examples,
        in their order.
    nearest
        Positions of unlabeled examples, and of the labeled examples nearest to each; their
        out-of-distribution scores, and probabilities of unknown classes.
    typical_error
        Of values, in the target's units: what `neighbour_disagreement` is counted in.

    """
    task, rows, n = dataset.task, dataset.unlabeled, len(dataset)
    y = np.array(dataset.y, dtype=label.point.dtype)
    y[rows] = label.point

    def numbers(values: Array | None, rows: Array = rows) -> pl.Series:
        full = np.full(n, np.nan, np.float32)
        if values is not None:
            full[rows] = values
        return pl.Series(full).fill_nan(None)

    def targets(values: Array, rows: Array = rows) -> pl.Series:
        full = task.unlabeled(n).astype(y.dtype)
        full[rows] = values
        if isinstance(task, Classification):
            return _named(full, task.classes)
        return pl.Series(full * task.scale + task.mean).fill_nan(None)

    is_classes = isinstance(task, Classification)
    std = {} if is_classes else {"std": numbers(label.confidence * getattr(task, "scale", 1.0))}
    near, places, score, unknown = nearest
    around, apart = _neighbours(task, y, near, places, typical_error)
    return pl.DataFrame(
        {
            dataset.preprocessor.id_name: id_column(dataset.ids),
            "label": targets(y, np.arange(n)),
            "confidence": numbers(label.confidence if is_classes else None),
            **std,
            "source": _named(source, SOURCES),
            "prediction": targets(prediction.point),
            "prediction_confidence": numbers(prediction.confidence if is_classes else None),
            "entropy": numbers(label.entropy),
            "neighbours": targets(around, near),
            "neighbour_disagreement": numbers(apart, near),
            "ood_score": numbers(score, near),
            "unknown_probability": numbers(unknown if is_classes else None, near),
        }
    )


def _neighbours(
    task: Task, y: Array, rows: Array, nearest: Array, typical_error: float
) -> tuple[Array, Array]:
    """The commonest label of the nearest labeled examples, and how far theirs are from a row's."""
    labels = y[nearest]  # (rows, neighbours)
    if isinstance(task, Classification):
        votes = (labels[:, :, None] == labels[:, None, :]).sum(2)
        commonest = labels[np.arange(len(labels)), votes.argmax(1)]  # ties: the nearest
        return commonest, (labels != y[rows, None]).mean(1)
    mean = labels.mean(1)
    return mean, np.abs(mean - y[rows]) * task.scale / max(typical_error, 1e-12)


def _named(codes: Array, names: Sequence[str]) -> pl.Series:
    """Names by their codes; null for -1."""
    every = pl.Series(names, dtype=pl.Enum(names))
    places = pl.Series(codes.astype(np.int32))
    return every.gather(places.set(places < 0, None).cast(pl.UInt32))


def id_column(ids: Sequence[str]) -> pl.Series:
    """The ids of examples as a column of strings, also where `ids` is lazy."""
    parts = [
        pl.Series([ids[row] for row in range(start, min(start + ROWS_AT_ONCE, len(ids)))])
        for start in range(0, len(ids), ROWS_AT_ONCE)
    ]
    return pl.concat(parts).cast(pl.String) if parts else pl.Series([], dtype=pl.String)


def ids_digest(table: pl.DataFrame) -> str:
    """A digest of the ids of a table, in their order."""
    content, ids = hashlib.blake2b(digest_size=16), table.to_series(0)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        content.update("\n".join([*ids[start : start + ROWS_AT_ONCE], ""]).encode())
    return content.hexdigest()


def csv_pieces(table: pl.DataFrame) -> Iterator[bytes]:
    r"""The table as CSV, some rows at a time.

    >>> list(csv_pieces(pl.DataFrame({"row": ["1"], "label": ["cat"]})))
    [b'row,label\n1,cat\n']
    """
    for start in range(0, max(1, len(table)), ROWS_AT_ONCE):
        part = table.slice(start, ROWS_AT_ONCE)
        yield part.write_csv(include_header=start == 0).encode()


def read_labels(path: Path, task: Task, id_name: str) -> pl.DataFrame:
    """The table in a `labels.csv`; an error says what is wrong with a file that was changed."""
    target: Any = pl.Enum(task.classes) if isinstance(task, Classification) else pl.Float64
    types: dict[str, Any] = {"source": pl.Enum(SOURCES), id_name: pl.String}
    types |= dict.fromkeys(("label", "prediction", "neighbours"), target)
    names = [id_name, *(name for name in COLUMNS if name != "std" or not task.classes)]
    if pl.read_csv(path, n_rows=0, infer_schema=False).columns != names:
        raise ValueError(f"its columns must be {', '.join(names)}")
    table = pl.read_csv(path, schema={name: types.get(name, pl.Float32) for name in names})
    if table["label"].null_count() or table["source"].null_count():
        raise ValueError("a row has no label or no source")
    for name, dtype in table.schema.items():
        if dtype.is_float():
            column = table[name].drop_nulls()
            most = 1.0 if "confidence" in name or "probability" in name else np.inf
            least = 0.0 if dtype == pl.Float32 else -np.inf
            if not (column.is_finite().all() and column.is_between(least, most).all()):
                raise ValueError(f"{name} has a number out of range")
    return table


def confident_labels(table: pl.DataFrame, above: float) -> pl.DataFrame:
    """The imputed labels with at least this confidence; of values, which have none, all.

    >>> table = pl.DataFrame({"row": ["1", "2"], "confidence": [0.99, 0.6], "source": "imputed"})
    >>> confident_labels(table, 0.9)["row"].to_list()
    ['1']
    """
    imputed = table.filter(pl.col("source") == "imputed")
    if not imputed["confidence"].count():
        return imputed
    return imputed.filter(pl.col("confidence") >= above)


def filled_in(source: Source, target: str | None, labels: pl.DataFrame) -> pl.LazyFrame:
    """The table of the examples with its labels filled in.

    Parameters
    ----------
    source
        The table.
    target
        Its column of labels; without one, there is a new column "label".
    labels
        The table of labels; where `label` is null, the table keeps its cell.

    Returns
    -------
    polars.LazyFrame
        All columns of the table, and `confidence` (for values `std`) and `source`, with "label_"
        before the name where the table has such a column. Given labels stay as they are written.

    Examples
    --------
    >>> pets = Source("pets", pl.LazyFrame({"pet": ["cat ", None]}))
    >>> found = {"label": ["cat", "dog"], "confidence": [None, 0.9], "source": ["given", "imputed"]}
    >>> filled_in(pets, "pet", pl.DataFrame(found)).collect().rows()
    [('cat ', None, 'given'), ('dog', 0.9, 'imputed')]
    """
    frame, names = source.frame, [*source.schema]
    if target is None:
        target = _unused("label", names)
        frame, names = frame.with_columns(pl.lit(None, pl.String).alias(target)), [*names, target]
    how_sure = "std" if "std" in labels.columns else "confidence"
    added = {_unused(name, names): name for name in (how_sure, "source")}
    held = _unused("label", [*names, *added])
    beside = labels.select(
        pl.col(name).alias(new) for new, name in {held: "label", **added}.items()
    )
    wide = pl.concat([frame, beside.lazy()], how="horizontal")
    cell, label, dtype = pl.col(target), pl.col(held), source.schema.get(target, pl.String())
    text = label.cast(pl.String)
    if labels["label"].dtype.is_numeric():
        number = cell.cast(pl.Float64, strict=False)
        same = number.is_null() | ((number - label).abs() <= 1e-6 * number.abs())
        fill = text if dtype == pl.String else label
    else:
        written = cell.cast(pl.String).str.strip_chars()
        same = written.str.replace(WHOLE, "${1}${2}") == text
        fill = text == "True" if dtype == pl.Boolean else text.cast(dtype)
    is_given = pl.col(_unused("source", names)).is_in([*SOURCE_OF_SAMPLING.values()])
    stays = label.is_null() | (is_given & same.fill_null(False))
    return wide.select(
        *(
            pl.when(stays).then(name).otherwise(fill).alias(name) if name == target else name
            for name in names
        ),
        *added,
    )


def _unused(name: str, names: Collection[str]) -> str:
    while name in names:
        name = f"label_{name}"
    return name


def save_labels(table: pl.DataFrame, path: str | Path) -> None:
    """Write a table of labels as CSV; the file takes its place when it is whole."""
    write_whole(Path(path), csv_pieces(table))
