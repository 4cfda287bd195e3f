"""The page over HTTP, for one person's own machine: a secret in the address, and nothing else open.

Every request needs the secret as the first part of its path, a Host that is this machine's own, and
comes from no other site. Examples are asked for by number; no part of a path reaches the disk.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any

from labelgrad.review.desk import Desk, Refused
from labelgrad.review.queue import Wanted

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"
MOST_BYTES = 2**18  # of a request; a page of decisions is a tenth of it
LISTS = ("decisions", "entries")  # what a request may have one of
SCRIPT = "text/javascript; charset=utf-8"
REPORT, FAMILY = HERE.parent / "report", "family.css"  # how both pages look
ASSETS = (
    dict.fromkeys((FAMILY, "page.css"), "text/css; charset=utf-8")
    | dict.fromkeys(("page.js", "parts.js", "one.js", "grid.js", "picker.js"), SCRIPT)
    | {"icon.svg": "image/svg+xml"}
)
OWN = ""  # the origin of a request that does not say one
SIDES = (96, 192, 1024)  # of pictures, in pixels
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


def make_app(desk: Desk, secret: str, port: int) -> App:
    """The ASGI application of a desk."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    def asset(name: str, kind: str) -> Callable[[Request], Response]:
        content = ((REPORT if name == FAMILY else HERE) / name).read_bytes()
        return lambda request: Response(content, media_type=kind)

    def facts(request: Request) -> Response:
        return JSONResponse(desk.facts())

    def state(request: Request) -> Response:
        return JSONResponse(desk.state())

    def queue(request: Request) -> Response:
        asked = request.query_params
        try:
            label = int(asked["label"]) if asked.get("label") else None
            start, count = int(asked.get("start", 0)), int(asked.get("count", 60))
            low, high = float(asked.get("low", 0)), float(asked.get("high", 1))
        except ValueError:
            raise Refused("A queue is asked for by numbers.") from None
        wanted = Wanted(
            asked.get("order", "useful"),
            label,
            low,
            high,
            asked.get("search", "")[:200],
            asked.get("decided") == "1",
        )
        return JSONResponse(desk.queue(wanted, start, count, looks=asked.get("looks") == "1"))

    def example(request: Request) -> Response:
        blind = request.query_params.get("blind") == "1"
        return JSONResponse(desk.example(request.path_params["row"], blind=blind))

    def picture(request: Request) -> Response:
        side = request.path_params["side"]
        found = desk.picture(request.path_params["row"], side) if side in SIDES else None
        if found is None:
            raise Refused("There is no such picture.")
        kind = "image/png" if found.startswith(b"\x89PNG") else "image/jpeg"
        return Response(found, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def to_audit(request: Request) -> Response:
        return JSONResponse(desk.to_audit())

    async def draw(request: Request) -> Response:
        await body(request)
        return JSONResponse(await run_in_threadpool(desk.draw))

    async def decide(request: Request) -> Response:
        asked = await body(request)
        return JSONResponse(
            await run_in_threadpool(
                desk.decide,
                asked.get("decisions") or [],
                how=str(asked.get("how")),
                by=str(asked.get("by"))[:40],
            )
        )

    async def take_back(request: Request) -> Response:
        asked = await body(request)
        entries, by = asked.get("entries") or [], str(asked.get("by"))[:40]
        return JSONResponse(await run_in_threadpool(desk.take_back, entries, by=by))

    async def train(request: Request) -> Response:
        await body(request)
        return JSONResponse(await run_in_threadpool(desk.begin_training))

    async def body(request: Request) -> dict[str, Any]:
        """The JSON of a request; a larger one is refused before it is read."""
        sent = bytearray()
        if not request.headers.get("content-length", "0").isdigit():
            raise Refused("The length of a request must be a number.")
        if int(request.headers.get("content-length", 0)) > MOST_BYTES:
            raise HTTPException(413, f"A request may have {MOST_BYTES} bytes.")
        async for part in request.stream():
            sent += part
            if len(sent) > MOST_BYTES:
                raise HTTPException(413, f"A request may have {MOST_BYTES} bytes.")
        try:
            found = json.loads(sent or b"{}")
        except ValueError:
            raise Refused("A request must be JSON.") from None
        lists = [found.get(name) or [] for name in LISTS] if isinstance(found, dict) else [None]
        if not all(
            isinstance(one, list) and all(isinstance(e, dict) for e in one) for one in lists
        ):
            raise Refused("A request must be an object with a list of decisions.")
        return dict(found)

    def refused(request: Request, error: Exception) -> Response:
        code = error.status_code if isinstance(error, HTTPException) else 409
        said = error.detail if isinstance(error, HTTPException) else str(error)
        if code in (404, 405):
            said = "There is nothing here; the page is at the address that labelgrad printed."
        return JSONResponse({"error": said}, status_code=code)

    routes = [
        Route("/", asset("page.html", "text/html; charset=utf-8")),
        *(Route(f"/{name}", asset(name, kind)) for name, kind in ASSETS.items()),
        Route("/api/run", facts),
        Route("/api/state", state),
        Route("/api/queue", queue),
        Route("/api/example/{row:int}", example),
        Route("/picture/{row:int}/{side:int}", picture),
        Route("/api/audit", to_audit),
        Route("/api/draw", draw, methods=["POST"]),
        Route("/api/decide", decide, methods=["POST"]),
        Route("/api/take-back", take_back, methods=["POST"]),
        Route("/api/train", train, methods=["POST"]),
    ]
    handlers: Any = {HTTPException: refused, ValueError: refused, OSError: refused}
    return guarded(Starlette(routes=routes, exception_handlers=handlers), secret, port)


def guarded(app: App, secret: str, port: int) -> App:
    """Let through only what has the secret and comes from the page itself."""
    hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
    origins = {OWN, *(f"http://{host}" for host in hosts)}

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {key.decode("latin-1"): text.decode("latin-1") for key, text in scope["headers"]}
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        is_link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        site = "none" if is_link else headers.get("sec-fetch-site", "none")
        said = None
        if headers.get("host") not in hosts:
            said = "This page is for this machine only: open the address that labelgrad printed."
        elif not secrets.compare_digest(first.encode(), secret.encode()) or not slash:
            said = "The address lacks its secret: open the one that labelgrad printed, all of it."
        elif headers.get("origin", OWN) not in origins or site not in ("none", "same-origin"):
            said = "Another site may not ask for this."
        elif ".." in rest.split("/") or "\\" in rest:
            said = "A path must lead straight on."
        if said is not None:
            await _refuse(send, said)
            return
        inner = {**scope, "path": "/" + rest, "raw_path": b"/" + rest.encode(), "root_path": ""}
        await app(inner, receive, _with_headers(send))

    return guard


async def _refuse(send: Send, said: str) -> None:
    content = json.dumps({"error": said}).encode()
    headers = HEADERS | {"content-type": "application/json", "content-length": str(len(content))}
    pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": 403, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


def _with_headers(send: Send) -> Send:
    async def sent(message: Scope) -> None:
        if message["type"] == "http.response.start":
            own = {key for key, _ in message["headers"]}
            message["headers"] += [
                (key.encode(), value.encode())
                for key, value in HEADERS.items()
                if key.encode() not in own
            ]
        await send(message)

    return sent


def bound_socket(port: int) -> socket.socket:
    """A socket on this machine's own address; port 0 is any that is free."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen(64)  # whoever asks before the server is ready waits for it
    except OSError as error:
        bound.close()
        raise OSError(
            f"Port {port} cannot be used ({error.strerror}); choose another by --port, or leave it "
            f"out."
        ) from None
    return bound


def serve(desk: Desk, bound: socket.socket, secret: str) -> None:
    """Serve until Ctrl-C; a training that is under way ends with it."""
    import uvicorn

    app = make_app(desk, secret, bound.getsockname()[1])
    settings = uvicorn.Config(
        app, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    # SciPy takes a second, and every state needs it: it comes while the browser opens.
    threading.Thread(target=import_module, args=("scipy.stats",), daemon=True).start()
    try:
        uvicorn.Server(settings).run(sockets=[bound])
    finally:
        desk.training.end()


def check_installed() -> None:
    """Say what is missing, before anything is begun."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ImportError(
            "The page to work on needs starlette and uvicorn: pip install 'labelgrad[review]'."
        ) from None
