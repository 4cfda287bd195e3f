"""Options of the commands: those of `FitConfig`, and types of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from labelgrad.auto.config import FitConfig

FILE = click.Path(path_type=Path)
Command = TypeVar("Command", bound=Callable[..., Any])


class Share(click.ParamType[float]):
    """A share of all, as `2%` or `0.02`."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """The share as a number."""
        if isinstance(value, float):
            return value
        number, percent, rest = str(value).strip().partition("%")
        share = _number(number) / (100 if percent else 1)
        if rest or not 0 < share < 1:
            self.fail(f"{value!r} is not a share such as 2% or 0.02.", param, ctx)
        return share


class ClassPrior(click.ParamType[dict[str, float]]):
    """Shares of classes, such as `cat=0.2,dog=0.8`; a class may have `=` in its name."""

    name = "prior"

    def convert(self, value: Any, param: Any, ctx: Any) -> dict[str, float]:
        """The shares by class."""
        if isinstance(value, Mapping):
            return dict(value)
        prior: dict[str, float] = {}
        for word in str(value).split(","):
            name, _, number = (part.strip() for part in word.rpartition("="))
            share = _number(number)
            if not name or name in prior or not 0 < share < math.inf:
                self.fail(f"{word!r} is not a class with a share, such as cat=0.2.", param, ctx)
            prior[name] = share
        return prior


def _number(text: str) -> float:
    with suppress(ValueError):
        return float(text)
    return math.nan


def config_options(*names: str, leave_out: tuple[str, ...] = ()) -> Callable[[Command], Command]:
    """Add the options of `FitConfig` to a command: those named, or all but those left out."""

    def add(command: Command) -> Command:
        for each in reversed(fields(FitConfig)):
            wanted = each.name in names if names else each.name not in leave_out
            if wanted and not each.metadata.get("python_only"):
                command = _option(each)(command)
        return command

    return add


def _option(each: Field[Any]) -> Callable[[Any], Any]:
    flag = f"--{each.name.replace('_', '-')}"
    settings: dict[str, Any] = {"help": each.metadata["help"], "default": None}
    kind, choices = str(each.type).replace("[", " ").split()[0], each.metadata.get("choices")
    if kind == "bool":
        return click.option(f"{flag}/--no-{flag[2:]}", **settings)
    types = {"int": int, "float": float, "Mapping": ClassPrior()}
    settings["type"] = click.Choice(choices) if choices else types.get(kind)
    if each.default not in (None, ()) and each.default is not False:
        settings["help"] += f" [default: {each.default}]"
    return click.option(flag, metavar=each.metadata.get("metavar"), **settings)
