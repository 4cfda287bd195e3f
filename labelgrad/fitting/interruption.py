"""Ctrl-C as a wish: the work under way is brought to a good end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C a wish that can be asked for, and the second one the usual end."""
    asked: list[int] = []

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signum)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
