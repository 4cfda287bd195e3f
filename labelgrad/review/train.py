"""A training anew in a process of its own: `python -m labelgrad.review.train`, told as it goes.

What to do comes as one line of JSON, and what happens goes out as lines of JSON. The process ends
when whoever began it is gone; the run folder has the checkpoints to go on from.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

EVERY = 0.2  # seconds between two lines about the same


def work(asked: dict[str, Any]) -> dict[str, Any]:
    """Train the run in a folder anew with all that was decided; what to tell at the end."""
    from labelgrad.fitting.fit import fit

    last: dict[str, float] = {}

    def tell(name: str, done: int, total: int, loss: float) -> None:
        now = time.monotonic()
        if done >= total or now - last.get(name, 0.0) > EVERY:
            last[name] = now
            say({"name": name, "done": done, "total": total})

    try:
        result = fit(
            Path(asked["data"]),
            out=Path(asked["folder"]),
            resume=True,
            workers=asked["workers"],
            on_progress=tell,
            **asked["options"],
        )
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        return {"error": str(error)}
    return {"sentence": result.verdict}


def say(what: dict[str, Any]) -> None:
    """One line to whoever listens."""
    try:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()
    except OSError:  # nobody does
        os._exit(1)


def _end_with_the_other() -> None:
    while sys.stdin.readline():
        pass
    os._exit(1)  # checkpoints are whole or not there


if __name__ == "__main__":
    work_to_do = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    say(work(work_to_do))
