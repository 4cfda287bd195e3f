"""The rows of label tables in checkpoints, which know nothing of how many processes had them.

The first process writes. It gets the others' rows some at a time, so that it never holds more of
them than that, and no machine needs to see another's disk. A table that is small lies in the
checkpoint itself, the same whoever had its rows. Of a larger one each file beside it has a range of
rows. Whoever goes on with the run, the first process reads, and each takes the rows that are its
own.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from labelgrad.group import Group
from labelgrad.labels.table import LabelTable
from labelgrad.training.checkpoint import Checkpoints, RowFile, State
from labelgrad.training.errors import CheckpointError

SIZE = 2**26  # bytes that are held at once, and of a table that is small


def collect(
    state: State, tables: Mapping[str, LabelTable], checkpoints: Checkpoints | None
) -> CheckpointError | None:
    """Bring the rows of all processes into the first one's state, or into files beside it.

    Gives what kept the first process, which has `checkpoints`, from writing: the others are not to
    wait for rows that it no longer takes.

    >>> table = LabelTable(5, 2)
    >>> state = State({f"table.{name}": value for name, value in table.state_dict().items()})
    >>> collect(state, {"table": table}, None)
    >>> state.tensors["table.values"].shape
    torch.Size([5, 3, 2])
    """
    failure, files = None, []
    for name, table in tables.items():
        if table.nbytes <= SIZE and table.group.size > 1:
            parts = [kept for _, kept in table.row_parts(SIZE)]
            for key in parts[0]:
                state.tensors[f"{name}.{key}"] = torch.cat([part[key] for part in parts])
        elif table.nbytes > SIZE:
            for rows, kept in table.row_parts(SIZE):
                for key in kept:
                    state.tensors.pop(f"{name}.{key}", None)
                if checkpoints is None or failure is not None:
                    continue
                try:
                    files.append(checkpoints.save_rows(state.info["step"], name, rows, kept))
                except CheckpointError as error:
                    failure = error
    if files:
        state.info["rows"] = files
    return failure


def make_room(state: State, tables: Mapping[str, LabelTable]) -> list[RowFile]:
    """The files of rows beside a checkpoint; in its state stand what they will be put over."""
    files = [RowFile(*kept) for kept in state.info.get("rows", ())]
    for name in {file.table for file in files}:
        state.tensors = {**tables[name].state_dict(prefix=f"{name}."), **state.tensors}
    return files


def hand_out(
    files: list[RowFile],
    tables: Mapping[str, LabelTable],
    checkpoints: Checkpoints | None,
    group: Group,
) -> None:
    """Read rows in the first process, and let each process take its own."""
    for file in files:

        def read(file: RowFile = file) -> tuple[slice, dict[str, torch.Tensor]]:
            assert checkpoints is not None
            return checkpoints.load_rows(file)

        tables[file.table].put_rows(*group.first(read))
