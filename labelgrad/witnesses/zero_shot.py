"""A witness that has heard no label: how near each example is to what its class is called.

An encoder with a text side gives pictures and texts features of one space. The probabilities are
the softmax of the cosines between a picture and the classes' descriptions, times the number the
encoder was trained with. A class whose name means nothing is not helped by it, and the pool sees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from labelgrad.inputs.base import Dataset, Encoding, join_few
from labelgrad.inputs.columns import unit_columns
from labelgrad.inputs.encoded import Block, encoder_again
from labelgrad.inputs.folder import listed_labels
from labelgrad.nearest import did_you_mean
from labelgrad.witnesses.aligned import LinearOpinion
from labelgrad.witnesses.base import Array, Opinion

NAME = "zero-shot"
SENTENCE = "a photo of a {}."  # what a picture of a class is called, where nobody says


@dataclass(frozen=True, eq=False)
class ZeroShot:
    """The opinion of an encoder's text side, which no label changes."""

    weight: Array  # (columns, classes)
    bias: Array  # (classes,)
    name: str = NAME
    sees_unlabeled: bool = False
    presumed: bool = False  # names may mean nothing: it must show what it adds

    def hear(self, x: Array, labels: Sequence[Array], classes: int, seed: int) -> Sequence[Opinion]:
        """The same for each version of the labels."""
        return [LinearOpinion(x, self.weight, self.bias) for _ in labels]


def zero_shot(
    dataset: Dataset, encoding: Encoding, descriptions: Mapping[str, str] | None = None
) -> ZeroShot | None:
    """The witness of classes by their names, or by what describes them; None without a text side.

    All features must be of the one encoder.
    """
    blocks = dataset.preprocessing.get("blocks", []) if dataset.frozen_features else []
    has_side = len(blocks) == 1 and bool(blocks[0]["encoder"]["settings"].get("text_side"))
    if not has_side or not dataset.classes:
        if descriptions:
            raise ValueError(
                "`descriptions` are of classes, and are read by an encoder of pictures with a text "
                "side, such as CLIP, which these data do not have; leave them out."
            )
        return None
    block = Block.of(blocks[0])
    side = encoder_again(block.record, encoding).text_side  # type: ignore[attr-defined]
    directions = side.directions(described(dataset.classes, descriptions or {}))
    # Witnesses see (unit - mean) / scale, times one number for all columns.
    unit = float(unit_columns(torch.ones(1, block.width))[0, 0])
    weight = side.scale * block.scale / unit * directions.T
    return ZeroShot(weight, side.scale * directions @ block.mean)


def described(classes: Sequence[str], descriptions: Mapping[str, str]) -> list[str]:
    """What each class is called.

    >>> described(["sea_lion", "cat"], {"cat": "a small pet that purrs"})
    ['a photo of a sea lion.', 'a small pet that purrs']
    """
    strange = [name for name in descriptions if name not in classes]
    if strange:
        hint = did_you_mean(strange[0], classes, f"the classes are {join_few(classes)}.")
        raise ValueError(f"`descriptions` have no class {strange[0]!r} to describe; {hint}")
    usual = {name: SENTENCE.format(name.replace("_", " ")) for name in classes}
    return [descriptions.get(name) or usual[name] for name in classes]


def read_descriptions(given: Mapping[str, str] | str | Path) -> dict[str, str]:
    r"""Descriptions by class, out of a CSV file with the columns class and description.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp(), "classes.csv")
    >>> _ = file.write_text("class,description\ncat,a pet that purrs\n")
    >>> read_descriptions(file)
    {'cat': 'a pet that purrs'}
    """
    if isinstance(given, Mapping):
        wrong = [name for name, text in given.items() if not isinstance(text, str)]
        if wrong:
            raise ValueError(f"`descriptions` must be texts by class, got {given[wrong[0]]!r}.")
        return {str(name): text for name, text in given.items()}
    path = Path(given)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file of descriptions {path}.")
    lines = listed_labels(path, ["class", "label"], ["description"], headless=True)
    found: dict[str, str] = {}
    for line, name, text in lines:
        if found.setdefault(name, text) != text:
            raise ValueError(f"{path.name} describes {name!r} twice, again on line {line}.")
    return found
