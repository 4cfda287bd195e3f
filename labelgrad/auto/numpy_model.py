"""A model of a table in one file: raw columns in, probabilities or values out.

It needs Python and NumPy, and nothing else. `labelgrad export RUN --to numpy` writes it. `MODEL`,
at the end of the exported file, has the weights and how each column is read.

    from model import MODEL
    MODEL.predict({"age": ["31", None], "town": ["Ulm", "Bonn"]})
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PLAIN = r"(?i)[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan)"
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
EPOCH = date(1970, 1, 1).toordinal()
LIMIT = 1e6  # of a standardized number


class Model:
    """Preprocessing of columns and a network behind it.

    Attributes
    ----------
    classes
        In the order of the probabilities; empty if values are predicted.
    names
        Of the columns that are needed.

    """

    def __init__(self, about: Mapping[str, Any], packed: str):
        self.about, self.classes = about, tuple(about["classes"])
        self.names = tuple(column["name"] for column in about["columns"])
        with np.load(io.BytesIO(base64.b64decode(packed)), allow_pickle=False) as file:
            self.weights = [file[name].astype(np.float64) for name in file.files]

    def predict(self, columns: Mapping[str, Iterable[Any]]) -> Array:
        """Probabilities (rows, classes), or values (rows,).

        Parameters
        ----------
        columns
            The cells of each column by its name, as a dictionary or a data frame: strings as in a
            CSV file, numbers, dates; None, NaN or an empty string where missing.

        """
        lacking = [name for name in self.names if name not in columns]
        if lacking:
            raise ValueError(
                f"The model needs the columns {self.names}, and {lacking} are missing."
            )
        blocks = [self._features(each, columns[each["name"]]) for each in self.about["columns"]]
        if len({len(block) for block in blocks}) > 1:
            raise ValueError("All columns must have the same number of cells.")
        x = np.hstack(blocks).astype(np.float32) * self.about["factor"] + self.about["shift"]
        for layer in range(0, len(self.weights), 2):
            weight, bias = self.weights[layer : layer + 2]
            x = (np.maximum(x, 0) if layer else x) @ weight.T + bias
        if not self.classes:
            return np.asarray(x[:, 0] * self.about["scale"] + self.about["mean"])
        x = np.exp((x - x.max(1, keepdims=True)) / self.about["temperature"])
        x = np.maximum(x / x.sum(1, keepdims=True), self.about["least"])
        return np.asarray(x / x.sum(1, keepdims=True))

    def _features(self, column: Mapping[str, Any], cells: Iterable[Any]) -> Array:
        if column["kind"] == "category":
            codes = [self._code(column, self._clean(cell)) for cell in cells]
            ones: Array = np.eye(column["width"] + 1, column["width"])[np.array(codes, dtype=int)]
            return ones
        values = np.array([self._value(column, *each) for each in enumerate(cells, 1)], dtype=float)
        known = np.isfinite(values)
        with np.errstate(over="ignore"):
            scaled = (np.where(known, values, column["median"]) - column["mean"]) / column["scale"]
        clipped = np.clip(scaled, -LIMIT, LIMIT)
        return np.stack([clipped, ~known] if column["missing"] else [clipped], axis=1)

    def _clean(self, cell: Any) -> str | None:
        """A cell as text, whole numbers without a decimal point; None where missing."""
        if isinstance(cell, float | np.floating) and float(cell).is_integer():
            cell = int(cell) if abs(float(cell)) < 2**53 else cell
        text = "" if cell is None else str(cell).strip()
        return None if text.lower() in self.about["missing"] else text

    def _code(self, column: Mapping[str, Any], text: str | None) -> int:
        """Which feature of a category is 1; the width where none is."""
        width = int(column["width"])
        if text is None:
            return width - int(column["missing"])
        truth = self.about["truth"] if column["boolean"] else {}
        texts = [truth.get(each.lower(), each) for each in column["texts"]]
        meaning = truth.get(text.lower(), text)
        rare = len(texts) if column["other"] else width
        return texts.index(meaning) if meaning in texts else rare

    def _value(self, column: Mapping[str, Any], row: int, cell: Any) -> float:
        """A number, or a date in days since 1970; NaN where missing."""
        patterns, number = column["dates"], column["number"]
        if patterns and isinstance(cell, date | np.datetime64):
            return _days_of(cell)
        if not patterns and isinstance(cell, Number) and not isinstance(cell, bool):
            return float(cell)  # type: ignore[arg-type]
        text = self._clean(cell)
        if text is None:
            return np.nan
        if patterns:
            value = _read_date(text, patterns)
        elif number:
            value = _read_number(text.translate(str.maketrans(self.about["typeset"])), number)
        else:
            value = float(text) if re.fullmatch(PLAIN, text) else None
        if value is None:
            what = "dates" if patterns else "numbers"
            raise ValueError(
                f"The column {column['name']!r} must hold {what} as in the training data, and row "
                f"{row} holds {text!r}."
            )
        return value


def _days_of(moment: Any) -> float:
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    found = np.datetime64(moment, "us")
    return np.nan if np.isnat(found) else float(found.astype(np.int64)) / 86400e6


def _read_number(text: str, form: Mapping[str, Any]) -> float | None:
    """The number in a text with a sign, brackets or a unit; None if it has another format."""
    found = re.fullmatch(form["written"], text.strip())
    if not found:
        return None
    part = {name: value or "" for name, value in found.groupdict().items()}
    signs, in_brackets = part["sign"] + part["inner"] + part["last"], part["open"] != ""
    units = [part[name] for name in ("outer", "before", "after", "end") if part[name]]
    if in_brackets != (part["close"] != "") or len(signs) + in_brackets > 1 or len(units) > 1:
        return None
    if (units and units[0] != form["unit"]) or not re.fullmatch(form["digits"], part["body"]):
        return None
    digits = part["body"].replace(form["thousands"], "").replace(form["decimal"], ".", 1)
    value = float(digits)
    if form["percent"] and not units and value:  # 0.12 beside 12 % may be the same
        return None
    return -value if in_brackets or signs == "-" else value


def _read_date(text: str, patterns: Iterable[str]) -> float | None:
    """The date in a text, in days since 1970 in UTC; None if it has another format."""
    found = next(filter(None, (re.fullmatch(pattern, text) for pattern in patterns)), None)
    if not found:
        return None
    part = {name: (value or "").lower() for name, value in found.groupdict().items()}
    year, month, half, zone = part["year"], part["month"][:3], part["half"], part["zone"]
    if len(year) == 2:
        year = ("19" if year >= "69" else "20") + year
    hour, minute = int(part["hour"] or 0), int(part["minute"] or 0)
    second = float(part["second"].replace(",", ".") or 0)
    if not (1 <= hour <= 12 if half else hour <= 23) or minute > 59 or second >= 60:
        return None
    hour = hour % 12 + 12 * (half[0] == "p") if half else hour
    if zone[:1] in ("+", "-"):
        digits = zone[1:].replace(":", "").ljust(4, "0")
        minute -= int(zone[0] + "1") * (60 * int(digits[:2]) + int(digits[2:]))
    try:
        number = MONTHS.index(month) + 1 if month in MONTHS else int(month)
        day = date(int(year), number, int(part["day"])).toordinal() - EPOCH
    except ValueError:
        return None
    return day + (3600 * hour + 60 * minute + second) / 86400
