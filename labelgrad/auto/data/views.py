"""One example as a person sees it: cells, an image, or a text; for the report and the review page.

Examples are addressed by their position, never by a path. Images are decoded and encoded again, so
that only images leave the machine's disk, and only those inside the folder of the data.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.arrays import ArrayPreprocessor, Pixels, check_array
from labelgrad.auto.data.dataset import Preprocessor
from labelgrad.auto.data.sources import Source, open_source, with_unlabeled
from labelgrad.auto.data.tables import TablePreprocessor
from labelgrad.auto.encoders.pixels import whole_image
from labelgrad.auto.task import Array

MAX_TEXT = 20_000  # characters of one text
MAX_FOUND = 2_000  # examples of one search
JPEG_FROM = 256  # pixels of a side; larger images are sent as JPEG
MOVED = "name their place with --data"


@dataclass(frozen=True)
class ExampleView:
    """What is shown of one example."""

    image: bool = False
    cells: list[tuple[str, str]] = field(default_factory=list)  # column, cell
    text: str = ""


class ExampleViews(ABC):
    """The data of a run, as people see them."""

    @abstractmethod
    def view(self, row: int) -> ExampleView:
        """One example."""

    def image(self, row: int, side: int) -> bytes | None:
        """A PNG or JPEG file with no side above `side` pixels; None if there is no image."""
        del row, side
        return None

    def search(self, text: str) -> list[int]:
        """The examples that contain a text, in any case, other than in their ids."""
        del text
        return []


def open_views(
    data: Any, preprocessor: Preprocessor, ids: Sequence[str], config: FitConfig | None = None
) -> ExampleViews:
    """Open the data of a run for viewing.

    Parameters
    ----------
    data
        What the run was fitted on, a path or an object.
    preprocessor
        The run's preprocessor.
    ids
        The ids of the run's examples.
    config
        The run's options, for the place of the cache.

    Returns
    -------
    ExampleViews
        A ValueError says why the data are not those of the run.
    """
    config = config or FitConfig()
    data = Path(data).expanduser() if isinstance(data, str | Path) else data
    if isinstance(data, Path) and not data.exists():
        raise ValueError(f"There is no file or folder {data} any more; {MOVED}.")
    views: ExampleViews
    if isinstance(preprocessor, TablePreprocessor):
        source = with_unlabeled(open_source(data, config), preprocessor.target, config)
        columns = [name for name in source.schema if name != preprocessor.target]
        views, rows = TableViews(source, columns), source.rows
    elif isinstance(preprocessor, ArrayPreprocessor):
        x = check_array(data)
        views, rows = ArrayViews(x, preprocessor.pixels), len(x)
    else:
        more = None if config.unlabeled is None else Path(config.unlabeled)
        return FileViews(Path(data), ids, is_text=preprocessor.kind == "texts", more=more)
    if rows != len(ids):
        counts = f"{rows} rows, and the run has {len(ids)} examples"
        raise ValueError(f"The data have {counts}; {MOVED}.")
    return views


class FileViews(ExampleViews):
    """A folder with an image or a text for each example."""

    def __init__(self, folder: Path, ids: Sequence[str], is_text: bool, more: Path | None = None):
        self.root, self.ids, self.is_text = Path(os.path.realpath(folder)), ids, is_text
        self.more = more  # a second folder, by whose name the ids of its files begin
        if len(ids) and self._path(0) is None:
            raise ValueError(f"{folder} lacks {ids[0]!r}, an example of the run; {MOVED}.")

    def _path(self, row: int) -> Path | None:
        name, more = self.ids[row], self.more
        found = _inside(self.root, name)
        if found is None and more is not None and name.startswith(f"{more.name}/"):
            found = _inside(Path(os.path.realpath(more)), name.removeprefix(f"{more.name}/"))
        return found

    def view(self, row: int) -> ExampleView:
        path = self._path(row)
        if path is None:
            return ExampleView(text="The file is missing.")
        if not self.is_text:
            return ExampleView(image=True)
        with path.open(encoding="utf-8", errors="replace") as file:
            return ExampleView(text=file.read(MAX_TEXT))

    def image(self, row: int, side: int) -> bytes | None:
        path = None if self.is_text else self._path(row)
        with suppress(Exception):  # a damaged file may raise anything in its decoder
            return None if path is None else _encode(whole_image(path, side))
        return None

    def search(self, text: str) -> list[int]:
        rows, text = range(len(self.ids)) if self.is_text else (), text.casefold()
        found = (row for row in rows if text in self.view(row).text.casefold())
        return list(islice(found, MAX_FOUND))


@dataclass(eq=False)
class TableViews(ExampleViews):
    """A table: the cells of a row but for its label."""

    source: Source
    columns: Sequence[str]

    def view(self, row: int) -> ExampleView:
        one = self.source.frame.select(self.columns).slice(row, 1).collect()
        cells = ["" if cell is None else str(cell)[:MAX_TEXT] for cell in one.row(0)]
        return ExampleView(cells=list(zip(self.columns, cells, strict=True)))

    def search(self, text: str) -> list[int]:
        cells = pl.col(self.columns).cast(pl.String, strict=False).str.to_lowercase()
        has_text = pl.any_horizontal(cells.str.contains(text.lower(), literal=True))
        rows = self.source.frame.select(has_text.alias("found")).with_row_index("row")
        found = rows.filter("found").head(MAX_FOUND).collect(engine="streaming")
        return sorted(found["row"].to_list())


@dataclass(eq=False)
class ArrayViews(ExampleViews):
    """Rows of an array: images, or cells without names."""

    x: Array
    pixels: Pixels | None

    def view(self, row: int) -> ExampleView:
        if self.pixels is not None:
            return ExampleView(image=True)
        cells = enumerate(self.x[row].tolist())
        return ExampleView(cells=[(str(place), f"{value:.6g}") for place, value in cells])

    def image(self, row: int, side: int) -> bytes | None:
        if self.pixels is None:
            return None
        pixels = np.moveaxis(self.pixels.transform(self.x[row : row + 1], FitConfig())[0], 0, -1)
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
        image = Image.fromarray(np.ascontiguousarray(pixels))
        image.thumbnail((side, side))
        return _encode(image)


def _inside(root: Path, name: str) -> Path | None:
    """The file of a name if it lies in the folder: ids may hold anything."""
    path = Path(os.path.realpath(root / name))
    return path if path.is_relative_to(root) and path.is_file() else None


def _encode(image: Image.Image) -> bytes:
    file = io.BytesIO()
    if max(image.size) > JPEG_FROM:
        image.convert("RGB").save(file, "JPEG", quality=88)
    else:
        image.save(file, "PNG")
    return file.getvalue()
