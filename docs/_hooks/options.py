"""The options of `fit`, as a table in place of `<!-- options -->`."""

from dataclasses import fields
from typing import Any

from labelgrad.auto.config import FitConfig

PLACE = "<!-- options -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table into the page that has a place for it."""
    return markdown.replace(PLACE, table()) if PLACE in markdown else markdown


def table() -> str:
    """One row for each field of `FitConfig`."""
    rows = ["| Python | Command | Default | |", "|---|---|---|---|"]
    for each in fields(FitConfig):
        help = each.metadata["help"]
        if choices := each.metadata.get("choices"):
            help += f" One of {', '.join(choices)}."
        flag = f"--{each.name.replace('_', '-')}"
        command = "" if each.metadata.get("python_only") else f"`{flag}`"
        rows.append(f"| `{each.name}` | {command} | `{each.default}` | {help} |")
    return "\n".join(rows)
