"""Examples as dots in two dimensions, coloured by their labels; given labels have a ring.

Colours are classes of the style sheet: `hue0` and so on for classes, `step0` and so on for values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from labelgrad.report.data import ExampleMap, MapDot
from labelgrad.report.svg import WIDTH, Point, chart, cut, number, percent, tag

Numbers = NDArray[np.float64]
COLOURS, CHROMATIC = 10, 8  # the last two colours are greys, which "others" would look like
STEPS = 7  # colours of values, each of about as many dots
OTHERS = "others"
FAINTEST = 0.15  # how opaque a dot is whose label is a guess
EDGE = 6.0  # room for a ring
SLACK = 0.5  # how far the map goes beyond the middle 98 %, as a part of their width
NAME = 80  # letters


class Key(NamedTuple):
    """A colour and what it stands for."""

    style: str
    meaning: str


def map_keys(found: ExampleMap) -> list[Key]:
    """The legend: the commonest classes first, others in grey; or values from low to high.

    >>> dots = [MapDot(0, 0, "1", "cat"), MapDot(1, 0, "2", "dog"), MapDot(2, 0, "3", "dog")]
    >>> [tuple(key) for key in map_keys(ExampleMap(dots, 0.5, 0, 3))]
    [('hue0', 'dog'), ('hue1', 'cat')]
    """
    if _of_values(found):
        edges = _edges(found.dots)
        ends = [f"{number(low)} to {number(high)}" for low, high in pairwise(edges)]
        return [Key(f"step{place}", each) for place, each in enumerate(ends or [number(edges[0])])]
    order = _commonest(found.dots)
    keys = [Key(f"hue{place}", name) for place, name in enumerate(order)]
    rest = len({dot.label for dot in found.dots}) - len(order)
    return [*keys, Key(OTHERS, f"{rest} other classes")] if rest else keys


def map_chart(found: ExampleMap) -> Markup:
    """A dot for each example, the fainter the less sure its label; names show where one points."""
    order = {name: place for place, name in enumerate(_commonest(found.dots))}
    edges = _edges(found.dots) if _of_values(found) else []
    classes = len({dot.label for dot in found.dots})
    places, height = _places(found.dots)
    marks = [tag("rect", class_="frame", x=0.5, y=0.5, width=WIDTH - 1.0, height=height - 1.0)]
    for dot, (x, y) in zip(found.dots, places, strict=True):
        if edges:
            style = f"step{_step(edges, dot.value)}"
        else:
            style = f"hue{order[dot.label]}" if dot.label in order else OTHERS
        marks.append(
            tag(
                "circle",
                tag("title", _said(dot)),
                class_=f"at {style} given" if dot.given else f"at {style}",
                cx=round(x, 1),
                cy=round(y, 1),
                r=3.4 if dot.given else 2.2,
                fill_opacity=_opacity(dot, classes),
            )
        )
    given = sum(dot.given for dot in found.dots)
    how = "laid out so that neighbours stay together (UMAP)."
    if found.spread is not None:
        how = f"in the two directions of widest spread, which carry {percent(found.spread)} of it."
    others = len(found.dots) - given
    spoken = f"{given} labeled examples, ringed, and {others} unlabeled ones {how}"
    return chart("map", "Map of the examples", spoken, height, *marks)


def _of_values(found: ExampleMap) -> bool:
    return any(dot.value is not None for dot in found.dots)


def _commonest(dots: Sequence[MapDot]) -> list[str]:
    """The classes that have a colour of their own."""
    counted = Counter(dot.label for dot in dots)
    order = sorted(counted, key=lambda name: (-counted[name], name))
    return order if len(order) <= COLOURS else order[:CHROMATIC]


def _edges(dots: Sequence[MapDot]) -> list[float]:
    """Where the colours of values end, the lowest and the highest value among them."""
    values = [dot.value for dot in dots if dot.value is not None and math.isfinite(dot.value)]
    parts = np.quantile(values or [0.0], np.linspace(0, 1, STEPS + 1))
    found: list[float] = np.unique(parts).tolist()
    return found


def _step(edges: Sequence[float], value: float | None) -> int:
    inner = edges[1:-1]
    return int(np.searchsorted(inner, math.nan if value is None else value, side="right"))


def _opacity(dot: MapDot, classes: int) -> float:
    """1 where the label is sure, faint where it is no better than chance."""
    if dot.given or dot.probability is None:
        return 1.0 if dot.given else 0.8
    chance = 1 / max(classes, 2)
    part = min(max((dot.probability - chance) / (1 - chance), 0.0), 1.0)
    return round(FAINTEST + (1 - FAINTEST) * part, 2)


def _said(dot: MapDot) -> str:
    name, label = cut(dot.name, NAME), cut(dot.label, NAME)
    if dot.given:
        return f"{name}: {label}, labeled"
    return f"{name}: {label}" + ("" if dot.probability is None else f", {percent(dot.probability)}")


def map_beyond(found: ExampleMap) -> int:
    """How many examples are farther out than the map goes; they stand at its edge."""
    points, low, high = _window(found.dots)
    return int(((points < low) | (points > high)).any(1).sum())


def _window(dots: Sequence[MapDot]) -> tuple[Numbers, Numbers, Numbers]:
    """All places, and where the map ends: a few far out must not press the others together."""
    points = np.array([(dot.x, dot.y) for dot in dots], dtype=float)
    low, high = np.quantile(points, (0.01, 0.99), axis=0)
    slack = SLACK * (high - low).max()
    return points, np.maximum(points.min(0), low - slack), np.minimum(points.max(0), high + slack)


def _places(dots: Sequence[MapDot]) -> tuple[list[Point], float]:
    """Where each dot stands, by one unit in both directions, and how high the chart is."""
    points, low, high = _window(dots)
    room = WIDTH - 2 * EDGE
    unit = room / max((high - low).max(), 1e-12)
    height = max((high - low)[1] * unit, room / 3)
    middle, size = (low + high) / 2, np.array([room, height])
    placed = (np.clip(points, low, high) - middle) * unit * (1, -1) + size / 2 + EDGE
    return [(float(x), float(y)) for x, y in placed], round(height + 2 * EDGE)
