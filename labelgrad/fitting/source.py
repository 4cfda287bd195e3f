"""Where the data of a run lie and how they were read, so that it can be trained again from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labelgrad.files import json_bytes, write_whole

FILE = "source.json"


@dataclass(frozen=True)
class Source:
    """What `fit` was given besides its plan: paths are whole, and None is what was not given.

    >>> Source("/data/pets.csv", {"target": "kind"}).options
    {'target': 'kind'}
    """

    data: str | None  # None for what was in memory
    options: dict[str, Any] = field(default_factory=dict)  # of `fit`, that JSON can hold
    in_memory: tuple[str, ...] = ()  # what a file cannot hold: "model", "estimators"

    def save(self, folder: Path) -> None:
        """Keep it in a run folder."""
        write_whole(folder / FILE, json_bytes(asdict(self)))


def source_of(
    data: object,
    paths: Mapping[str, object],
    options: Mapping[str, Any],
    in_memory: Mapping[str, object],
) -> Source:
    """What was given to `fit`, with whole paths; what no file can hold is named.

    >>> source_of([[1.0]], {"labels": None}, {"target": "kind", "strict": False}, {"model": len})
    Source(data=None, options={'target': 'kind'}, in_memory=('model',))
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value}
    lost = [name for name, value in given.items() if not _is_plain(value)]
    lost += [name for name, value in in_memory.items() if value is not None]
    given = {name: value for name, value in given.items() if name not in lost}
    given |= {name: str(Path(str(path)).resolve()) for name, path in paths.items() if path}
    place = str(Path(data).resolve()) if isinstance(data, str | Path) else None
    return Source(place, given, tuple(lost))


def _is_plain(value: object) -> bool:
    try:
        return json.loads(json.dumps(value)) is not None
    except (TypeError, ValueError):
        return False


def load_source(folder: Path) -> Source | None:
    """What a run was made of, if it says so; older ones do not."""
    try:
        found = json.loads((folder / FILE).read_bytes())
        return Source(found["data"], dict(found["options"]), tuple(found["in_memory"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
