"""Requests that the review page must refuse: other hosts and sites, no secret, huge, broken."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
import time
from pathlib import Path

from labelgrad.auto.server import app, serve
from labelgrad.auto.server.app import TimedProtocol
from tests.adversarial.cases import Failure, Part
from tests.adversarial.targets import MINE, copy_run, finished_runs

ROUTES = [
    *("", "api/run", "api/state", "api/queue", "api/example/3", "image/3/96"),
    *("api/draw", "api/annotate", "api/undo", "page.js", "..%2f..%2fetc/passwd", "../mine.txt"),
    *("api/queue?start=-1&count=1e9", "api/queue?order=x&low=nan", "api/example/99999999999999"),
    *("image/3/100000", "api/queue?label=" + "9" * 400, "api/queue?search=" + "%00" * 50),
]
REQUESTS = 20


def body(draw: random.Random) -> bytes:
    """A body that is huge, nested, no JSON, or has wild annotations."""
    label = draw.choice(["yes", None, "", "x" * 10**5, {"a": 1}, float("nan"), "\ud800", 5])
    row = draw.choice([20, -1, 10**30, "x", None, 1.5, [1]])
    one = {"row": row, "label": label, "seen": draw.choice([0, 10**9, "x"])}
    entries = draw.choice([[one], one, [[one]], [one] * 900, "x"])
    whole = {"annotations": entries, "how": draw.choice(["choose", "x"]), "by": []}
    huge = b"x" * (app.MAX_BYTES + 10)
    return draw.choice(
        [b"", b"{", b"[" * 10**5, b"\xff" * 100, huge, *[json.dumps(whole).encode()] * 5]
    )


def exchange(port: int, content: bytes) -> bytes:
    """Send bytes, and read until the connection is closed."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(content)
            while part := connection.recv(65536):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return found


def hostile(draw: random.Random, port: int, secret: str) -> tuple[str, bytes]:
    """What is wrong with a request, and the request."""
    own, route = f"127.0.0.1:{port}", draw.choice(ROUTES)
    wrong = draw.choice(["secret", "host", "origin", "site", "", "", "half", "garbage"])
    more, host, method = "", own, draw.choice(["GET", "POST", "POST", "PUT", "X" * 3000])
    content = body(draw) if method == "POST" else b""
    if wrong == "secret":
        secret = draw.choice(["", "x", secret[:-1], secret + "x", "%00", secret.swapcase(), "é"])
    elif wrong == "host":
        host = draw.choice(["evil.example", "127.0.0.1", f"127.0.0.1.x:{port}", "localhost:1", "é"])
    elif wrong == "origin":
        more = f"origin: {draw.choice(['http://evil.example', 'null', f'https://{own}'])}\r\n"
    elif wrong == "site":
        more = f"sec-fetch-site: {draw.choice(['cross-site', 'same-site', 'x'])}\r\n"
    elif wrong == "garbage":
        return wrong, draw.randbytes(draw.choice([1, 100, 10**5])) + b"\r\n\r\n"
    more += f"content-length: {len(content)}\r\n" if content else ""
    head = f"{method} /{secret}/{route} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n"
    whole = head.encode() + content
    return wrong, whole[: draw.randrange(len(whole))] if wrong == "half" else whole


def start(run: Path) -> tuple[int, str]:
    """A server in a thread of this process; its port and its secret."""
    TimedProtocol.seconds, app.BODY_SECONDS = 1.0, 1.0
    lines: list[str] = []
    settings = {"browser": False, "say": lines.append}
    threading.Thread(target=serve.serve, args=(run,), kwargs=settings, daemon=True).start()
    while not (found := re.search(r"http://127.0.0.1:(\d+)/([^/\s]+)/", "\n".join(lines))):
        time.sleep(0.05)
    return int(found[1]), found[2]


def case(draw: random.Random, place: Path) -> str:
    """Some requests to one server; after all of them it must still answer."""
    run, _ = copy_run(place, "classes")
    port, secret = start(run)
    for _ in range(REQUESTS):
        wrong, request = hostile(draw, port, secret)
        answer = exchange(port, request)
        status = answer[9:12]
        if wrong in ("secret", "host", "origin", "site") and status not in (b"403", b"400", b""):
            raise Failure(f"a request with a wrong {wrong} was answered: {answer[:300]!r}")
        if status[:1] == b"5" or b"Traceback" in answer:
            raise Failure(f"{request[:300]!r} made an error of the server: {answer[:500]!r}")
    last = (
        f"GET /{secret}/api/state HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n"
    )
    if exchange(port, last.encode())[9:12] != b"200" or (run / "mine.txt").read_text() != MINE:
        raise Failure("the server does not answer after all requests, or has changed a file")
    return f"{REQUESTS} requests"


PARTS = [Part("requests", finished_runs, case)]
