"""What a process that was started by another one has to do for it: to leave when it does."""

from __future__ import annotations

import os
import signal
from multiprocessing import parent_process
from threading import Thread


def begin_child() -> None:
    """Leave Ctrl-C to the parent, and end when the parent is gone, killed or not."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this worker, busy or idle, when its parent is gone: killed, it could not tell anybody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
