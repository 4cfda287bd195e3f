"""One search by several processes: each place once, also when a process dies in the middle."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread

import pytest

from labelgrad.paper import shared_search
from labelgrad.paper.settings import first_settings
from labelgrad.paper.shared_search import (
    SearchWorker,
    Shared,
    SharedSearch,
    opened,
    without_password,
)
from tests.command import COMMAND, labelgrad_here, one_sentence

optuna = pytest.importorskip("optuna", reason="needs pip install 'labelgrad[tune]'")
TARGET = str(Path(__file__).with_name("search_target.py"))
TUNE = ["tune", "digits", "--scale", "tiny", "--labels", "50", "--methods", "supervised"]


@pytest.fixture
def shared(tmp_path):
    return Shared(f"sqlite:///{tmp_path}/search", "digits", 50, "tiny", trials=4)


def search_of(shared):
    """As another process would open it."""
    return SharedSearch(opened(shared), shared, "lga")


def trained(place, settings):
    return {"number": place, "settings": asdict(settings), "validation_error": 1 / (1 + place)}


def test_two_that_take_turns_do_each_place_once_and_as_one_alone_would(shared, tmp_path):
    one, other = search_of(shared), search_of(shared)
    while one.take_one(trained) and other.take_one(trained):
        pass
    assert one.is_done
    assert [line["number"] for line in other.lines] == [0, 1, 2, 3]
    first = one.lines[0]["settings"]
    assert first["learning_rate"] == first_settings("lga")[0]["learning_rate"]
    alone = search_of(replace(shared, url=f"sqlite:///{tmp_path}/alone"))
    while alone.take_one(trained):
        pass
    assert alone.lines == one.lines, "fewer than eleven follow from the seed alone"
    assert not search_of(replace(shared, seed=1)).lines, "another seed, another search"
    more = search_of(replace(shared, trials=6))
    while more.take_one(trained):
        pass
    assert more.lines[:4] == one.lines
    assert len(more.lines) == 6


def test_a_place_that_two_have_made_at_once_is_done_once(shared):
    one, done = search_of(shared), []

    def counted(place, settings):
        done.append(place)
        return trained(place, settings)

    for place in (0, 1, 2, 3, 0, 1, 2, 3):
        one.study.enqueue_trial({}, user_attrs={"place": place})
    while one.take_one(counted):
        pass
    assert done == [0, 1, 2, 3]
    assert one.is_done


def test_while_a_place_is_under_way_nobody_else_takes_it(shared):
    one, other, seen = search_of(shared), search_of(shared), []

    def inner(place, settings):
        seen.append(place)
        return trained(place, settings)

    def outer(place, settings):
        while other.take_one(inner):
            pass
        return trained(place, settings)

    one.take_one(outer)
    assert seen == [1, 2, 3]
    assert one.is_done


def test_a_failed_place_is_tried_again_with_the_same_settings(shared):
    one, had = search_of(shared), []

    def fails(place, settings):
        had.append((place, settings))
        raise ValueError("a full disk.")

    one.take_one(trained)
    with pytest.raises(ValueError, match=r"^a full disk\.$"):
        one.take_one(fails)
    while one.take_one(trained):
        pass
    place, settings = had[0]
    assert one.lines[place]["settings"] == asdict(settings)
    assert one.is_done


def test_a_process_that_died_before_its_first_sign_of_life_is_found_out(shared):
    one = search_of(shared)
    one._free_the_dead()
    with pytest.warns(UserWarning, match="Heartbeat"):
        lost = one.study.ask()
    while one.take_one(trained):
        pass
    assert [line["number"] for line in one.lines] == [1, 2, 3], "it may only be slow"
    one._bare[lost.number] -= 2 * shared.heartbeat
    assert one.take_one(trained)
    assert one.is_done


def test_what_was_taken_for_dead_and_is_not_counts_once(shared):
    one, other = search_of(shared), search_of(shared)

    def long_silent(place, settings):
        (running,) = other._trials("RUNNING")
        other.study.tell(running.number, state=optuna.trial.TrialState.FAIL)
        assert other.take_one(trained)
        return trained(place, settings) | {"late": True}

    assert one.take_one(long_silent)
    while one.take_one(trained):
        pass
    assert one.is_done
    assert not any("late" in line for line in one.lines)


def test_a_database_that_cannot_be_used_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("psycopg2", reason="needs pip install psycopg2-binary")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (old := tmp_path / "old").touch()
    opened(Shared(f"sqlite:///{old}", "digits", 50, "tiny", 1))
    with closing(sqlite3.connect(old)) as database:
        database.execute("update alembic_version set version_num = 'v2.6.0.a'")
        database.commit()
    expected = {
        f"postgresql://me:secret@127.0.0.1:{port}/a": "needs a database that answers",
        f"sqlite:///{tmp_path}/none/search": "needs a database that answers",
        f"sqlite:///{old}": "has tables of another version than Optuna",
        "nowhere": "needs an address such as postgresql://user@host/database",
        "magic://host/a": "needs an address such as postgresql://user@host/database",
    }
    for url, what in expected.items():
        command = [*TUNE, "--storage", url, "--out", tmp_path / "out"]
        said = one_sentence(labelgrad_here(*command))
        assert what in said
        assert "secret" not in said
    monkeypatch.setattr(shared_search, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    said = one_sentence(labelgrad_here(*TUNE, "--storage", "postgresql://me@host/a"))
    assert said.endswith("pip install psycopg2-binary.")
    said = one_sentence(labelgrad_here("tune", "synthetic", "--storage", "postgresql://me@host/a"))
    assert "--storage is for picture sets" in said
    assert not (tmp_path / "out").exists()


def test_a_password_is_not_written_down():
    typed = "labelgrad tune digits --storage 'postgresql://me:p%40:ss@host/a' --trials 3"
    assert without_password(typed) == typed.replace("p%40:ss", "***")
    plain = "labelgrad tune digits --storage postgresql://me@host:5432/a"
    assert without_password(plain) == plain


class Postgres:
    """A PostgreSQL of a test's own, in a folder, by a user who may run it."""

    def __init__(self, programs, folder):
        user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(folder, **user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"postgresql://me@127.0.0.1:{port}/postgres"
        self._programs, self._where, self._log = programs, f"{folder}/data", f"{folder}/log"
        self._how = {"stdout": subprocess.DEVNULL, "cwd": folder, **user}
        self._options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("initdb", "-U", "me", "--auth=trust", "--no-sync")

    def start(self):
        self._run("pg_ctl", "-o", self._options, "-l", self._log, "-w", "start")

    def stop(self):
        self._run("pg_ctl", "-m", "immediate", "stop")

    def _run(self, program, *options):
        command = [self._programs / program, "-D", self._where, *options]
        subprocess.run(command, check=True, **self._how)


@pytest.fixture(scope="module")
def postgres():
    """A PostgreSQL that runs, for all tests here."""
    pytest.importorskip("psycopg2", reason="needs pip install psycopg2-binary")
    found = [shutil.which("initdb"), *map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))]
    if not any(found):
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    programs = Path(next(filter(None, found))).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        server = Postgres(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.mark.slow
def test_a_database_that_is_away_for_a_moment_costs_nothing(postgres):
    shared = Shared(postgres.url, "digits", 50, "tiny", trials=3, seed=1)
    search, done = search_of(shared), []

    def back_soon():
        time.sleep(1.5)
        postgres.start()

    def cut_off(place, settings):
        done.append(place)
        if place == 1:
            postgres.stop()
            Thread(target=back_soon).start()
        return trained(place, settings)

    while search.take_one(cut_off):
        pass
    assert done == [0, 1, 2]
    assert search.is_done
    assert not search._trials("FAIL", "RUNNING"), "no trial was lost"


def test_what_was_cut_off_in_the_midst_is_asked_again_and_a_refusal_is_not(monkeypatch):
    from sqlalchemy.exc import IntegrityError, OperationalError, PendingRollbackError

    monkeypatch.setattr(shared_search, "PAUSE", 0.0)
    lost = OperationalError("select 1", {}, Exception("server closed the connection"))
    asked = []

    def set_trial_state_values(answer):
        asked.append(answer)
        if len(asked) == 1:
            try:
                raise lost
            except OperationalError:
                raise PendingRollbackError("roll back first") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    call = shared_search._asked_again(set_trial_state_values, shared_search._Patience())
    assert call(False) is False
    assert len(asked) == 2
    refused = IntegrityError("insert", {}, Exception("twice"))
    finished = optuna.exceptions.UpdateFinishedTrialError("it was done before")
    for error in (refused, finished):
        with pytest.raises(type(error)):
            call(error)
    assert len(asked) == 4, "neither was asked again"
    asked.clear()
    assert call(finished) is True, "it was done when the answer was lost"


@pytest.mark.slow
def test_a_database_that_stays_away_is_one_sentence_and_goes_on(postgres, monkeypatch):
    monkeypatch.setattr(shared_search, "PATIENCE", 1.0)
    shared = Shared(postgres.url, "digits", 50, "tiny", trials=3, seed=2, heartbeat=1)
    had = []

    def cut_off(place, settings):
        had.append((place, settings))
        if len(had) == 2:
            postgres.stop()
        return trained(place, settings)

    monkeypatch.setattr(SearchWorker, "_training", lambda worker, method: cut_off)
    worker = SearchWorker(shared=shared, methods=("lga",), data_folder=None)
    said = r"^the database .* went away, and was not back within 1 seconds; what had ended is in it"
    with pytest.raises(RuntimeError, match=said):
        list(worker)
    with pytest.raises(RuntimeError, match=said):
        assert worker.history
    with pytest.raises(ValueError, match="needs a database that answers"):
        SearchWorker(shared=shared, methods=("lga",), data_folder=None)
    postgres.start()
    worker = SearchWorker(shared=shared, methods=("lga",), data_folder=None)
    list(worker)
    assert [place for place, _ in had] == [0, 1, 2, 1], "what was cut off is done again"
    assert had[3] == had[1], "with the same settings"
    assert [line["number"] for line in worker.history] == [0, 1, 2]


@pytest.mark.slow
def test_three_processes_search_on_postgresql_and_one_is_killed(postgres, tmp_path):
    said = one_sentence(labelgrad_here(*TUNE, "--storage", f"{postgres.url}-none"))
    assert 'database "postgres-none" does not exist' in said
    shared = Shared(postgres.url, "digits", 50, "tiny", trials=12, heartbeat=2)
    options = [*TUNE, "--trials", "12", "--workers", "1", "--heartbeat", "2"]

    def asked(name):
        return [*options, "--storage", postgres.url, "--out", str(tmp_path / name)]

    def begin(program, name):
        return subprocess.Popen(
            [*program, *asked(name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def kill_when_a_trial_is_done():
        while not search.lines:
            time.sleep(0.1)
        os.killpg(killed.pid, signal.SIGKILL)

    killed = begin([sys.executable, TARGET], "killed")
    search = SharedSearch(opened(shared), shared, "supervised")
    while not (under_way := [t for t in search._trials("RUNNING") if t.params]):
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.1)
    one = begin(COMMAND, "one")
    killing = Thread(target=kill_when_a_trial_is_done, daemon=True)
    killing.start()
    other = labelgrad_here(*asked("other"))
    assert other.returncode == 0, other.stderr
    _, err = one.communicate(timeout=300)
    assert one.returncode == 0, err
    killing.join()
    killed.communicate()
    place = under_way[0].user_attrs["place"]
    for name in ("one", "other"):
        text = (tmp_path / name / "results.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["number"] for line in lines] == list(range(12)), "all, and none twice"
        assert lines == search.lines
        assert lines[place]["settings"]["learning_rate"] == pytest.approx(
            under_way[0].params["learning_rate"], rel=5e-3
        )
    assert not (tmp_path / "killed" / "results.jsonl").exists()
    places = [trial.user_attrs["place"] for trial in search._trials("COMPLETE")]
    assert sorted(places) == list(range(12)), "none was trained twice"
    assert [t.user_attrs["place"] for t in search._trials("FAIL")] == [place]
