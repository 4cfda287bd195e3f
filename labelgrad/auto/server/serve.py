"""Serve the review page until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def serve(
    run: Path,
    say: Callable[[str], None],
    *,
    data: str | Path | None = None,
    port: int = 0,
    browser: bool = True,
    audit: bool = False,
    max_error_rate: float = 0.02,
) -> None:
    """Open the review page of a run, and serve it until Ctrl-C.

    Parameters
    ----------
    run
        The run folder.
    say
        Receives sentences for the terminal.
    data
        The run's data, if they were moved.
    port
        0 is any free port.
    browser
        Open the page in the browser.
    audit
        Begin with an audit.
    max_error_rate
        The guarantee to audit for.
    """
    try:
        import uvicorn

        from labelgrad.auto.server.app import LOOPBACK, TimedProtocol, make_app
    except ImportError:
        raise ImportError("The review page needs pip install 'labelgrad[review]'.") from None
    from labelgrad.auto.server.session import ReviewSession

    session = ReviewSession(run, data=data, max_error_rate=max_error_rate)
    bound, secret = bound_socket(LOOPBACK, port), secrets.token_urlsafe(24)
    port = bound.getsockname()[1]
    address = f"http://{LOOPBACK}:{port}/{secret}/{'#audit' if audit else ''}"
    for sentence in (session.facts()["problem"], *session.log.notes):
        if sentence:
            say(sentence)
    say(f"The review page, for this machine only: {address}")
    say(f"Annotations are saved at once in {session.log.path}; Ctrl-C ends.")
    settings = uvicorn.Config(
        make_app(session, secret, port),
        http=TimedProtocol,
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    # SciPy takes a second to import, and every state needs it.
    threading.Thread(target=import_module, args=("scipy.stats",), daemon=True).start()
    if browser:
        webbrowser.open(address)
    try:
        uvicorn.Server(settings).run(sockets=[bound])
    finally:
        session.retraining.stop()


def bound_socket(address: str, port: int) -> socket.socket:
    """A socket on an address of this machine; port 0 is any free one."""
    try:
        return socket.create_server((address, port), backlog=64)  # early requests wait for it
    except OSError as error:
        why = f"({error.strerror}); choose another with --port"
        raise OSError(f"Port {port} cannot be used {why}.") from None
