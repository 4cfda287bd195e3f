"""What a long computation says while it runs: notes for a person, and progress."""

from __future__ import annotations


class Events:
    """Receives notes and progress, and ignores them; override what you want to see.

    >>> class Printer(Events):
    ...     def note(self, sentence):
    ...         print(sentence)
    >>> Printer().note("Column 'id' is left out: its values all differ.")
    Column 'id' is left out: its values all differ.
    """

    def note(self, sentence: str) -> None:
        """One sentence that a person should read."""

    def progress(self, stage: str, done: int, total: int) -> None:
        """How far a stage is; `done == total` ends it."""


SILENT = Events()
