"""What is wrong with a call is said in one sentence, before anything is written or trained."""

import numpy as np
import pandas
import pytest
import torch
from torch import nn

import labelgrad
from labelgrad import (
    LGAClassifier,
    LGARegressor,
    PooledClassifier,
    Recipe,
    Supervised,
    TensorBatches,
    evaluate,
)
from labelgrad.cli.words import MEMORY, one_line
from labelgrad.estimators.targets import known_classes
from labelgrad.fitting.cross_validation import FOLDS
from labelgrad.fitting.jobs import train_shares
from labelgrad.fitting.plan import MOST_STEPS, Plan
from labelgrad.inputs.kinds import read
from tests.command import labelgrad_here

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = np.where(np.arange(30) < 12, np.arange(30) % 2, -1)


def refused(match, function, *arguments, **options):
    with pytest.raises(ValueError, match=match) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"time_budget": float("inf")},
            "`time_budget` must be a number of more than 0 minutes, and finite",
        ),
        (
            {"time_budget": float("nan")},
            "`time_budget` must be a number of more than 0 minutes, and finite",
        ),
        ({"time_budget": -1}, "`time_budget` must be a number of more than 0 minutes, and finite"),
        ({"time_budget": "1"}, "`time_budget` must be a number of more than 0 minutes, and finite"),
        ({"device": "meta"}, "`device` must be one PyTorch has here"),
        ({"device": "cuda:99"}, "`device` must be one PyTorch has here"),
        ({"device": ""}, "`device` must be one PyTorch has here"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"steps": 2.5}, "`steps` must be a whole number"),
        ({"steps": "3"}, "`steps` must be a whole number"),
        ({"steps": 10**30}, "`steps` must be at most 1,000,000,000"),
        ({"seed": -1}, "`seed` must be at least 0"),
        ({"seed": 2**64}, "`seed` must be at most"),
        ({"seed": 1.5}, "`seed` must be a whole number"),
        ({"workers": 0}, "`workers` must be at least 1"),
        ({"workers": 1.5}, "`workers` must be a whole number"),
        ({"method": 3}, "a method must be a name"),
        ({"model": 3}, "`model` must be a name such as mlp, or a network"),
        ({"model": nn.Linear}, "`model` must be a name such as mlp, or a network"),
        ({"witnesses": 3}, "`witnesses` must be names"),
        ({"witnesses": ["linear", 3]}, "`witnesses` must be names"),
        ({"estimators": 3}, "`estimators` must be a dictionary"),
        ({"shares": 3}, "`shares` must be a dictionary"),
    ],
)
def test_what_fit_is_asked_for(tmp_path, asked, said):
    options = {"steps": 3, "witnesses": "", "out": tmp_path / "run"} | asked
    refused(said, labelgrad.fit, X, Y, **options)
    assert not (tmp_path / "run").exists()


class Gives(nn.Module):
    """A network whose outputs are made into something else."""

    def __init__(self, change, inputs=4, trained=True):
        super().__init__()
        self.change, self.layer = change, nn.Linear(inputs, 2)
        self.requires_grad_(trained)

    def forward(self, x):
        return self.change(self.layer(x))


class Nothing(nn.Module):
    def forward(self, x):
        return x[:, :2]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Gives(lambda outputs: (outputs, None)), "one tensor of outputs, got a tuple"),
        (Gives(lambda outputs: {"logits": outputs}), "one tensor of outputs, got a dict"),
        (Gives(lambda outputs: outputs, trained=False), "none that require a gradient"),
        (Gives(lambda outputs: outputs, inputs=5), r"must take .* of the shape \(4,\)"),
        (Nothing(), "must have parameters to train"),
    ],
)
def test_a_network_of_ones_own(network, said):
    refused(said, labelgrad.fit, X, Y, model=network, steps=3, witnesses="")
    refused(said, LGAClassifier(module=network, steps=3).fit, X, Y)
    batches = TensorBatches(torch.as_tensor(X[:12]).float(), torch.as_tensor(Y[:12]), batch_size=5)
    refused(said, Recipe(lambda: network, Supervised, batches, steps=3).run)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "uint8", "bool", "list"])
def test_labels_are_whole_numbers_of_any_size(kind):
    x, y = X[:12].astype(np.float32), Y[:12]

    def losses(x, y):
        torch.manual_seed(0)
        batches = TensorBatches(x, y, batch_size=5)
        run = Recipe(lambda: nn.Linear(4, 2), Supervised, batches, steps=3).run()
        evaluate(run.trainer.evaluated, x, y)
        return [record["loss"] for record in run]

    expected = losses(torch.as_tensor(x), torch.as_tensor(y))
    given = y.tolist() if kind == "list" else torch.as_tensor(y).to(getattr(torch, kind))
    assert losses(x.tolist() if kind == "list" else torch.as_tensor(x), given) == expected
    if kind != "list":
        assert losses(x.astype(np.float64), y.astype(kind)) == expected  # NumPy arrays


def test_an_array_that_holds_no_numbers():
    refused("`x` must be a tensor or an array of numbers", TensorBatches, [["a"]], batch_size=1)
    refused("`y` must be a tensor or an array", TensorBatches, [[1.0]], [object()], batch_size=1)


TEXTS = np.array([None if label == -1 else "ab"[label] for label in Y], dtype=object)
KNOWN = (Y != -1).tolist()


@pytest.mark.parametrize(
    "y",
    [
        TEXTS,
        np.array([pandas.NA if text is None else text for text in TEXTS], dtype=object),
        np.array([float("nan") if text is None else text for text in TEXTS], dtype=object),
        pandas.Categorical(TEXTS),
        pandas.Series(TEXTS, dtype="category"),
        pandas.Series(TEXTS, dtype="string"),
        pandas.array(TEXTS, dtype="string"),
        pandas.array([None if label == -1 else label for label in Y], dtype="Int64"),
    ],
)
def test_labels_with_gaps_of_every_kind(y):
    labels, labeled = known_classes(y)
    assert labeled.tolist() == KNOWN
    assert len(set(labels.tolist())) == 2
    assert read(X, y).labeled.tolist() == KNOWN


@pytest.mark.parametrize("size", [1e300, -1e300, 1e-300])
def test_values_beyond_what_can_be_squared(size):
    y = np.where(np.arange(30) < 12, size * X[:, 0], np.nan)
    refused("numbers whose spread is between 1e-100 and 1e\\+100", read, X, y)
    refused("numbers whose spread is between 1e-100 and 1e\\+100", LGARegressor().fit, X, y)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"steps": 2.5}, "`steps` must be a whole number"),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number"),
        ({"learning_rate": "a"}, "`learning_rate` must be a finite number"),
        ({"random_state": 2**70}, "`random_state` must be at most"),
        ({"random_state": -1}, "`random_state` must be at least 0"),
        ({"device": "meta"}, "`device` must be one PyTorch has here"),
    ],
)
def test_settings_of_an_estimator(setting, said):
    refused(said, LGAClassifier(**({"steps": 3} | setting)).fit, X, Y)
    if set(setting) <= {"steps", "random_state", "device"}:
        refused(said, PooledClassifier("", **({"steps": 3} | setting)).fit, X, Y)


@pytest.mark.parametrize("shape", [(), (0,), (6,)])
@pytest.mark.parametrize("estimator", [labelgrad.LGAClassifier, labelgrad.PooledClassifier])
def test_data_of_an_estimator_that_are_no_table(estimator, shape):
    with pytest.raises(ValueError, match="Reshape your data") as refused:
        estimator().fit(np.zeros(shape), Y[:6])
    assert "\n" not in str(refused.value)


def test_ten_thousand_workers_are_no_more_than_there_are_trainings(monkeypatch, tmp_path):
    handed = []
    monkeypatch.setattr(
        "labelgrad.fitting.jobs.finish_all",
        lambda make, jobs, **options: handed.extend(job["share"] for job in jobs.values()),
    )
    plan = Plan("lga", "mlp", steps=3)
    train_shares(read(X, Y), plan, None, tmp_path, "cpu", 10_000, None)
    most = FOLDS + len(plan.methods)
    assert handed == [(place, most) for place in range(most)]


def test_a_time_budget_of_ages_ends_at_the_most_steps(monkeypatch):
    monkeypatch.setattr("labelgrad.fitting.train._seconds_a_step", lambda trainers, longest: 1e-3)
    from labelgrad.fitting.train import affordable_steps

    plan = Plan("lga", "mlp", steps=3)
    assert affordable_steps(read(X, Y), plan, None, "cpu", 1e9) == MOST_STEPS


def test_an_npz_that_points_before_its_beginning(tmp_path):
    """Reading it seeks to a negative place, which the system refuses by a number."""
    file = tmp_path / "data.npz"
    np.savez(file, x=X, y=Y)
    whole = file.read_bytes()
    end = whole.rindex(b"PK\5\6")
    for offset in (0x7FFFFFFF, 0xFFFFFFFE, len(whole) * 2):
        broken = whole[: end + 16] + offset.to_bytes(4, "little") + whole[end + 20 :]
        file.write_bytes(broken)
        refused("data.npz cannot be read as an .npz file", read, file)


def test_running_out_of_memory_is_one_sentence():
    assert one_line(MemoryError("Unable to allocate 8 GiB")) == MEMORY
    torch_says = "[enforce fail at alloc_cpu.cpp:117] err == 0.\nDefaultCPUAllocator: can't "
    assert one_line(RuntimeError(torch_says + "allocate memory: you tried 99 bytes.")) == MEMORY


def test_what_nobody_foresaw_is_one_line_with_a_code_of_its_own(monkeypatch):
    def stumble():
        raise KeyError("deep\ninside")

    monkeypatch.setattr("labelgrad.cli.methods.print_methods", stumble)
    said = labelgrad_here("methods")
    assert said.returncode == 70
    assert said.stderr.count("\n") == 1
    assert "an error that was not foreseen (KeyError" in said.stderr


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    def refuse(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(OSError, match=r"run cannot be written to \(Permission denied\)"):
        labelgrad.fit(X, Y, steps=3, witnesses="", out=tmp_path / "run")
    assert one_line(PermissionError(13, "Permission denied", "run/a")) == (
        "run/a cannot be read or written: Permission denied."
    )
