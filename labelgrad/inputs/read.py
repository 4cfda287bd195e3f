"""From a path to a `Dataset`: what is there decides how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from labelgrad.inputs.arrays import array_source, prepare_arrays, read_arrays
from labelgrad.inputs.dataset import VERSION, Dataset, Prepared
from labelgrad.inputs.images import prepare_album, read_album
from labelgrad.inputs.table import prepare_table, read_table
from labelgrad.inputs.targets import TASKS

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npz",)
LARGEST_SIZE = 1024
Place = str | Path


def read(
    data: Place,
    *,
    labels: Place | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
) -> Dataset:
    r"""Read a folder of pictures, a table (CSV or Parquet) or an .npz file with `x` and `y`.

    A folder has a subfolder for each class and `unlabeled`, or a `labels` file with the columns
    file and label; pictures are made `size`×`size`, and a damaged one is skipped unless `strict`.
    A table has its labels in the column `target`, empty where there is none. In an .npz file
    unlabeled is -1 or NaN. Classes or numbers? The labels decide, unless `task` does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,legs,pet\n4,4,cat\n30,4,dog\n0.1,2,\n")
    ...     pets = read(file, target="pet")
    ...     new = prepare(pets.preparation, file)
    >>> pets.summary
    {'labeled': 2, 'unlabeled': 1, 'skipped': 0, 'classes': {'cat': 1, 'dog': 1}}
    >>> bool((new.x == pets.x).all())
    True
    """
    path = Path(data)
    kind = _kind(path)
    _check_options(kind, labels=labels, target=target, task=task, size=size)
    if kind == "pictures":
        file = None if labels is None else Path(labels)
        return read_album(path, labels=file, task=task, size=size, strict=strict)
    if kind == "table":
        return read_table(path, target=target, task=task)
    return read_arrays(path, task=task)


def read_given(
    data: Place | ArrayLike,
    y: ArrayLike | None = None,
    *,
    task: str | None = None,
    **reading: Any,
) -> Dataset:
    """What a person hands over: a path, with the options of `read`, or an array with its labels.

    >>> read_given([[0.5], [1.0], [2.0]], [0, 1, -1]).summary["unlabeled"]
    1
    """
    if isinstance(data, str | Path):
        if y is not None:
            raise ValueError("`y` is for arrays; a file or folder has its labels in it.")
        return read(data, task=task, **reading)
    if y is None:
        raise ValueError("An array needs its labels: (x, y), with -1 or NaN where unlabeled.")
    return array_source(np.asarray(data), np.asarray(y), task=task)


def prepare(preparation: dict[str, Any], data: Place, *, strict: bool = False) -> Prepared:
    """Read new data without labels the way `preparation`, of a `Dataset`, read the old.

    Pictures may lie in the folder in any way, and one picture alone will do; a table needs the
    columns that were used; an .npz file needs `x`.
    """
    if preparation.get("version") != VERSION:
        raise ValueError(
            f"The preparation must be of version {VERSION}, got {preparation.get('version')!r}; "
            f"read the training data anew."
        )
    path, wanted = Path(data), preparation["kind"]
    one_picture = wanted == "pictures" and path.is_file()
    kind = wanted if one_picture else _kind(path)
    if kind != wanted:
        raise ValueError(
            f"New data must be {wanted} like the training data, and {path} holds {kind}."
        )
    if kind == "pictures":
        return prepare_album(preparation, path, strict=strict)
    return (
        prepare_table(preparation, path) if kind == "table" else prepare_arrays(preparation, path)
    )


def _kind(path: Path) -> str:
    if path.is_dir():
        return "pictures"
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    suffix = path.suffix.lower()
    if path.is_file() and suffix in TABLES:
        return "table"
    if path.is_file() and suffix in ARRAYS:
        return "arrays"
    raise ValueError(
        f"Data must be a folder of pictures, a table ({', '.join(TABLES)}) or an .npz file, "
        f"got {path}."
    )


def _check_options(kind: str, **options: Any) -> None:
    belongs = {"labels": "pictures", "size": "pictures", "target": "table"}
    for name, owner in belongs.items():
        if options[name] is not None and kind != owner:
            raise ValueError(f"`{name}` is for {owner}, and the data are {kind}; leave it out.")
    task, size = options["task"], options["size"]
    if task is not None and task not in TASKS:
        raise ValueError(f"`task` must be one of {', '.join(TASKS)}, got {task!r}.")
    if size is not None and not (isinstance(size, int) and 1 <= size <= LARGEST_SIZE):
        raise ValueError(f"`size` must be from 1 to {LARGEST_SIZE} pixels, got {size}.")
