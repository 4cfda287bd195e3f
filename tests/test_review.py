"""The page to work on without a browser: decisions, queues, who is let through and who is not."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import labelgrad
from labelgrad.fitting.corrections import (
    BEFORE,
    HALF,
    _set_aside,
    folder_corrections,
    take_corrections,
)
from labelgrad.fitting.decisions import FILE, Decision, Decisions
from labelgrad.fitting.promises import IMPUTED, promised_labels
from labelgrad.fitting.provenance import AUDIT
from labelgrad.fitting.run_folder import write_files
from labelgrad.inputs.kinds import read
from labelgrad.review.desk import Desk, Refused
from labelgrad.review.queue import ORDERS, Wanted
from labelgrad.review.run import NONE, load_run
from labelgrad.review.server import ASSETS, HEADERS, MOST_BYTES, bound_socket
from labelgrad.review.training import before_and_after
from tests.command import labelgrad_here, one_sentence
from tests.review_runs import HOSTILE, OWN, SCRIPT, SECRET, Client, picture_run, table_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished runs that tests may copy."""
    folder = tmp_path_factory.mktemp("review")
    for name, make, options in (
        ("pictures", picture_run, {}),
        ("table", table_run, {}),
        ("values", table_run, {"values": True}),
    ):
        (folder / name).mkdir()
        make(folder / name, **options)
    return folder


@pytest.fixture
def place(finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def desk_of(place, kind="pictures", data=None):
    """A desk whose data are those beside it, not those the run was made of."""
    own = {"pictures": "pictures", "table": "data.csv", "values": "data.csv"}[kind]
    return Desk(place / kind / "run", data=data or place / kind / own)


def decide(desk, row, label, how="choose", by="me"):
    seen = desk.example(row)["seen"]
    return desk.decide([{"row": row, "label": label, "seen": seen}], how=how, by=by)


# Decisions on the disk


def test_whatever_is_cut_off_the_whole_lines_before_it_count(tmp_path):
    kept = Decisions(tmp_path / FILE)
    for number in range(5):
        kept.add([Decision(f"{number}.png", "cat", "accept")])
    content = (tmp_path / FILE).read_bytes()
    for size in range(0, len(content), 7):
        (tmp_path / FILE).write_bytes(content[:size])
        whole = content[:size].count(b"\n")
        found = Decisions(tmp_path / FILE)
        assert list(found.labels()) == [f"{number}.png" for number in range(whole)]
        found.add([Decision("new.png", "dog", "choose")])
        assert Decisions(tmp_path / FILE).labels()["new.png"] == "dog"


def test_two_processes_see_each_others_decisions(tmp_path):
    one, two = Decisions(tmp_path / FILE), Decisions(tmp_path / FILE)
    one.add([Decision("a", "cat", "accept")])
    two.add([Decision("b", "dog", "accept")])
    one.refresh()
    assert one.labels() == two.labels() == {"a": "cat", "b": "dog"}
    assert [each.number for each in one.newest(10)] == [2, 1]


def test_threads_that_write_at_once_lose_nothing(tmp_path):
    def write(who):
        mine = Decisions(tmp_path / FILE)
        for number in range(20):
            mine.add([Decision(f"{who} {number}", "cat", "accept")])

    threads = [threading.Thread(target=write, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Decisions(tmp_path / FILE)) == 80


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["cat", "dog", None]))))
def test_taking_back_is_a_stack_for_each_example(tmp_path_factory, steps):
    kept, stacks = Decisions(tmp_path_factory.mktemp("stack") / FILE), {}
    for name, label in steps:
        if label is None:
            kept.take_back([name])
            stacks[name] = stacks.get(name, [])[:-1]
        else:
            kept.add([Decision(name, label, "choose")])
            stacks.setdefault(name, []).append(label)
    wanted = {name: labels[-1] for name, labels in stacks.items() if labels}
    assert kept.labels() == Decisions(kept.path).labels() == wanted


def test_a_decision_that_was_answered_survives_sigkill(tmp_path):
    """A process writes decisions and says each when it is told that it is kept; then it dies."""
    path = tmp_path / FILE
    code = (
        "import sys, itertools; from pathlib import Path\n"
        "from labelgrad.fitting.decisions import Decision, Decisions\n"
        f"kept = Decisions(Path({str(path)!r}))\n"
        "for n in itertools.count():\n"
        "    kept.add([Decision(str(n), 'x' * 2000, 'accept')]); print(n, flush=True)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        said = [next(writer.stdout) for _ in range(20)]
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.stdout.readlines()
    kept = Decisions(path).labels()
    assert all(line.strip() in kept for line in said if line.endswith("\n"))


# Decisions become corrections


def test_decisions_are_labels_of_the_next_training(place):
    desk, folder = desk_of(place, "table"), place / "table" / "run"
    rows = desk.run.unlabeled[:3].tolist()
    decide(desk, rows[0], "cat")
    decide(desk, rows[1], "dog")
    decide(desk, rows[2], "dog")
    desk.take_back([{"row": rows[2], "seen": desk.example(rows[2])["seen"]}], by="me")
    data = read(place / "table" / "data.csv", target="answer")
    names = desk.run.names
    wanted = {names[rows[0]]: "cat", names[rows[1]]: "dog"}
    assert folder_corrections(data, folder) == wanted
    result = labelgrad.fit(place / "table" / "data.csv", target="answer", out=folder, resume=True)
    given = {example.name: example.given for example in result.examples}
    assert given.items() >= wanted.items()
    assert (folder / FILE).is_file()
    assert (folder / "before-corrections" / "labels.csv").is_file()
    after = load_run(folder)
    assert after.digest != desk.run.digest
    told = before_and_after(folder)
    assert told["judged"] == len(desk.run.held_out.rows)
    assert told["compared"] == (after.place != NONE).sum()


def test_of_a_file_and_the_page_the_newest_counts(place):
    desk, folder = desk_of(place, "table"), place / "table" / "run"
    data = read(place / "table" / "data.csv", target="answer")
    row = int(desk.run.unlabeled[0])
    name = desk.run.names[row]
    decide(desk, row, "cat")
    (place / "new.csv").write_text(f"row,label\n{name},dog\n")
    assert take_corrections(labelgrad.load(folder), place / "new.csv").new == 1
    assert folder_corrections(data, folder) == {name: "dog"}
    decide(desk, row, "cat")
    assert folder_corrections(data, folder) == {name: "cat"}


def test_labels_look_leaves_out_what_was_decided(place):
    desk, folder = desk_of(place, "table"), place / "table" / "run"
    for row in desk.run.unlabeled[:-2].tolist():
        decide(desk, row, "cat")
    said = labelgrad_here("labels", folder, "--look", 20, "--look-out", place / "look.csv")
    assert said.returncode == 0, said.stderr
    assert len((place / "look.csv").read_text().splitlines()) == 3


# What is shown


@pytest.mark.parametrize("kind", ["pictures", "table", "values"])
def test_columns_are_what_the_result_has(finished, kind):
    folder = finished / kind / "run"
    run, result = load_run(folder), labelgrad.load(folder)
    assert run.names == [example.name for example in result.examples]
    for example, row in zip(result.examples, range(len(run.names)), strict=True):
        assert run.shown(run.given[row]) == example.given
    for label in result.labels:
        row = run.names.index(label.name)
        assert run.shown(run.label[row]) == label.label
        assert run.shown(run.prediction[row]) == label.prediction
    said = result.statements
    assert list(said.witnesses) == list(run.statements.witnesses)
    if kind != "values":
        top = said.likely[:, 0]
        assert [run.classes[k] for k in top] == [label.label for label in result.labels]
        sure = [label.label_probability for label in result.labels]
        assert said.probability[:, 0].tolist() == pytest.approx(sure, abs=1e-3)


def test_the_nearest_labeled_are_those_of_a_plain_sort(finished):
    folder = finished / "table" / "run"
    run, x = load_run(folder), read(finished / "table" / "data.csv", target="answer").x.numpy()
    labeled = np.flatnonzero(run.place == NONE)
    for row in run.unlabeled:
        away = ((x[labeled] - x[row]) ** 2).sum(1)
        wanted = np.sort(away)[:6]
        near = run.statements.near[run.place[row]]
        assert ((x[near] - x[row]) ** 2).sum(1) == pytest.approx(wanted)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_has_each_open_example_once(finished, order):
    desk = desk_of(finished)
    rows = desk.queue(Wanted(order), 0, 500)["rows"]
    places = [row[0] for row in rows]
    assert len(set(places)) == len(places)
    if order != "suspects":
        assert set(places) == set(desk.run.unlabeled.tolist())


def test_orders_filters_and_pages_are_those_of_a_plain_loop(finished):
    desk = desk_of(finished, "table")
    run = desk.run

    def asked(start=0, count=500, **wanted):
        return [row[0] for row in desk.queue(Wanted(**wanted), start, count)["rows"]]

    sure = {row: float(run.probability[row]) for row in run.unlabeled.tolist()}
    assert asked(order="sure") == sorted(sure, key=lambda row: (-sure[row], row))
    assert asked(order="unsure") == sorted(sure, key=lambda row: (sure[row], row))
    assert asked(order="sure", start=3, count=4) == asked(order="sure")[3:7]
    assert set(asked(label=1)) == {row for row in sure if run.label[row] == 1}
    middle = float(np.median(list(sure.values())))
    assert set(asked(low=middle)) == {row for row in sure if sure[row] >= middle}
    assert set(asked(search="ROW 3")) == {row for row in sure if f"row {row + 1}"[:5] == "row 3"}
    with pytest.raises(ValueError, match="did you mean 'useful'"):
        Wanted("usefull")


def test_rows_of_a_table_are_shown_without_their_label(finished):
    desk = desk_of(finished, "table")
    cells = dict(desk.example(30)["cells"])
    assert cells["note"] == "note\nof row 31"
    assert "answer" not in cells


def test_rows_are_the_same_in_another_encoding(place):
    own = place / "table" / "data.csv"
    (place / "wide.csv").write_text(own.read_text(), encoding="utf-16")
    one, two = desk_of(place, "table"), desk_of(place, "table", data=place / "wide.csv")
    assert two.facts()["problem"] == ""
    for row in (0, 30, 59):
        assert two.example(row)["cells"] == one.example(row)["cells"]


def test_a_row_that_names_a_picture_shows_it_if_it_lies_beside(finished, tmp_path):
    from labelgrad.review.looks import CsvRows

    Image.new("L", (5, 4)).save(tmp_path / "a.png")
    (tmp_path / "deeper").mkdir()
    path = tmp_path / "deeper" / "data.csv"
    path.write_text("photo,answer\nb.png,cat\n../a.png,\n")
    Image.new("L", (5, 4)).save(tmp_path / "deeper" / "b.png")
    settings = {"target": "answer", "blocks": [{"column": "photo"}]}
    run = replace(load_run(finished / "table" / "run"), names=["1", "2"], preprocessing=settings)
    looks = CsvRows(path, run)
    assert looks.show(0).picture
    assert looks.picture(0, 96).startswith(b"\x89PNG")
    assert not looks.show(1).picture
    assert looks.picture(1, 96) is None


def test_pictures_of_arrays_are_shown_packed_or_not(tmp_path):
    x = np.random.default_rng(0).integers(0, 255, (12, 6, 6), dtype=np.uint8)
    y = np.array([0, 1, 0, 1, 0, 1, 0, 1, -1, -1, -1, -1])
    np.savez(tmp_path / "plain.npz", x=x, y=y)
    np.savez_compressed(tmp_path / "packed.npz", x=x, y=y)
    labelgrad.fit(tmp_path / "plain.npz", model="mlp-4", steps=2, out=tmp_path / "run")
    for name in ("plain.npz", "packed.npz"):
        desk = Desk(tmp_path / "run", data=tmp_path / name)
        (tmp_path / "seen.png").write_bytes(desk.picture(9, 96))
        assert (np.asarray(Image.open(tmp_path / "seen.png")) == x[9]).all()


def test_data_that_are_gone_or_others_are_told_and_names_are_left(place):
    (place / "others.csv").write_text("first,second,note,answer\n1,2,3,cat\n")
    desk = desk_of(place, "table", data=place / "others.csv")
    assert "1 rows and the run 60" in desk.facts()["problem"]
    shutil.rmtree(place / "pictures" / "pictures")
    desk = desk_of(place)
    assert "not at" in desk.facts()["problem"]
    shown = desk.example(20)
    assert shown["name"] == "20.png"
    assert not shown["picture"]
    assert decide(desk, 20, "dark")["taken"]


def test_an_audit_shows_nothing_of_what_the_run_thinks(place):
    desk = desk_of(place)
    (row, *_) = desk.draw()["rows"]
    shown = desk.example(row, blind=True)
    assert set(shown) == {"row", "name", "run", "picture", "cells", "text", "seen", "blind"}


# Deciding


def test_the_second_reviewer_sees_what_the_first_decided(place):
    one, two = desk_of(place), desk_of(place)
    row = int(one.run.unlabeled[0])
    seen = two.example(row)["seen"]
    decide(one, row, "dark", by="first")
    answer = two.decide([{"row": row, "label": SCRIPT, "seen": seen}], how="choose", by="second")
    assert answer["taken"] == []
    assert answer["others"][0][1]["label"] == "dark"
    assert answer["others"][0][1]["by"] == "first"
    assert two.state()["decided"] == 1
    assert row not in [each[0] for each in two.queue(Wanted(), 0, 500)["rows"]]
    decide(two, row, SCRIPT, by="second")  # having seen it, they may decide otherwise
    assert one.state()["newest"][0]["label"] == SCRIPT


def test_a_page_is_kept_as_a_whole_and_taken_back_as_a_whole(place):
    desk = desk_of(place)
    rows = [row[0] for row in desk.queue(Wanted("sure"), 0, 8)["rows"]]
    page = [{"row": row, "label": "dark", "seen": 0} for row in rows]
    taken = desk.decide(page, how="page", by="me")["taken"]
    assert desk.state()["decided"] == 8
    desk.take_back([{"row": one["row"], "seen": one["number"]} for one in taken], by="me")
    assert desk.state()["decided"] == 0


@pytest.mark.parametrize(
    ("kind", "label", "says"),
    [
        ("pictures", "darc", "did you mean 'dark'"),
        ("pictures", "zebra", "a new class needs labels"),
        ("pictures", None, "no class None"),
        ("values", "seven", "must be a number"),
        ("values", float("inf"), "must be finite"),
    ],
)
def test_labels_that_are_none_are_refused_and_nothing_is_written(place, kind, label, says):
    desk = desk_of(place, kind)
    with pytest.raises(ValueError, match=says):
        decide(desk, int(desk.run.unlabeled[0]), label)
    assert not desk.decisions.path.exists()


def test_a_run_folder_that_is_gone_is_told_and_comes_back(place):
    desk = desk_of(place)
    decide(desk, 20, "dark")
    (place / "pictures" / "run").rename(place / "elsewhere")
    with pytest.raises(Refused, match="is gone"):
        desk.decide([{"row": 21, "label": "dark", "seen": 0}], how="choose", by="me")
    with pytest.raises(Refused, match="is gone"):
        desk.begin_training()
    (place / "elsewhere").rename(place / "pictures" / "run")
    decide(desk, 21, "dark")
    assert desk.state()["decided"] == 2


# Audits


@pytest.mark.parametrize("drawn", ["unknown", "random"])
def test_what_is_promised_is_what_the_command_would_promise(place, drawn):
    folder, data = place / "table" / "run", place / "table" / "data.csv"
    labelgrad.fit(data, target="answer", out=folder, resume=True, drawn=drawn)
    desk = Desk(folder, data=data, at_most=0.3)
    for row in desk.draw()["rows"][:12]:
        decide(desk, row, "cat", how=AUDIT)
    told = desk.state()["promise"]
    wanted = promised_labels(labelgrad.load(folder), 0.3)
    audited = {label.name for label in wanted.labels if label.origin != IMPUTED}
    assert told["bound"] == pytest.approx(wanted.bound)
    assert told["mistakes"] == wanted.drawn.mistakes
    assert told["more"] == wanted.more
    assert wanted.imputed <= told["handed"] <= wanted.imputed + len(audited)


def test_a_row_that_is_skipped_in_an_audit_is_wrong_until_it_is_answered(place):
    desk = desk_of(place)
    first, second, third, *_ = desk.draw()["rows"]
    truth = {row: desk.run.shown(desk.run.label[row]) for row in (first, second, third)}
    decide(desk, first, truth[first], how=AUDIT)
    decide(desk, third, truth[third], how=AUDIT)
    told = desk.state()["promise"]
    assert (told["audits"], told["gaps"], told["mistakes"]) == (3, 1, 1)
    assert desk.to_audit()["rows"][0] == second
    answer = decide(desk, second, truth[second], how=AUDIT)
    assert answer["state"]["promise"]["mistakes"] == 0
    desk.take_back([{"row": second, "seen": answer["taken"][0]["number"]}], by="me")
    assert desk.state()["promise"]["gaps"] == 1


def test_audits_are_kept_from_the_training_so_that_they_go_on_judging(place):
    desk, folder = desk_of(place, "table"), place / "table" / "run"
    audited, *_ = desk.draw()["rows"]
    other = next(row for row in desk.run.unlabeled.tolist() if row != audited)
    decide(desk, audited, "cat", how=AUDIT)
    decide(desk, other, "cat")
    names = desk.run.names
    assert list(desk.decisions.corrections()) == [names[other]]
    assert desk.state()["new"] == 1
    assert audited not in [row[0] for row in desk.queue(Wanted(), 0, 500)["rows"]]
    labelgrad.fit(place / "table" / "data.csv", target="answer", out=folder, resume=True)
    again = desk_of(place, "table")
    assert again.run.given[audited] == NONE
    assert again.state()["promise"]["audits"] == 1


# What is let through


@pytest.fixture
def client(place):
    return Client(desk_of(place))


def test_the_page_loads_nothing_from_elsewhere_and_says_so(client):
    status, headers, page = client.get("")
    assert status == 200
    assert headers.items() >= HEADERS.items()
    assert b"http://" not in page
    assert b"https://" not in page
    for name in ASSETS:
        status, headers, content = client.get(name)
        assert status == 200
        assert headers["content-security-policy"] == HEADERS["content-security-policy"]
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b"")


def test_a_picture_is_handed_out_by_number_only(client):
    status, headers, content = client.get("picture/3/96")
    assert (status, headers["content-type"]) == (200, "image/png")
    assert content.startswith(b"\x89PNG")
    for path in ("picture/9999/96", "picture/3/4000", "picture/-1/96", "picture/03.png/96"):
        assert client.get(path)[0] in (404, 409), path


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/wrong/",
        f"/{SECRET}",
        f"/{SECRET[:-1]}/",
        f"/{SECRET.upper()}/api/run",
        f"/{SECRET}/../{SECRET}/api/run",
        f"/{SECRET}/picture/../../etc/passwd",
        f"/{SECRET}/..\\..\\page.css",
        f"/{SECRET}//etc/passwd",
        f"/{SECRET}/page.py",
        f"/{SECRET}/desk.py",
    ],
)
def test_without_the_secret_or_off_the_path_there_is_one_sentence(client, path):
    status, headers, content = client.ask("GET", path)
    assert status in (403, 404)
    assert set(content) == {"error"}
    assert content["error"].endswith(".")
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://example.org"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "null"},
        {"host": f"labelgrad.example.org:{OWN.split(':')[1]}"},
        {"host": "127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
    ],
)
def test_other_sites_are_refused_and_nothing_is_written(client, headers, place):
    sent = {"decisions": [{"row": 20, "label": "dark", "seen": 0}], "how": "choose", "by": "x"}
    status, _, content = client.post("api/decide", sent, **headers)
    assert status == 403
    assert set(content) == {"error"}
    assert not (place / "pictures" / "run" / FILE).exists()
    status, _, content = client.post("api/decide", sent, origin=f"http://{OWN}")
    assert (status, len(content["taken"])) == (200, 1)


def test_a_body_of_a_gigabyte_is_refused_before_it_is_read(client):
    read_parts = []

    def parts():
        for number in range(2**30 // 2**16):
            read_parts.append(number)
            yield b" " * 2**16

    path = f"/{SECRET}/api/decide"
    assert client.ask("POST", path, parts(), content_length=str(2**30))[0] == 413
    assert read_parts == []
    assert client.ask("POST", path, parts(), transfer_encoding="chunked")[0] == 413
    assert len(read_parts) <= MOST_BYTES // 2**16 + 2


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"text"',
        b'{"decisions": 7}',
        b'{"decisions": [7], "how": "choose"}',
        b'{"decisions": [{"row": "../x"}], "how": "choose"}',
        b'{"decisions": [{"row": true, "label": "dark"}], "how": "choose"}',
        b'{"decisions": [{"row": 20, "label": ["dark"]}], "how": "choose"}',
        b'{"decisions": [{"row": 20, "label": "dark"}], "how": "hack"}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_decision_is_refused_in_one_sentence(client, body, place):
    status, _, content = client.ask("POST", f"/{SECRET}/api/decide", body)
    assert status == 409
    assert set(content) == {"error"}
    assert not (place / "pictures" / "run" / FILE).exists()


def test_names_of_files_that_lead_out_of_the_folder_are_not_read(place):
    """A run folder may come from anybody; so its names are not trusted."""
    secret = place / "secret.png"
    Image.new("L", (4, 4)).save(secret)
    run = place / "pictures" / "run"
    changed = {
        file: (run / file).read_bytes().replace(b"39.png", b"../../secret.png")
        for file in ("examples.csv", "labels.csv")
    }
    write_files(run, changed)
    desk = desk_of(place)
    row = desk.run.names.index("../../secret.png")
    assert desk.picture(row, 96) is None
    assert "not there" in desk.example(row)["text"]


def test_hostile_names_are_kept_as_they_are(place):
    desk = desk_of(place)
    row = desk.run.names.index(HOSTILE)
    decide(desk, row, SCRIPT)
    line = json.loads(desk.decisions.path.read_text())
    assert (line["name"], line["label"]) == (HOSTILE, SCRIPT)


# The command


def test_a_port_that_is_taken_is_one_sentence(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"Port {port} cannot be used"):
            bound_socket(port)
        said = labelgrad_here("review", place / "table" / "run", "--port", port, "--no-browser")
    assert "choose another by --port" in one_sentence(said)


def test_what_is_no_run_is_one_sentence(tmp_path):
    assert "no run folder" in one_sentence(labelgrad_here("review", tmp_path / "no"))
    assert "no finished run" in one_sentence(labelgrad_here("review", tmp_path))
    assert "a share such as" in one_sentence(
        labelgrad_here("review", tmp_path, "--wrong-at-most", "few")
    )
    assert "above 0" in one_sentence(labelgrad_here("review", tmp_path, "--wrong-at-most", "0%"))


def test_the_server_does_without_pytorch():
    code = "import sys, labelgrad.cli.review; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_training_anew_beside_the_page(place):
    desk = desk_of(place, "table")
    with pytest.raises(Refused, match="Nothing was decided"):
        desk.begin_training()
    before = desk.run.digest
    decide(desk, int(desk.run.unlabeled[0]), "cat")
    decide(desk, int(desk.run.unlabeled[1]), "dog")
    assert desk.state()["new"] == 2
    desk.begin_training()
    with pytest.raises(Refused, match="under way"):
        desk.begin_training()
    for _ in range(1200):
        if desk.training.state["state"] != "running":
            break
        time.sleep(0.1)
    told = desk.state()
    assert told["training"]["state"] == "done", told["training"]
    assert told["run"] != before
    assert told["new"] == 0
    assert told["training"]["compared"] == 34


@pytest.mark.parametrize("moved", [False, True])
def test_a_training_that_was_interrupted_leaves_the_result_before(place, moved):
    desk, folder = desk_of(place, "table"), place / "table" / "run"
    decide(desk, int(desk.run.unlabeled[0]), "cat")
    _set_aside(folder)  # what a training anew does first
    if moved:
        (folder / HALF).rename(folder / BEFORE)
    again = desk_of(place, "table")
    assert again.facts()["interrupted"]
    assert again.run.digest == desk.run.digest
    assert again.state()["decided"] == 1
