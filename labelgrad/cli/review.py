"""`labelgrad review`: open the page to work on a run, and stay until Ctrl-C."""

from __future__ import annotations

import os
import secrets
import webbrowser
from pathlib import Path

from labelgrad.cli.console import Terminal, say
from labelgrad.review.desk import Desk
from labelgrad.review.server import LOOPBACK, bound_socket, check_installed, serve

MOST_WORKERS = 8


def run_review(
    run: Path, *, data: Path | None, port: int, browser: bool, audit: bool, at_most: float
) -> None:
    """Say where the page is, open it, and serve it."""
    check_installed()
    console = Terminal()
    desk = Desk(run, data=data, at_most=at_most, workers=min(MOST_WORKERS, os.cpu_count() or 1))
    bound = bound_socket(port)
    secret = secrets.token_urlsafe(24)
    page = f"http://{LOOPBACK}:{bound.getsockname()[1]}/{secret}/"
    address = page + "#audit" if audit else page
    problem = desk.facts()["problem"]
    if problem:
        say(console, problem)
    say(console, f"The page to work on, for this machine only: {address}")
    say(console, f"Every decision is kept at once in {desk.decisions.path}; Ctrl-C ends it.")
    if browser:
        webbrowser.open(address)
    serve(desk, bound, secret)
