"""The page over HTTP, for one person's own machine.

Every request needs the secret as the first part of its path, a Host of this machine, and no other
site as its origin. Examples are addressed by number; no part of a path reaches the disk.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from labelgrad.auto.queue import Query
from labelgrad.auto.server.session import Refused, ReviewSession
from labelgrad.files import read_json

HERE = Path(__file__).parent
REPORT, COMMON = HERE.parent / "report", "common.css"  # the look of both pages
LOOPBACK = "127.0.0.1"
MAX_BYTES = 2**18  # of a request; a page of annotations has a tenth of it
BODY_SECONDS = 10.0  # within which the body of a request must arrive
SIDES = (96, 192, 1024)  # of images, in pixels
SCRIPT = "text/javascript; charset=utf-8"
ASSETS = (
    dict.fromkeys((COMMON, "page.css"), "text/css; charset=utf-8")
    | dict.fromkeys(("page.js", "parts.js", "one.js", "grid.js", "picker.js"), SCRIPT)
    | {"icon.svg": "image/svg+xml"}
)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def make_app(session: ReviewSession, secret: str, port: int) -> App:
    """The ASGI application of a session."""

    def asset(name: str, kind: str) -> Callable[[Request], Response]:
        content = ((REPORT if name == COMMON else HERE) / name).read_bytes()
        return lambda request: Response(content, media_type=kind)

    def get(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
        return lambda request: JSONResponse(answer(request))

    def post(answer: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            sent = await _body(request)
            return JSONResponse(await run_in_threadpool(answer, sent))

        return endpoint

    def queue(request: Request) -> Any:
        query, start, count, previews = _query(request)
        return session.queue(query, start, count, previews=previews)

    def example(request: Request) -> Any:
        blind = request.query_params.get("blind") == "1"
        return session.example(request.path_params["row"], blind=blind)

    def image(request: Request) -> Response:
        return _image(session, **request.path_params)

    def annotate(sent: dict[str, Any]) -> Any:
        how, by = str(sent.get("how")), str(sent.get("by"))[:40]
        return session.annotate(sent.get("annotations") or [], how=how, by=by)

    def undo(sent: dict[str, Any]) -> Any:
        return session.undo(sent.get("annotations") or [], by=str(sent.get("by"))[:40])

    routes = [
        Route("/", asset("page.html", "text/html; charset=utf-8")),
        *(Route(f"/{name}", asset(name, kind)) for name, kind in ASSETS.items()),
        Route("/api/run", get(lambda request: session.facts())),
        Route("/api/state", get(lambda request: session.state())),
        Route("/api/queue", get(queue)),
        Route("/api/example/{row:int}", get(example)),
        Route("/image/{row:int}/{side:int}", image),
        Route("/api/audit", get(lambda request: session.open_audits())),
        Route("/api/draw", post(lambda sent: session.draw()), methods=["POST"]),
        Route("/api/annotate", post(annotate), methods=["POST"]),
        Route("/api/undo", post(undo), methods=["POST"]),
        Route("/api/retrain", post(lambda sent: session.retrain()), methods=["POST"]),
    ]
    handlers: Any = {HTTPException: _refusal, ValueError: _refusal, OSError: _refusal}
    return guarded(Starlette(routes=routes, exception_handlers=handlers), secret, port)


def _image(session: ReviewSession, row: int, side: int) -> Response:
    found = session.image(row, side) if side in SIDES else None
    if found is None:
        raise Refused("There is no such image.")
    kind = "image/png" if found.startswith(b"\x89PNG") else "image/jpeg"
    return Response(found, media_type=kind, headers={"cache-control": "private, max-age=3600"})


def _query(request: Request) -> tuple[Query, int, int, bool]:
    given = request.query_params
    try:
        label = int(given["label"]) if given.get("label") else None
        start, count = int(given.get("start", 0)), int(given.get("count", 60))
        low, high = float(given.get("low", 0)), float(given.get("high", 1))
    except ValueError:
        raise Refused("The parameters of a queue must be numbers.") from None
    search, annotated = given.get("search", "")[:200], given.get("annotated") == "1"
    query = Query(given.get("order", "useful"), label, low, high, search, annotated)
    return query, start, count, given.get("previews") == "1"


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; a larger or slower one is refused before it is read."""
    sent, length = bytearray(), request.headers.get("content-length", "0")
    if not length.isdigit():
        raise Refused("The length of a request must be a number.")
    too_large = HTTPException(413, f"A request may have at most {MAX_BYTES} bytes.")
    if int(length) > MAX_BYTES:
        raise too_large
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                sent += part
                if len(sent) > MAX_BYTES:
                    raise too_large
    except TimeoutError:
        raise HTTPException(408, f"A request must arrive in {BODY_SECONDS:g} seconds.") from None
    try:
        found = read_json(bytes(sent) or b"{}")
    except ValueError:
        raise Refused("A request must be JSON.") from None
    entries = (found.get("annotations") or []) if isinstance(found, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise Refused("A request must be an object with a list of annotations.")
    return dict(found)


def _refusal(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 409
    reason = error.detail if isinstance(error, HTTPException) else str(error)
    if code in (404, 405):
        reason = "There is nothing here; the page is at the address that labelgrad printed."
    return JSONResponse({"error": reason}, status_code=code)


def guarded(app: App, secret: str, port: int) -> App:
    """Let through only requests with the secret that come from the page itself."""
    hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
    origins = {"", *(f"http://{host}" for host in hosts)}  # "" where a request gives none

    def refusal(scope: Scope) -> str | None:
        headers = {key.decode("latin-1"): text.decode("latin-1") for key, text in scope["headers"]}
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        is_link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        site = "none" if is_link else headers.get("sec-fetch-site", "none")
        if headers.get("host") not in hosts:
            return "This page is for this machine only: open the address that labelgrad printed."
        if not secrets.compare_digest(first.encode(), secret.encode()) or not slash:
            return "The address lacks its secret: open the whole address that labelgrad printed."
        if headers.get("origin", "") not in origins or site not in ("none", "same-origin"):
            return "Another site may not send requests to this page."
        if ".." in rest.split("/") or "\\" in rest:
            return "A path must not contain '..' or a backslash."
        return None

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reason = refusal(scope)
        if reason is not None:
            await _send_refusal(send, reason)
            return
        path = "/" + scope["path"].removeprefix("/").partition("/")[2]
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await app(inner, receive, _with_headers(send))

    return guard


async def _send_refusal(send: Send, reason: str) -> None:
    content = json.dumps({"error": reason}).encode()
    headers = HEADERS | {"content-type": "application/json", "content-length": str(len(content))}
    pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": 403, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


def _with_headers(send: Send) -> Send:
    async def sent(message: Scope) -> None:
        if message["type"] == "http.response.start":
            own = {key for key, _ in message["headers"]}
            pairs = ((key.encode(), value.encode()) for key, value in HEADERS.items())
            message["headers"] += [pair for pair in pairs if pair[0] not in own]
        await send(message)

    return sent
