"""The pool kept in a run folder: what it says is what it said, and what is not it is refused."""

import hashlib
import json
import os
import pickle
import shutil
import sys

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from skops import io as skops

import labelgrad
from labelgrad.fitting import kept_pool, kept_witness
from labelgrad.fitting.kept_pool import load_pool
from labelgrad.fitting.run_folder import write_files
from labelgrad.inputs.kinds import prepare
from labelgrad.witnesses import aligned, models
from tests.command import labelgrad_here, one_sentence

WITNESSES = "linear,random forest,neighbours"


@pytest.fixture(autouse=True)
def few_trees_and_steps(monkeypatch):
    monkeypatch.setattr(models, "TREES", 10)
    monkeypatch.setattr(aligned, "STEPS", (100, 100))


def rows(values=False, seed=0):
    x = np.random.default_rng(seed).normal(size=(90, 4))
    truth = x[:, 0] + x[:, 1] if values else (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)
    hidden = np.nan if values else -1
    return x, np.where(np.arange(90) < 40, truth, hidden)


def pictures():
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    x = (rng.random((60, 8, 8)) * 99 + 120 * y[:, None, None]).astype(np.uint8)
    return x, np.where(np.arange(60) < 24, y, -1)


def kept(folder, x, y, **options):
    options = {"witnesses": WITNESSES, "steps": 20} | options
    return labelgrad.fit(x, y, out=folder, keep_pool=True, **options)


def index_of(run):
    return json.loads((run / "pool" / "pool.json").read_text())


def same_as_in_memory(result, run, x, **load):
    again = labelgrad.load(run, **load)
    assert again.pooled is None
    read, *_ = prepare(result.predictor.config.preprocessing, x)
    said = result.pooled.of_new(read)
    assert np.allclose(load_pool(run, again.predictor).of_new(read), said, atol=1e-6, rtol=0)
    before, after = result.predict(x, pool=True), again.predict(x, pool=True)
    assert torch.allclose(before.values, after.values, atol=1e-6, rtol=0)
    assert before.columns() == after.columns()
    return after


# What it says


def test_classes_of_a_table(tmp_path):
    x, y = rows()
    result = kept(tmp_path / "run", x, y)
    new, _ = rows(seed=1)
    found = same_as_in_memory(result, tmp_path / "run", new)
    assert torch.allclose(found.values.sum(1), torch.ones(90).double())
    student = labelgrad.load(tmp_path / "run").predict(new)
    assert (student.values - found.values).abs().max() > 1e-3


def test_values_of_a_table_in_their_own_units(tmp_path):
    x, y = rows(values=True)
    y = 500 + 100 * y
    mine = {"mine": Ridge()}  # it has no spread of its own
    options = {"task": "regression", "estimators": mine, "witnesses": WITNESSES + ",kernel"}
    result = kept(tmp_path / "run", x, y, **options)
    new, truth = rows(values=True, seed=1)
    found = same_as_in_memory(result, tmp_path / "run", new)
    off = found.values.numpy()[:40] - (500 + 100 * truth[:40])
    assert np.sqrt((off**2).mean()) < 60
    assert found.margin == result.predictor.config.margin
    entries = {entry["name"]: entry for entry in index_of(tmp_path / "run")["witnesses"]}
    assert entries["mine"]["settings"]["spread"] > 0


def test_pictures_in_an_array(tmp_path):
    x, y = pictures()
    result = kept(tmp_path / "run", x, y, steps=4)
    same_as_in_memory(result, tmp_path / "run", x[:9])


def test_every_usual_witness_of_classes_can_be_kept(tmp_path):
    x, y = rows()
    every = f"{WITNESSES},self-training,extra trees,label spreading,kernel,lga-linear"
    result = kept(tmp_path / "run", x, y, witnesses=every)
    said = {h.name: h.opinion for h in result.pooled.heard}
    for name in every.split(","):
        packed = kept_witness.pack(said[name])
        asked = kept_witness.Asked(3, result.pooled.pool.known, result.pooled.transform, None)
        again = kept_witness.unpack(packed, asked)
        assert np.allclose(again.of_new(x), said[name].of_new(x), atol=1e-9)
    assert not any("kept pool" in note for note in result.summary.notes)


@pytest.mark.parametrize("values", [False, True])
def test_catboost_in_its_own_format(tmp_path, values):
    pytest.importorskip("catboost")
    x, y = rows(values)
    (heard,) = models.catboost().hear(x, [y], 0 if values else 3, 0)
    packed = kept_witness.pack(heard)
    assert packed.kind == "catboost"
    assert json.loads(packed.content)
    asked = kept_witness.Asked(0 if values else 3, np.full(3, 1 / 3), None, None)
    again = kept_witness.unpack(packed, asked)
    assert np.allclose(again.of_new(x), heard.of_new(x), atol=1e-9)


def test_a_network_of_ones_own_gets_its_weights(tmp_path):
    def own():
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    x, y = rows()
    result = kept(tmp_path / "run", x, y, model=own())
    same_as_in_memory(result, tmp_path / "run", x, model=own())


def test_opinions_of_a_file_are_silent_and_need_no_file(tmp_path):
    x, y = rows()
    lines = [f"{row},{max(0, int(y[row]))}" for row in range(90)]
    (tmp_path / "rule.csv").write_text("\n".join(["row,rule", *lines]) + "\n")
    result = kept(tmp_path / "run", x, y, opinions=tmp_path / "rule.csv")
    same_as_in_memory(result, tmp_path / "run", x)
    (entry,) = [e for e in index_of(tmp_path / "run")["witnesses"] if e["name"] == "rule"]
    assert entry["kind"] == "opinions"
    assert entry["file"] is None


# What is in the folder


def test_the_index_names_weights_files_and_digests(tmp_path):
    x, y = rows()
    result = kept(tmp_path / "run", x, y)
    place, index = tmp_path / "run" / "pool", index_of(tmp_path / "run")
    assert index["format"] == 1
    assert index["labelgrad"] == labelgrad.__version__
    weights = {name: w for name, w in result.pooled.pool.weights.items() if w}
    assert {entry["name"]: entry["weight"] for entry in index["witnesses"]} == weights
    for entry in index["witnesses"]:
        content = (place / entry["file"]).read_bytes()
        assert hashlib.blake2b(content, digest_size=16).hexdigest() == entry["digest"]
    files = {entry["file"] for entry in index["witnesses"]} | {"pool.json"}
    assert {path.name for path in place.iterdir()} == files
    assert index["known"] == pytest.approx(result.pooled.pool.known)
    assert index["run"]["factor"] == result.predictor.config.factor


class Odd(LogisticRegression):
    """A class that nobody has reason to trust."""


def test_a_model_of_an_unknown_class_is_left_out_and_the_run_says_so(tmp_path):
    x, y = rows()
    result = kept(tmp_path / "run", x, y, estimators={"mine": Odd()}, witnesses="linear")
    (note,) = [note for note in result.summary.notes if "kept pool" in note]
    assert "without the witness 'mine'" in note
    assert "Odd" in note
    assert "weights of the others are as they were" in note
    names = [entry["name"] for entry in index_of(tmp_path / "run")["witnesses"]]
    assert "mine" not in names
    weights = load_pool(tmp_path / "run", result.predictor).pool.weights
    assert weights["linear"] == result.pooled.pool.weights["linear"]


def test_a_pool_of_nobody_says_what_is_known_of_all(tmp_path, monkeypatch):
    def refuse(opinion):
        raise ValueError("not today")

    monkeypatch.setattr(kept_pool, "pack", refuse)
    x, y = rows()
    result = kept(tmp_path / "run", x, y, witnesses="")
    found = labelgrad.load(tmp_path / "run").predict(x, pool=True)
    shares = torch.from_numpy(result.pooled.pool.shares)
    assert torch.allclose(found.values, shares.expand(90, 3), atol=1e-6)


def test_a_run_goes_on_keeping_its_pool_and_can_begin_to(tmp_path):
    x, y = rows()
    run, options = tmp_path / "run", {"witnesses": "linear", "steps": 5}
    labelgrad.fit(x, y, out=run, **options)
    assert not (run / "pool").exists()
    kept(run, x, y, resume=True, **options)
    (run / "pool" / "9-old.skops").write_bytes(b"of an older pool")
    (run / "pool" / "pool.json").write_text("damaged")
    labelgrad.fit(x, y, out=run, resume=True, **options)
    assert not (run / "pool" / "9-old.skops").exists()
    assert len(labelgrad.load(run).predict(x, pool=True)) == 90


# What is refused


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "TREES", 10)
        kept(folder / "run", *rows())
    return folder / "run"


@pytest.fixture
def run(one_run, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(one_run, tmp_path / "run")


def refusal(run):
    """One sentence; the student is as good as before."""
    assert len(labelgrad.load(run).predict(rows()[0])) == 90
    with pytest.raises((ValueError, FileNotFoundError, ImportError)) as error:
        labelgrad.load(run).predict(rows()[0], pool=True)
    said = str(error.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


def file_of(run, name):
    (entry,) = [entry for entry in index_of(run)["witnesses"] if entry["name"] == name]
    return run / "pool" / entry["file"]


def rewrite(run, changes):
    write_files(run, {"pool/pool.json": json.dumps(index_of(run) | changes).encode()})


def replace_file(run, name, content):
    """Exchange a file and its digest, as somebody would who means harm."""
    path, entries = file_of(run, name), index_of(run)["witnesses"]
    path.write_bytes(content)
    for entry in entries:
        if entry["name"] == name:
            entry["digest"] = hashlib.blake2b(content, digest_size=16).hexdigest()
    rewrite(run, {"witnesses": entries})


def test_a_run_without_a_pool_says_how_to_keep_one(run):
    (run / "pool" / "pool.json").unlink()
    assert refusal(run) == f"{run} keeps no pool; fit again with --resume --keep-pool."


@pytest.mark.parametrize("name", ["linear", "random forest", "neighbours", "network by supervised"])
def test_damaged_exchanged_or_missing_files(run, name):
    names = [entry["name"] for entry in index_of(run)["witnesses"]]
    if name not in names:
        pytest.skip("it has no weight")
    path = file_of(run, name)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "is damaged or of another run" in refusal(run)
    other = file_of(run, next(each for each in names if each != name))
    path.write_bytes(other.read_bytes())
    assert "is damaged or of another run" in refusal(run)
    path.unlink()
    assert "cannot be read (No such file or directory)" in refusal(run)


@pytest.mark.parametrize("name", ["linear", "neighbours"])
def test_a_file_of_another_kind_is_refused_though_its_digest_is_right(run, name):
    replace_file(run, name, b"nothing that was kept")
    assert f"{file_of(run, name)} cannot be used" in refusal(run)


class Harm:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("model", [Odd().fit([[0.0], [1.0]], [0, 1]), os.getcwd])
def test_a_type_that_is_not_trusted_is_refused(run, model):
    replace_file(run, "linear", skops.dumps(model))
    assert "it has types that are not trusted: " in refusal(run)


def test_a_pickle_is_refused(run):
    replace_file(run, "linear", pickle.dumps(Harm()))
    assert "cannot be used" in refusal(run)


@pytest.mark.parametrize(
    ("part", "number", "sentence"),
    [
        ("left_child", 10**6, "a tree whose branches lead nowhere"),
        ("right_child", 0, "a tree whose branches lead nowhere"),
        ("feature", 4, "a tree that asks for columns that there are not"),
    ],
)
@pytest.mark.parametrize("in_a_pipeline", [False, True])
def test_a_tree_that_leads_astray_is_refused(run, part, number, sentence, in_a_pipeline):
    trusted = list(kept_witness.TRUSTED)
    forest = skops.loads(file_of(run, "random forest").read_bytes(), trusted=trusted)
    state = forest.estimators_[0].tree_.__getstate__()
    state["nodes"][part][0] = number
    forest.estimators_[0].tree_.__setstate__(state)
    model = make_pipeline(forest) if in_a_pipeline else forest
    replace_file(run, "random forest", skops.dumps(model))
    assert sentence in refusal(run)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"format": 7}, "in format 7, and this is"),
        ({"witnesses": [{"name": "a"}]}, "pool.json is damaged"),
        ({"witnesses": [{"name": "a", "kind": "code", "weight": 1}]}, "of kind 'code'"),
        (
            {"witnesses": [{"name": "a", "kind": "model", "weight": 1, "file": "../x.skops"}]},
            "it names a file '../x.skops'",
        ),
        ({"witnesses": [{"name": "a", "kind": "opinions", "weight": -1}]}, "the weight -1"),
        ({"shares": [1.0]}, "it needs shares of 3 classes"),
        ({"run": {"classes": [1, 2, 3]}}, "is of another run than the model beside it"),
    ],
)
def test_an_index_that_cannot_be(run, changes, sentence):
    rewrite(run, changes)
    assert sentence in refusal(run)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"7"])
def test_a_damaged_index(run, content):
    (run / "pool" / "pool.json").write_bytes(content)
    assert "pool.json is damaged or of another run" in refusal(run)
    write_files(run, {"pool/pool.json": content})
    assert "pool.json is damaged (" in refusal(run)


def test_files_that_are_too_large(run, monkeypatch):
    monkeypatch.setattr(kept_pool, "MOST_BYTES", 100)
    assert "must have at most 100 bytes" in refusal(run)
    monkeypatch.undo()
    monkeypatch.setattr(kept_witness, "MOST_BYTES", 100)
    assert "bytes when unpacked, and 100 are the most" in refusal(run)


def test_a_witness_that_is_too_large_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_pool, "MOST_BYTES", 100)
    result = kept(tmp_path / "run", *rows(), witnesses="linear", steps=5)
    assert "bytes, and 100 are the most" in result.summary.notes[-1]
    assert index_of(tmp_path / "run")["witnesses"] == []


def test_without_skops_it_fails_before_the_training(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    x, y = rows()
    with pytest.raises(ImportError, match=r"pip install 'labelgrad\[pool\]'"):
        kept(tmp_path / "new", x, y)
    assert not (tmp_path / "new").exists()
    assert "needs skops, which is not installed" in refusal(run)


def test_it_needs_a_folder():
    with pytest.raises(ValueError, match="`keep_pool` needs a folder"):
        labelgrad.fit(*rows(), keep_pool=True)


# The command


def test_the_command_keeps_it_and_asks_it(tmp_path, monkeypatch):
    monkeypatch.setattr("labelgrad.cli.fit.usual_workers", lambda device: 1)
    np.savez(tmp_path / "data.npz", **dict(zip("xy", rows(), strict=True)))
    order = ("fit", "data.npz", "--out", "run", "--steps", 20, "--witnesses", WITNESSES)
    said = labelgrad_here(*order, "--keep-pool", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "The pool, for predict --pool: run/pool" in said.stdout
    said = labelgrad_here("predict", "run", "data.npz", "--pool", "--out", "p.csv", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    found = labelgrad.load(tmp_path / "run").predict(tmp_path / "data.npz", pool=True)
    found.save(tmp_path / "q.csv")
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "q.csv").read_text()
    (tmp_path / "run" / "pool" / "pool.json").unlink()
    said = labelgrad_here("predict", "run", "data.npz", "--pool", cwd=tmp_path)
    assert "run keeps no pool" in one_sentence(said)
