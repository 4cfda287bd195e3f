"""Reading: what the data are decides which kind of data reads them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset, Preprocessor
from labelgrad.auto.data.sources import SUFFIXES
from labelgrad.auto.events import SILENT, Events

KINDS = {  # by module of labelgrad.auto.data; the first that takes the data reads them
    "tables": "TABLES",
    "texts": "TEXT_FOLDERS",
    "images": "IMAGE_FOLDERS",
    "arrays": "ARRAYS",
}
OPTIONS = {  # that only some kinds have
    "labels": ("images", "texts"),
    "size": ("images",),
    **dict.fromkeys(("target", "dates", "text"), ("table",)),
}


class Kind(Protocol):
    """A kind of data; a new one is a module with such an object, and its name in `KINDS`."""

    name: str

    def takes(self, data: Any) -> bool:
        """Whether a path or an object is data of this kind."""
        ...

    def read(self, data: Any, y: Any, config: FitConfig, events: Events = SILENT) -> Dataset:
        """Examples and labels out of a path or an object."""
        ...

    def preprocessor_from_dict(self, saved: Mapping[str, Any]) -> Preprocessor:
        """The preprocessor that a saved run had."""
        ...


def kinds() -> list[Kind]:
    """All kinds of data, in the order in which they are tried."""
    modules = {name: import_module(f"labelgrad.auto.data.{name}") for name in KINDS}
    return [getattr(modules[name], kind) for name, kind in KINDS.items()]


def read(
    data: Any, y: Any = None, config: FitConfig | None = None, events: Events = SILENT
) -> Dataset:
    r"""Read a table, a folder of images or texts, an .npz file, a data frame or an array.

    Parameters
    ----------
    data
        A path, a data frame, or an array with one row for each example.
    y
        The labels of an array, or of a data frame without a target: -1, NaN or None where there is
        none.
    config
        What the data are and how they are to be read.
    events
        Receives notes and progress.

    Returns
    -------
    Dataset
        Features, labels, ids and the preprocessor for new data.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,legs,pet\n4,4,cat\n30,4,dog\n0.1,2,\n")
    ...     pets = read(file, config=FitConfig(target="pet"))
    >>> pets.task.display(pets.y), pets.X.shape
    (['cat', 'dog', None], (3, 2))
    >>> read([[0.5], [1.0], [2.0]], [0, 1, -1]).y
    array([ 0,  1, -1])
    """
    config = config or FitConfig()
    data = located(data)
    if isinstance(data, Path) and y is not None:
        raise ValueError(
            "`y` is for arrays and data frames; a file or folder has its labels in it."
        )
    every = kinds()
    kind = next((kind for kind in every if kind.takes(data)), None)
    if kind is None:
        raise ValueError(
            f"Data must be a table ({', '.join(SUFFIXES)}), a folder of Parquet files, images or "
            f"texts, an .npz file, a data frame or an array, got {data}."
        )
    for option, owners in OPTIONS.items():
        if getattr(config, option) and kind.name not in owners:
            raise ValueError(
                f"`{option}` is for {' or '.join(owners)}, and the data are {kind.name}; leave it "
                f"out."
            )
    return kind.read(data, y, config, events)


def preprocessor_from_dict(saved: Mapping[str, Any]) -> Preprocessor:
    """The preprocessor that `Preprocessor.to_dict` wrote down."""
    names = {kind.name: kind for kind in kinds()}
    if saved["kind"] not in names:
        known = ", ".join(names)
        raise ValueError(f"A saved preprocessor must be of {known}, got {saved['kind']!r}.")
    return names[saved["kind"]].preprocessor_from_dict(saved)


def located(data: Any) -> Any:
    """A string as a path, which must exist; other data as they are."""
    if not isinstance(data, str | Path):
        return data
    path = Path(data).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    return path
