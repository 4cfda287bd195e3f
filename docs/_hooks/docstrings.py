"""Docstrings as Markdown: their examples become code, and NumPy's sections become lists.

Left alone, Markdown takes `>>>` for a quotation and an underlined word for a heading.
"""

import re
from typing import Any

import griffe

# An example goes from its first prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*?(?=\n[ ]*\n|\Z)", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^(\w+)\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, ]*) : ", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrite each docstring once, before it is drawn."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class and function that is read."""
        if obj.docstring is not None:
            text = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
            obj.docstring.value = SECTION.sub(_as_list, text)


def _as_list(section: re.Match[str]) -> str:
    """`name : what it is` as an entry of a list."""
    title, entries = section.groups()
    return f"**{title}**\n\n" + ENTRY.sub(lambda entry: f"- `{entry[1]}`: ", entries)
