"""Examples outside of a section "Examples" become code; Markdown would quote lines with `>>>`."""

import re
from typing import Any

import griffe

# An example goes from its first prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*?(?=\n[ ]*\n|\Z)", re.DOTALL | re.MULTILINE)
SECTION = re.compile(r"^Examples\n-+$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrite each docstring once, before it is rendered."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class and function that is read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            section = SECTION.search(text)
            end = section.start() if section else len(text)
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", text[:end]) + text[end:]
