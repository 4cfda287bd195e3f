"""The kinds of data, and the one way in: what is handed over decides how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labelgrad.encoders.base import NONE
from labelgrad.inputs.arrays import Arrays
from labelgrad.inputs.base import VERSION, Dataset, Encoding, Inputs, InputType, Prepared, Reading
from labelgrad.inputs.images import ImageFolder
from labelgrad.inputs.table import Table
from labelgrad.inputs.targets import TASKS
from labelgrad.inputs.text_folder import TextFolder

KINDS: tuple[InputType, ...] = (
    Table(),
    TextFolder(),
    ImageFolder(),
    Arrays(),
)  # the first that takes it reads


def kind_named(name: str) -> InputType:
    """The kind of a name, as a `Dataset` has it.

    >>> kind_named("pictures").key, kind_named("table").key
    ('file', 'row')
    """
    for kind in KINDS:
        if kind.name == name:
            return kind
    known = ", ".join(kind.name for kind in KINDS)
    raise ValueError(f"A kind of data must be one of {known}, got {name!r}.")


def read(
    data: Any,
    y: Any = None,
    *,
    labels: str | Path | None = None,
    target: str | None = None,
    task: str | None = None,
    size: int | None = None,
    strict: bool = False,
    dates: str | None = None,
    text: str | Sequence[str] | None = None,
    picture: str | Sequence[str] | None = None,
    encoding: Encoding | None = None,
) -> Dataset:
    r"""Read a folder of pictures or texts, a table, an .npz file, a data frame or an array.

    A folder has a subfolder for each class and `unlabeled`, or a `labels` file with the columns
    file and label; pictures are made `size`×`size`, and a damaged one is skipped unless `strict`.
    A table or a data frame has its labels in the column `target`, empty where there is none. An
    .npz file has `x` and `y`. With an array comes its `y`, and with a data frame it may: unlabeled
    is -1, NaN or missing. Classes or numbers? The labels decide, unless `task` does. How numbers
    and dates are written the columns tell; `dates` is "day-first" or "month-first" where they
    cannot.

    Pictures and texts are read by an encoder, `encoding` says which; columns of a table that hold
    texts or paths of pictures are found, or named by `text` and `picture`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "pets.csv")
    ...     _ = file.write_text("weight,legs,pet\n4,4,cat\n30,4,dog\n0.1,2,\n")
    ...     pets = read(file, target="pet")
    ...     new = prepare(pets.preprocessing, file)
    >>> pets.summary
    {'labeled': 2, 'unlabeled': 1, 'skipped': 0, 'classes': {'cat': 1, 'dog': 1}}
    >>> bool((new.x == pets.x).all())
    True
    >>> read([[0.5], [1.0], [2.0]], [0, 1, -1]).y
    tensor([ 0,  1, -1])
    """
    data = _located(data)
    if isinstance(data, Path) and y is not None:
        raise ValueError("`y` is for arrays; a file or folder has its labels in it.")
    kind = _kind_of(data)
    encoding = encoding or Encoding()
    asked: dict[str, Any] = {"labels": labels, "size": size, "target": target, "dates": dates}
    asked |= {"text": text, "picture": picture}
    asked["encoder"] = next((one for one in encoding.encoders if one != NONE), None)
    for name, option in asked.items():
        if option is not None and name not in kind.options:
            owner = " or ".join(other.name for other in KINDS if name in other.options)
            raise ValueError(
                f"`{name}` is for {owner}, and the data are {kind.name}; leave it out."
            )
    if task is not None and task not in TASKS:
        raise ValueError(f"`task` must be one of {', '.join(TASKS)}, got {task!r}.")
    file = None if labels is None else Path(labels)
    reading = Reading(
        y,
        file,
        target,
        task,
        size,
        strict,
        dates,
        text=_listed(text),
        picture=_listed(picture),
        encoding=encoding,
    )
    return kind.read(data, reading)


def read_inputs(X: Any) -> Inputs:
    """Treat an array or a data frame as `read` does, without labels.

    >>> read_inputs([[1.0, 7.0], [3.0, 7.0]]).x.round(decimals=2)
    tensor([[-2.1200,  0.0000],
            [ 2.1200,  0.0000]])
    """
    if isinstance(X, str | Path):
        raise ValueError(f"X must be an array or a data frame, got the path {str(X)!r}.")
    return _kind_of(X).inputs(X)


def prepare(
    preprocessing: dict[str, Any],
    data: Any,
    *,
    strict: bool = False,
    encoding: Encoding | None = None,
) -> Prepared:
    """Read new data without labels the way `preprocessing`, of a `Dataset`, read the old.

    Pictures may lie in the folder in any way, and one picture alone will do; a table or a data
    frame needs the columns that were used; an .npz file needs `x`.
    """
    kind, data = _kind_for(preprocessing, data)
    return kind.prepare(preprocessing, data, strict=strict, encoding=encoding or Encoding())


def prepare_in_parts(
    preprocessing: dict[str, Any],
    data: Any,
    *,
    strict: bool = False,
    encoding: Encoding | None = None,
) -> Iterator[Prepared]:
    """The same, some thousand examples at a time where the kind of data can be read so."""
    kind, data = _kind_for(preprocessing, data)
    return kind.prepare_in_parts(
        preprocessing, data, strict=strict, encoding=encoding or Encoding()
    )


def _kind_for(preprocessing: dict[str, Any], data: Any) -> tuple[InputType, Any]:
    """The kind that is to read new data, which must be of it, and where they are."""
    if preprocessing.get("version") != VERSION:
        raise ValueError(
            f"The preprocessing must be of version {VERSION}, got {preprocessing.get('version')!r};"
            f" read the training data anew."
        )
    data, kind = _located(data), kind_named(preprocessing["kind"])
    if kind.takes(data, new=True):
        return kind, data
    wanted = f"New data must be {kind.name} like the training data"
    if isinstance(data, Path):
        raise ValueError(f"{wanted}, and {data} holds {_kind_of(data).name}.")
    raise ValueError(f"{wanted}: give {kind.what}, not a {type(data).__name__}.")


def _listed(columns: str | Sequence[str] | None) -> Sequence[str]:
    return [] if columns is None else [columns] if isinstance(columns, str) else list(columns)


def _located(data: Any) -> Any:
    """A text is a path, and there must be something."""
    if not isinstance(data, str | Path):
        return data
    path = Path(data)
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    return path


def _kind_of(data: Any) -> InputType:
    for kind in KINDS:
        if kind.takes(data):
            return kind
    *first, last = (kind.what for kind in KINDS)
    raise ValueError(f"Data must be {', '.join(first)} or {last}, got {data}.")
