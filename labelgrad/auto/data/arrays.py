"""NumPy arrays, in memory or in an .npz file: `x`, one row for each example, and `y`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import columns as of_columns
from labelgrad.auto.data.columns import Column, join_few
from labelgrad.auto.data.dataset import PART, Dataset, Examples, NewExamples, Preprocessor, RowIds
from labelgrad.auto.data.images import pixel_features
from labelgrad.auto.data.sources import readable
from labelgrad.auto.data.targets import label_series, read_targets
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array

BOMB_SIZE, BOMB_RATIO = 2**30, 100  # bytes, and how far data shrink: beyond both it is an attack


@dataclass(frozen=True)
class Pixels:
    """How arrays of images become uint8 (n, c, h, w): whole numbers stay, others are scaled."""

    channels_last: bool
    low: float | None = None  # what becomes 0; None for whole numbers from 0 to 255
    high: float | None = None

    @classmethod
    def fit(cls, x: Array) -> Pixels:
        """Where the channels are, and the range of values."""
        last = x.ndim == 4 and x.shape[1] not in (1, 3)
        if last and x.shape[3] not in (1, 3):
            raise ValueError(
                f"`x` must have 1 or 3 channels in its second or last dimension, got {x.shape}."
            )
        low, high = float(x.min()), float(x.max())
        if x.dtype.kind in "bui" and low >= 0 and high <= 255:
            return cls(last)
        return cls(last, low, high)

    def transform(self, x: Array, config: FitConfig) -> Array:
        """Images in 8 bits."""
        low, high = x.min(), x.max()
        if not np.isfinite([low, high]).all():
            raise ValueError("The images in `x` must be finite, got NaN or infinity.")
        if self.low is None and (x.dtype.kind == "f" or low < 0 or high > 255):
            raise ValueError(
                f"The images in `x` must be whole numbers from 0 to 255, as in the training data, "
                f"got {x.dtype} from {low:g} to {high:g}."
            )
        x = x[:, None] if x.ndim == 3 else np.moveaxis(x, 3, 1) if self.channels_last else x
        pixels = allocate(x.shape, np.uint8, config.cache)
        for start in range(0, len(x), PART):
            part = x[start : start + PART]
            if self.low is not None and self.high is not None:
                span = (self.high - self.low) or 1.0
                part = np.clip((part.astype(np.float64) - self.low) / span * 255, 0, 255).round()
            pixels[start : start + PART] = part
        return pixels


@dataclass(eq=False)
class ArrayPreprocessor(Preprocessor):
    """How an array becomes features: columns if it has two dimensions, else images.

    >>> from dataclasses import asdict
    >>> numbers = ArrayPreprocessor.read([[1.0], [3.0]], [0, 1], FitConfig())
    >>> again = ArrayPreprocessor.from_dict(asdict(numbers.preprocessor))
    >>> again.transform([[5.0]], FitConfig()).examples.X
    array([[3.]], dtype=float32)
    """

    kind: str = field(default="arrays", init=False)
    shape: tuple[int, ...]
    columns: tuple[Column, ...] = ()
    pixels: Pixels | None = None

    @classmethod
    def takes(cls, data: Any) -> bool:
        """Whether this is an .npz file, or any object: what is no array is refused when read."""
        return data.suffix.lower() == ".npz" if isinstance(data, Path) else True

    @classmethod
    def read(cls, data: Any, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """Examples and labels, which are -1, NaN or None where there are none."""
        del events
        if isinstance(data, Path):
            arrays = load_arrays(data, ("x", "y"))
            data, y = arrays["x"], arrays["y"]
        elif y is None:
            raise ValueError("An array needs its labels `y`, with -1 or NaN where unlabeled.")
        if isinstance(config.groups, str):
            raise ValueError(
                f"An array has no column {config.groups!r}; give `groups` as the group of each row."
            )
        x = check_array(data)
        labels, notes = label_series(y, len(x), config.task)
        targets = read_targets(labels, config.task, "`y`", unlabeled=config.unlabeled_value)
        preprocessor, more = cls._fit(x)
        examples = preprocessor.examples(x, config)
        return Dataset(
            examples.X,
            targets.y,
            targets.task,
            RowIds(len(x)),
            preprocessor,
            raw=examples.raw,
            notes=[*targets.notes, *notes, *more],
        )

    @classmethod
    def _fit(cls, x: Array) -> tuple[ArrayPreprocessor, list[str]]:
        shape = tuple(x.shape[1:])
        if x.ndim > 2:
            pixels = Pixels.fit(x)
            last = "The channels of `x` are its last dimension, and become the second."
            return cls(shape, pixels=pixels), [last] if pixels.channels_last else []
        if (x == x[:1]).all():
            raise ValueError("`x` has no column to learn from: each of them is constant.")
        fitted: dict[str, Column] = {
            str(place): of_columns.fit_number(str(place), column.astype(np.float64))
            for place, column in enumerate(x.T)
        }
        fitted = of_columns.share_scale(fitted)
        return cls(shape, tuple(fitted.values())), of_columns.column_notes(fitted)

    def transform_in_parts(
        self, data: Any, config: FitConfig, events: Events = SILENT, size: int | None = PART
    ) -> Iterator[NewExamples]:
        """New rows of the shape the old ones have; `y` of a file is not read."""
        del events
        x = check_array(data)
        if x.shape[1:] != self.shape:
            shapes = f"{self.shape}, as in the training data, got {x.shape[1:]}"
            raise ValueError(f"`x` must have rows of the shape {shapes}.")
        size = size or len(x)
        for start in range(0, len(x), size):
            part = x[start : start + size]
            yield NewExamples(self.examples(part, config), RowIds(len(part), start + 1))

    def examples(self, x: Array, config: FitConfig) -> Examples:
        """What models see of checked rows."""
        if self.pixels is not None:
            raw = self.pixels.transform(x, config)
            return Examples(pixel_features(raw, config), raw)
        width = sum(column.width for column in self.columns)
        X = allocate((len(x), width), "float32", config.cache)
        for start in range(0, len(x), PART):
            values = x[start : start + PART].T.astype(np.float64)
            pairs = zip(self.columns, values, strict=True)
            X[start : start + PART] = np.hstack([column.encode(cells) for column, cells in pairs])
        return Examples(X)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> ArrayPreprocessor:
        """The preprocessor out of its `asdict`."""
        columns = of_columns.columns_from_dicts(saved["columns"])
        pixels = None if saved["pixels"] is None else Pixels(**saved["pixels"])
        return cls(tuple(saved["shape"]), columns, pixels)


def check_array(data: Any) -> Array:
    """An array of numbers with two to four dimensions, or that of a file; else a ValueError."""
    x = load_arrays(data, ("x",))["x"] if isinstance(data, Path) else np.asarray(data)
    if x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise ValueError(
            f"`x` must be rows of columns, or images, with 2 to 4 dimensions, got {x.shape}."
        )
    if x.dtype.kind not in "buif":
        raise ValueError(f"`x` must hold numbers, got {x.dtype}.")
    return x


def load_arrays(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The named arrays of an .npz file; nothing in it is ever run.

    Parameters
    ----------
    path
        Of the file.
    names
        Of the arrays in it.

    Returns
    -------
    dict
        The arrays by name; a damaged file raises a ValueError of one sentence.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "mine.npz")
    >>> np.savez(file, x=[[1, 2]], y=[0])
    >>> load_arrays(file, ["x"])
    {'x': array([[1, 2]])}
    """
    with readable(path.name, "an .npz file"), zipfile.ZipFile(path) as archive:
        infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        lacking = [name for name in names if name not in infos]
        if lacking:
            raise ValueError(f"it has no array {join_few(lacking)}; it has {join_few(infos)}")
        arrays = {}
        for name in names:
            packed, size = infos[name].compress_size, infos[name].file_size
            if size > max(BOMB_SIZE, BOMB_RATIO * packed):
                raise ValueError(f"`{name}` unpacks from {packed} bytes to {size}: too much")
            with archive.open(infos[name]) as file:
                if b"'|O'" in file.read(200):
                    raise ValueError(f"it has Python objects in `{name}`; save numbers or text")
                file.seek(0)
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
        return arrays
