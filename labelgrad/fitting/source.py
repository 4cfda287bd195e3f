"""Where the data of a run lie and how they were read, so that it can be trained again from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from labelgrad.files import digest_of, read_sealed, sealed_json, write_whole
from labelgrad.plain_values import built

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
    opinions_digest: str | None = None

    def save(self, folder: Path) -> None:
        """Keep it in a run folder."""
        write_whole(folder / FILE, sealed_json(asdict(self)))

    def opinions(self, folder: Path) -> str | None:
        """The file of opinions that the run was begun with, which must be there and the same."""
        place: str | None = self.options.get("opinions")
        if place is None or self.opinions_digest is None:
            return place
        if not Path(place).is_file():
            said = "is gone; put it back, or say where it is"
        elif digest_of(Path(place).read_bytes()) != self.opinions_digest:
            said = "has changed; put it back as it was, or say that it is the one"
        else:
            return place
        raise ValueError(
            f"The run in {folder} was begun with the opinions in {place}, and that file {said} "
            f"with `opinions` (--opinions)."
        )


def source_of(
    data: object,
    paths: Mapping[str, object],
    options: Mapping[str, Any],
    in_memory: Mapping[str, object],
) -> Source:
    """What was given to `fit`, with whole paths; what no file can hold is named.

    >>> source_of([[1.0]], {"labels": None}, {"target": "kind", "strict": False}, {"model": len})
    Source(data=None, options={'target': 'kind'}, in_memory=('model',), opinions_digest=None)
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value}
    lost = [name for name, value in given.items() if not _is_plain(value)]
    lost += [name for name, value in in_memory.items() if value is not None]
    given = {name: value for name, value in given.items() if name not in lost}
    given |= {name: str(Path(str(path)).resolve()) for name, path in paths.items() if path}
    place = str(Path(data).resolve()) if isinstance(data, str | Path) else None
    said = paths.get("opinions")
    digest = None if said is None else digest_of(Path(str(said)).read_bytes())
    return Source(place, given, tuple(lost), digest)


def _is_plain(value: object) -> bool:
    try:
        return json.loads(json.dumps(value)) is not None
    except (TypeError, ValueError):
        return False


def load_source(folder: Path) -> Source | None:
    """What a run was made of, if it says so; one that was made in memory alone does not."""
    try:
        found = built(Source, read_sealed((folder / FILE).read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder / FILE} cannot be used ({error}); delete it, and give all options again."
        ) from None
    return found
