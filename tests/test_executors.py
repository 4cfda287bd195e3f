"""The jobs of fit, reproduce and bench by an executor: as here, and refused clearly."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

import labelgrad
from labelgrad.bench.peer_trial import PeerTrial
from labelgrad.bench.splits import Draw, Places
from labelgrad.bench.trial import METHODS, BenchTrial
from labelgrad.cli.bench import run_bench
from labelgrad.cli.peers import run_peers
from labelgrad.datasets.picture_sets import load
from labelgrad.files import read_tensors
from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.jobs import SentJob, train_shares
from labelgrad.fitting.plan import make_plan
from labelgrad.inputs.kinds import read
from labelgrad.paper.commands.reproduce import run_recipe
from labelgrad.paper.picture_task import Task
from labelgrad.paper.picture_trial import PictureTrial
from labelgrad.training.parallel import finish_all
from tests.test_workers import Count, Heard, Refuses

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(np.arange(60) < 20, X.sum(1) > 0, -1)


@pytest.fixture
def executor():
    """Two threads, whose jobs take turns."""
    with ThreadPoolExecutor(2) as threads:
        yield threads


def lines(folder):
    """What came of each trial, in an order of its own, but how long it took."""
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return sorted(json.dumps(line | {"seconds": 0}, sort_keys=True) for line in found)


def of_works(*works):
    """The same of works that are done here and now."""
    for work in works:
        for _ in work:
            pass
    found = [line | {"seconds": 0} for work in works for line in work.history]
    return sorted(json.dumps(line, sort_keys=True) for line in found)


@pytest.mark.slow
def test_a_fit_by_an_executor_is_that_of_one_process(executor, tmp_path):
    options = {"steps": 30, "witnesses": "", "model": "mlp"}
    here = labelgrad.fit(X, Y, out=tmp_path / "here", **options)
    heard = []
    there = labelgrad.fit(
        X,
        Y,
        out=tmp_path / "there",
        executor=executor,
        on_progress=lambda name, done, total, loss: heard.append(name),
        **options,
    )
    assert {"training 1/6", "training 6/6"} <= set(heard)
    assert there.labels == here.labels
    assert (tmp_path / "there/labels.csv").read_bytes() == (
        tmp_path / "here/labels.csv"
    ).read_bytes()


def test_what_had_begun_goes_along_and_ends_where_it_would_have(executor, tmp_path, monkeypatch):
    dataset, steps = read(X, Y), []
    plan = make_plan(dataset, model="mlp", steps=60)
    calm = CrossValidation(dataset, plan, folder=tmp_path / "calm")
    for _ in calm.records():
        pass
    place = tmp_path / "stopped"
    stopped = CrossValidation(dataset, plan, folder=place)
    for record in stopped.records():
        if record["step"] > 30:
            break
    iterated = SentJob.__iter__

    def counted(job):
        for record in iterated(job):
            steps.append(record)
            yield record

    monkeypatch.setattr(SentJob, "__iter__", counted)
    train_shares(dataset, plan, None, place, "cpu", 3, None, executor)
    assert len(steps) == (60 - 25) * len(calm.trainings), "from the checkpoint at step 25"
    found = CrossValidation(dataset, plan, folder=place)
    assert found.step == 60
    for one, other in zip(calm.trainings, found.trainings, strict=True):
        for name, value in one.run.trainer.state.tensors.items():
            assert torch.equal(value, other.run.trainer.state.tensors[name])
    files = [
        sorted(path.relative_to(folder) for path in folder.rglob("*.safetensors"))
        for folder in (tmp_path / "calm", place)
    ]
    assert files[0] == files[1], "no checkpoint of before is left"
    newest = max(place.glob("all-labels-*/checkpoints/*"))
    assert read_tensors(newest)[1]["step"] == 60


def test_a_bench_by_an_executor_is_that_of_its_trials(executor, tmp_path, capsys):
    asked = {"sets": ("wine",), "seeds": 1, "steps": 4, "workers": 1, "data": None, "command": ""}
    run_bench(**asked, out=tmp_path, executor=executor)
    works = [BenchTrial("wine", m.kind, m.setting, seed=0, steps=4) for m in METHODS]
    assert lines(tmp_path) == of_works(*works)
    run_bench(**asked, out=tmp_path)  # nothing is left to do, so no pool begins


def test_a_bench_of_peers_by_an_executor_reads_tables_where_it_is(executor, tmp_path, monkeypatch):
    table = "\n".join(
        ["a,b,target", *(f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b, _ in X)]
    )
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.csv").write_text(table)
    monkeypatch.chdir(tmp_path)
    places = Places(None, Path("tables"))
    asked = {"sets": ("mine",), "methods": ("gaussian-process", "logistic-regression"), "seeds": 1}
    asked |= {"draw": Draw(5), "workers": 1, "command": ""}
    run_peers(**asked, places=places, out=tmp_path / "out", executor=executor)
    works = [PeerTrial("mine", m, seed=0, draw=Draw(5), places=places) for m in asked["methods"]]
    assert lines(tmp_path / "out") == of_works(*works)
    with pytest.raises(FileNotFoundError, match=r"tables/other\.csv is missing; put it there\.$"):
        PeerTrial("other", "logistic-regression", seed=0, draw=Draw(5), places=places)


def test_pictures_by_an_executor_are_those_of_the_trials(executor, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_recipe(
        "digits",
        scale="tiny",
        out=Path("out"),
        trials=1,
        workers=1,
        methods=("supervised", "lga"),
        labels=(50,),
        command="",
        executor=executor,
    )
    works = [PictureTrial(Task("digits", m, 50, 0), scale="tiny") for m in ("supervised", "lga")]
    assert lines(tmp_path / "out") == of_works(*works)
    assert not (tmp_path / "out" / "unfinished").exists()


@pytest.mark.parametrize("shared", [True, False])
def test_a_picture_trial_elsewhere_keeps_checkpoints_where_it_sees_the_folder(
    shared, executor, tmp_path, monkeypatch
):
    there = []
    iterated = PictureTrial.__iter__

    def looked_at(trial):
        for record in iterated(trial):
            there.append((tmp_path / "unfinished").exists())
            yield record

    monkeypatch.setattr(PictureTrial, "__iter__", looked_at)
    if shared:
        (tmp_path / "unfinished").mkdir()
    job = {"task": Task("digits", "lga", 50, 0), "scale": "tiny"}
    job["unfinished"] = tmp_path / "unfinished" / "trial"
    finish_all(PictureTrial, {"job": job}, workers=1, progress=Heard(), executor=executor)
    assert set(there) == {shared}
    assert not (tmp_path / "unfinished" / "trial").exists()


class Loads(Count):
    """Work on pictures of a folder."""

    def __init__(self, steps, folder):
        load("fashion-mnist", folder)


def test_what_another_machine_lacks_is_told_with_its_name(executor, tmp_path, monkeypatch):
    def by_executor(make, **job):
        finish_all(make, {"job": job}, workers=1, progress=Heard(), executor=executor)

    with pytest.raises(FileNotFoundError, match=r"is missing, and a worker downloads nothing; put"):
        by_executor(Loads, steps=3, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    numbers = count()
    monkeypatch.setattr(socket, "gethostname", lambda: f"node{next(numbers)}")
    with pytest.raises(RuntimeError, match=r"^on node1: 3 steps are too few\.$"):
        by_executor(Refuses, steps=3)


def test_a_fit_by_an_executor_has_no_records_of_steps(executor):
    with pytest.raises(ValueError, match="needs the training in this process, got an executor"):
        labelgrad.fit(X, Y, executor=executor, on_record=print)
