"""Lists for people to fill in: CSV files, and the tasks and annotations of Label Studio as JSON.

A task's data hold the id of the example, and the cells, the image or the text to look at; what the
run imputed is its prediction. The project's labeling interface needs `<Choices name="label"
toName="item">`, or `<Number …>` for values, around an object tag with the name `item`.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import polars as pl

from labelgrad.auto.labels import save_labels
from labelgrad.files import write_whole

if TYPE_CHECKING:
    from labelgrad.auto.result import Result

CONTROL, OBJECT = "label", "item"  # names of the tags
LOCAL_FILES = "/data/local-files/?d="  # Label Studio's address of a file in its document root


def save_to_fill_in(result: Result, listed: pl.DataFrame, path: str | Path) -> None:
    """Write a list with an empty label to fill in, as CSV, or as tasks where the path is .json.

    Parameters
    ----------
    result
        The run.
    listed
        Its first column has ids; "label" is what the run imputed, if that is to be shown.
    path
        The file.
    """
    table = listed.rename({"label": "imputed"}, strict=False)
    first, *others = table.columns
    shown = result.with_cells(table.select(first, pl.lit(None, pl.String).alias("label"), *others))
    if PurePath(path).suffix.lower() != ".json":
        save_labels(shown, path)
        return
    imputed = table["imputed"] if "imputed" in others else pl.Series([None] * len(table))
    rows = shown.drop("label").fill_nan(None).rows(named=True)
    tasks = [_task(result, row, label) for row, label in zip(rows, imputed, strict=True)]
    write_whole(Path(path), json.dumps(tasks, ensure_ascii=False, indent=1).encode())


def _task(result: Result, row: dict[str, Any], label: str | float | None) -> dict[str, Any]:
    data = {name: value for name, value in row.items() if value is not None}
    if result.predictor.preprocessor.kind == "images":
        data["image"] = LOCAL_FILES + str(row[result.id_name])
    if label is None:
        return {"data": data}
    value = {"choices": [label]} if result.task.classes else {"number": label}
    tags = {"from_name": CONTROL, "to_name": OBJECT, "type": next(iter(value)), "value": value}
    found = {"model_version": result.digest, "score": row.get("confidence"), "result": [tags]}
    return {"data": data, "predictions": [found]}


def read_annotations(path: Path, id_name: str) -> list[tuple[int, str, str]]:
    """Number, id and label of every task in Label Studio's JSON export; "" where there is none.

    The newest annotation that was not cancelled counts.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "export.json")
    >>> result = [{"from_name": "label", "value": {"choices": ["cat"]}}]
    >>> task = {"data": {"file": "tom.png"}, "annotations": [{"result": result}]}
    >>> _ = file.write_text(json.dumps([task]))
    >>> read_annotations(file, "file")
    [(1, 'tom.png', 'cat')]
    """
    found = []
    try:
        for number, task in enumerate(json.loads(path.read_bytes()), 1):
            kept = [each for each in task["annotations"] if not each.get("was_cancelled")]
            values = [one["value"] for each in kept for one in each["result"]]
            value = values[-1] if values else {}
            label = value["choices"][0] if "choices" in value else value.get("number", "")
            found.append((number, str(task["data"][id_name]), str(label)))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(
            f"{path.name} must be Label Studio's JSON export of tasks that labelgrad wrote, with "
            f"{id_name!r} among their data; export it as JSON ({type(error).__name__}: {error})."
        ) from error
    return found
