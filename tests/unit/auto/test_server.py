"""The review page without a browser: the session, and which requests are let through."""

import asyncio
import json
import shutil
import socket
import threading
import time

import numpy as np
import polars as pl
import pytest

from labelgrad import FitConfig, load
from labelgrad.auto.annotations import Annotation, AnnotationLog
from labelgrad.auto.data.dataset import read
from labelgrad.auto.data.views import open_views
from labelgrad.auto.queue import Query, review_list
from labelgrad.auto.server.app import MAX_BYTES, TimedProtocol, make_app
from labelgrad.auto.server.serve import bound_socket
from labelgrad.auto.server.session import SIDES, ReviewSession
from tests.system.review_runs import image_run, table_run
from tests.unit.auto.data.test_texts import letters
from tests.unit.auto.fake_runs import FILE

SECRET, PORT = "a-secret", 8765
OWN = f"127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return table_run(tmp_path_factory.mktemp("table"))


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def first(session):
    return session.queue(Query(), 0, 1)["rows"][0][0]


def send(app, path, *, method="GET", body=b"", headers=(), secret=SECRET):
    """One request, and the status, headers and content of the answer."""
    sent = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/{secret}/{path.partition('?')[0]}",
        "raw_path": b"",
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [
            (key.encode(), value.encode()) for key, value in ({"host": OWN} | dict(headers)).items()
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", PORT),
    }
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return parts.pop(0) if parts else {"type": "http.disconnect"}

    async def answer(message):
        sent.append(message)

    asyncio.run(app(scope, receive, answer))
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], dict(sent[0]["headers"]), content


@pytest.fixture
def app(run):
    return make_app(ReviewSession(run), SECRET, PORT)


# The session


def test_the_page_and_the_command_agree_on_the_queue(run):
    ids = [cell[1] for cell in ReviewSession(run).queue(Query(), 0, 20)["rows"]]
    assert ids == review_list(load(run), 20)["row"].to_list()


@pytest.mark.parametrize(
    "order", ["useful", "uncertain", "confident", "disagreement", "random", "data"]
)
def test_every_order_has_every_imputed_label(run, order):
    session = ReviewSession(run)
    rows = [cell[0] for cell in session.queue(Query(order), 0, 500)["rows"]]
    imputed = (session.result.labels["source"] == "imputed").to_numpy()
    assert sorted(rows) == np.flatnonzero(imputed).tolist()


def test_filters_and_search(run):
    session = ReviewSession(run)
    dogs = session.result.labels.filter(source="imputed", label="dog")["confidence"]
    high = dogs.median()
    cells = session.queue(Query(label=1, low=0.5, high=high), 0, 500)["rows"]
    assert len(cells) == (dogs <= high).sum() < len(dogs)
    assert all(cell[2] == "dog" and 0.5 <= cell[3] <= high + 5e-4 for cell in cells)  # rounded
    (found,) = session.queue(Query(search="OF ROW 44"), 0, 500, previews=True)["rows"]
    assert found[1] == "44"
    assert ("note", "note\nof row 44") in found[-1]


def test_annotations_are_saved_with_what_was_shown(run):
    session = ReviewSession(run)
    row = first(session)
    shown = session.example(row)
    told = session.annotate([{"row": row, "label": "dog", "seen": 0}], how="choose", by="me")
    (one,) = AnnotationLog(run / FILE).annotations()
    assert (one.id, one.label, one.by) == (shown["id"], "dog", "me")
    assert (one.shown, one.model) == (shown["label"], session.result.digest)
    assert told["state"]["annotated"] == told["state"]["new"] == 1
    assert first(session) != row
    told = session.undo([{"row": row, "seen": told["added"][0]["line"]}], by="me")
    assert told["state"]["annotated"] == 0
    assert first(session) == row


def test_what_somebody_else_annotated_is_not_overwritten(run):
    one, two = ReviewSession(run), ReviewSession(run)
    row = first(one)
    one.annotate([{"row": row, "label": "dog", "seen": 0}], how="choose", by="one")
    told = two.annotate([{"row": row, "label": "cat", "seen": 0}], how="choose", by="two")
    assert told["added"] == []
    assert told["conflicts"][0][1]["label"] == "dog"
    with pytest.raises(ValueError, match="Somebody else"):
        two.undo([{"row": row, "seen": 0}], by="two")


def test_an_audit_is_drawn_blind_and_feeds_the_guarantee(run):
    session = ReviewSession(run, max_error_rate=0.2)
    with pytest.raises(ValueError, match="not drawn"):
        session.annotate([{"row": first(session), "label": "cat"}], how="audit", by="me")
    rows = session.draw()["rows"]
    assert session.draw()["rows"] == rows
    blind = session.example(rows[0], blind=True)
    assert not {"label", "prediction", "base_models", "confidence"} & blind.keys()
    for row in rows[:3]:
        entry = {"row": row, "label": session.example(row)["label"], "seen": 0}
        state = session.annotate([entry], how="audit", by="me")["state"]
    assert state["guarantee"]["audits"] == 3
    assert state["guarantee"]["mistakes"] == 0
    assert state["new"] == 0  # audits are not trained on
    assert session.draw()["rows"] == rows[3:]
    assert all(one.shown is None for one in AnnotationLog(run / FILE).newest(audits=True))


@pytest.mark.parametrize(
    "entry",
    [
        {"row": -1, "label": "cat"},
        {"row": True, "label": "cat"},
        {"row": 10**9, "label": "cat"},
        {"row": "1", "label": "cat"},
        {"row": [[]], "label": "cat"},
        {"label": "cat"},
        {"row": 30, "label": "cow"},
        {"row": 30, "label": None},
        {"row": 30, "label": ["cat"]},
    ],
)
def test_wrong_annotations_are_refused_whole(run, entry):
    session = ReviewSession(run)
    with pytest.raises(ValueError, match=r"An example is a number|no class"):
        session.annotate([{"row": 30, "label": "cat"}, entry], how="choose", by="me")
    assert not (run / FILE).exists()


def test_nothing_to_retrain_with(run):
    with pytest.raises(ValueError, match="no new annotation"):
        ReviewSession(run).retrain()


def test_a_missing_folder_is_reported(run):
    session = ReviewSession(run)
    shutil.rmtree(run)
    with pytest.raises(ValueError, match="missing"):
        session.annotate([{"row": 30, "label": "cat"}], how="choose", by="me")


def test_moved_data_leave_ids(run, tmp_path):
    session = ReviewSession(run, data=tmp_path / "elsewhere.csv")
    assert "--data" in session.facts()["problem"]
    assert session.example(first(session))["cells"] == []


@pytest.mark.slow
def test_values_can_be_reviewed_and_retrained(tmp_path):
    session = ReviewSession(table_run(tmp_path, values=True))
    row = first(session)
    with pytest.raises(ValueError, match="finite"):
        session.annotate([{"row": row, "label": float("inf")}], how="choose", by="me")
    session.annotate([{"row": row, "label": 1.5, "seen": 0}], how="choose", by="me")
    model = session.result.digest
    session.retrain()
    while (state := session.state()["retraining"])["state"] == "running":
        time.sleep(0.1)
    assert state["state"] == "done", state
    assert state["compared"] == 35
    assert session.result.digest != model
    assert session.result.labels["label"][row] == pytest.approx(1.5)
    assert session.result.labels["source"][row] == "corrected"
    assert session.state()["new"] == 0


# Requests


def test_the_page_and_its_parts_are_served_with_security_headers(app):
    for path in ("", "common.css", "page.css", "page.js", "one.js", "icon.svg", "api/run"):
        status, headers, _ = send(app, path)
        assert status == 200, path
        assert headers[b"content-security-policy"].startswith(b"default-src 'none'")
        assert headers[b"x-content-type-options"] == b"nosniff"


@pytest.mark.parametrize(
    ("headers", "secret"),
    [
        ({}, "another"),
        ({}, ""),
        ({"host": "evil.example"}, SECRET),
        ({"host": f"localhost:{PORT + 1}"}, SECRET),
        ({"origin": "http://evil.example"}, SECRET),
        ({"origin": "null"}, SECRET),
        ({"sec-fetch-site": "cross-site"}, SECRET),
    ],
)
def test_requests_from_elsewhere_are_refused(app, headers, secret):
    for path, method in (("api/run", "GET"), ("api/annotate", "POST")):
        status, found, content = send(app, path, method=method, headers=headers, secret=secret)
        assert status == 403
        assert b"content-security-policy" in found
        assert b"cat" not in content


@pytest.mark.parametrize("path", ["..", "../run", "image/../x", "a\\b"])
def test_paths_lead_nowhere_else(app, path):
    assert send(app, path)[0] == 403


NESTED = b'{"annotations": ' + b"[" * 50_000


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"7", NESTED, b'\xff\xfe{"a": 1}'),
        *(b'{"annotations": 7}', b'{"annotations": [7]}'),
        b'{"annotations": [{"row": 1e999}], "how": "choose"}',
    ],
)
def test_wrong_bodies_are_refused_in_a_sentence(app, body):
    for path in ("api/annotate", "api/undo"):
        status, _, content = send(app, path, method="POST", body=body)
        assert status == 409
        assert json.loads(content)["error"].endswith(".")


def test_large_requests_are_refused(app):
    headers = {"content-length": str(MAX_BYTES + 1)}
    assert send(app, "api/annotate", method="POST", headers=headers)[0] == 413
    assert send(app, "api/annotate", method="POST", body=b" " * (MAX_BYTES + 1))[0] == 413


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/queue?start=-1", 409),
        ("api/queue?count=9999", 409),
        ("api/queue?label=x", 409),
        ("api/queue?order=best", 409),
        ("api/queue?low=nan", 200),
        ("api/example/999", 409),
        ("api/nothing", 404),
        (f"image/30/{SIDES[0]}", 409),
        ("image/30/7", 409),
    ],
)
def test_wrong_queries(app, path, status):
    found, _, content = send(app, path)
    assert found == status, content


def test_an_annotation_over_http(app, run):
    row = json.loads(send(app, "api/queue?count=1")[2])["rows"][0][0]
    body = {"annotations": [{"row": row, "label": "cat", "seen": 0}], "how": "choose", "by": "me"}
    status, _, content = send(app, "api/annotate", method="POST", body=json.dumps(body).encode())
    assert status == 200
    assert len(json.loads(content)["added"]) == 1
    assert len(AnnotationLog(run / FILE).annotations()) == 1


def test_half_a_request_times_out(monkeypatch):
    import uvicorn

    monkeypatch.setattr(TimedProtocol, "seconds", 0.3)

    async def hello(scope, receive, answer):
        await answer({"type": "http.response.start", "status": 204, "headers": []})
        await answer({"type": "http.response.body"})

    bound = bound_socket("127.0.0.1", 0)
    options = {"http": TimedProtocol, "log_level": "critical", "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(hello, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        for start in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT"):
            with socket.create_connection(bound.getsockname(), timeout=10) as client:
                client.sendall(start)
                while client.recv(1000):  # until the server closes
                    pass
        with socket.create_connection(bound.getsockname(), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 204")
    finally:
        server.should_exit = True
        thread.join()


# Views


def test_views_of_images(tmp_path):
    run = load(image_run(tmp_path))
    ids = run.labels["file"].to_list()
    views = open_views(tmp_path / "images", run.predictor.preprocessor, ids)
    assert views.view(0).image
    assert views.image(0, 96).startswith(b"\x89PNG")
    outside = open_views(
        tmp_path / "images", run.predictor.preprocessor, [ids[0], "../labels.csv", "gone.png"]
    )
    assert outside.image(1, 96) is None
    assert outside.view(2).text == "The file is missing."


def test_views_of_texts(tmp_path):
    folder = letters(tmp_path / "texts")
    (folder / "good" / "05.txt").write_text("A text of its own")
    dataset = read(folder, config=FitConfig(encoder="none"))
    views = open_views(folder, dataset.preprocessor, dataset.ids)
    assert views.view(3).text == (folder / dataset.ids[3]).read_text()
    (found,) = views.search("OF ITS OWN")
    assert dataset.ids[found] == "good/05.txt"
    assert views.image(0, 96) is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_views_of_tables(tmp_path, suffix):
    frame = pl.DataFrame(
        {
            "size": [1.5, 2.5, None, 4.0] * 5,
            "photo": [f"{n}.png" for n in range(20)],
            "kind": ["a", "b"] * 10,
        }
    )
    path = tmp_path / f"data.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    dataset = read(path, config=FitConfig(target="kind", encoder="none"))
    views = open_views(path, dataset.preprocessor, dataset.ids)
    assert dict(views.view(2).cells)["photo"] == "2.png"
    assert "kind" not in dict(views.view(2).cells)
    assert views.search("17.PNG") == [17]
    with pytest.raises(ValueError, match="20 rows, and the run has 19"):
        open_views(path, dataset.preprocessor, dataset.ids[1:])


@pytest.mark.parametrize("shape", [(6, 5, 5), (6, 3, 5, 5), (6, 5, 5, 3)])
def test_views_of_arrays(shape):
    x = np.random.default_rng(0).integers(0, 255, shape).astype(np.uint8)
    dataset = read(x, [0, 1, 0, 1, -1, -1])
    views = open_views(x, dataset.preprocessor, dataset.ids)
    assert views.view(4).image
    assert views.image(4, 96).startswith(b"\x89PNG")
    flat = x.reshape(6, -1).astype(float)
    columns = read(flat, [0, 1, 0, 1, -1, -1])
    shown = open_views(flat, columns.preprocessor, columns.ids).view(1)
    assert shown.cells[0] == ("0", f"{flat[1, 0]:g}")


def test_an_annotation_of_an_unknown_id_does_no_harm(run):
    AnnotationLog(run / FILE).add([Annotation("999", "cat", "choose")])
    state = ReviewSession(run).state()
    assert state["new"] == 0
    assert state["newest"][0]["row"] is None
