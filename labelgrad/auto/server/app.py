"""The page over HTTP, for one person's own machine.

Every request needs the secret as the first part of its path, a Host of this machine, and no other
site as its origin. Examples are addressed by number; no part of a path reaches the disk. A
connection on which no whole request arrives in time is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from labelgrad.auto.queue import Query
from labelgrad.auto.server.session import ReviewSession
from labelgrad.files import read_json

HERE = Path(__file__).parent
LOOK = HERE.parent / "report" / "common.css"  # of both pages
LOOPBACK = "127.0.0.1"
MAX_BYTES = 2**18  # of a request; a page of annotations has a tenth of it
BODY_SECONDS = 10.0  # within which the body of a request must arrive
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "html": "text/html"}
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


def make_app(session: ReviewSession, secret: str, port: int) -> Starlette:
    """The ASGI application of a session."""

    def example(request: Request) -> Any:
        blind = request.query_params.get("blind") == "1"
        return session.example(request.path_params["row"], blind=blind)

    def image(request: Request) -> Response:
        found = session.image(**request.path_params)
        kind = "image/png" if found.startswith(b"\x89PNG") else "image/jpeg"
        return Response(found, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def annotate(sent: dict[str, Any]) -> Any:
        how, by = str(sent.get("how")), str(sent.get("by"))[:40]
        return session.annotate(sent.get("annotations"), how=how, by=by)

    def undo(sent: dict[str, Any]) -> Any:
        return session.undo(sent.get("annotations"), by=str(sent.get("by"))[:40])

    files = [LOOK, *(file for file in sorted(HERE.iterdir()) if file.suffix[1:] in KINDS)]
    routes = [
        Route("/", _asset(HERE / "page.html")),
        *(Route(f"/{file.name}", _asset(file)) for file in files),
        Route("/api/run", _get(lambda request: session.facts())),
        Route("/api/state", _get(lambda request: session.state())),
        Route("/api/queue", _get(lambda request: session.queue(*_query(request)))),
        Route("/api/example/{row:int}", _get(example)),
        Route("/image/{row:int}/{side:int}", image),
        Route("/api/draw", _post(lambda sent: session.draw()), methods=["POST"]),
        Route("/api/annotate", _post(annotate), methods=["POST"]),
        Route("/api/undo", _post(undo), methods=["POST"]),
        Route("/api/retrain", _post(lambda sent: session.retrain()), methods=["POST"]),
    ]

    async def guarded(request: Request, answer: RequestResponseEndpoint) -> Response:
        reason = _guard(request, secret, port)
        response = JSONResponse({"error": reason}, 403) if reason else await answer(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    handlers: Any = {HTTPException: _refusal, ValueError: _refusal, OSError: _refusal}
    return Starlette(
        routes=[Mount(f"/{secret}", routes=routes)],
        exception_handlers=handlers,
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guarded)],
    )


def _asset(file: Path) -> Callable[[Request], Response]:
    content, kind = file.read_bytes(), KINDS[file.suffix[1:]]
    return lambda request: Response(content, media_type=kind)


def _get(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    return lambda request: JSONResponse(answer(request))


def _post(answer: Callable[[dict[str, Any]], Any]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(answer, await _body(request)))

    return endpoint


def _query(request: Request) -> tuple[Query, int, int, bool]:
    given = request.query_params
    try:
        label = int(given["label"]) if given.get("label") else None
        start, count = int(given.get("start", 0)), int(given.get("count", 60))
        low, high = float(given.get("low", 0)), float(given.get("high", 1))
    except ValueError:
        raise ValueError("The parameters of a queue must be numbers.") from None
    query = Query(given.get("order", "useful"), label, low, high, given.get("search", "")[:200])
    return query, start, count, given.get("previews") == "1"


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; a larger or slower one is refused before it is read."""
    sent, length = bytearray(), request.headers.get("content-length", "0")
    too_large = HTTPException(413, f"A request may have at most {MAX_BYTES} bytes.")
    if not length.isdigit() or int(length) > MAX_BYTES:
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
        return dict(read_json(bytes(sent) or b"{}"))
    except (ValueError, TypeError):
        raise ValueError("A request must be a JSON object.") from None


def _refusal(request: Request, error: Exception) -> Response:
    code, reason = getattr(error, "status_code", 409), getattr(error, "detail", str(error))
    if code in (404, 405):
        reason = "There is nothing here; the page is at the address that labelgrad printed."
    return JSONResponse({"error": reason}, status_code=code)


def _guard(request: Request, secret: str, port: int) -> str | None:
    """Why a request is refused that lacks the secret or does not come from the page itself."""
    hosts, headers = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}, request.headers
    origins = {"", *(f"http://{host}" for host in hosts)}  # "" where a request gives none
    first, slash, rest = request.scope["path"].removeprefix("/").partition("/")
    is_link = headers.get("sec-fetch-mode") == "navigate" and request.method == "GET"
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


class TimedProtocol(H11Protocol):
    """uvicorn's protocol, which would wait forever for the rest of a request's head."""

    seconds = 10.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(self.seconds, self.check, None)

    def check(self, before: Any) -> None:
        """Close the connection if there was no request since the last check, and none is open."""
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(self.seconds, self.check, self.cycle)
