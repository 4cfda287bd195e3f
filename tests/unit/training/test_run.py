"""A run keeps the best, writes it all down, stops on nonsense, and goes on where it was."""

import json
import shutil

import pytest
import torch
from torch import nn

from labelgrad import (
    LGA,
    MLP,
    DatasetBatches,
    Objective,
    Run,
    SquaredError,
    Supervised,
    TensorBatches,
    Trainer,
    evaluate,
)
from labelgrad.schedules import Drop

ROWS = 40


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(20 + ROWS, 5, generator=generator)
    y = (x[:, 0] > 0).long()
    return x, y


def make_run(folder=None, *, steps=60, objective=None, seed=0, **settings):
    x, y = data()
    torch.manual_seed(seed)
    model = nn.Sequential(MLP(5, (16,), 2), nn.Dropout(0.1))
    objective = objective or 0.5 * Supervised() + LGA(ROWS, 2)
    labeled = TensorBatches(x[:20], y[:20], batch_size=10, seed=seed)
    unlabeled = TensorBatches(x[20:], batch_size=15, seed=seed)
    rate = settings.pop("learning_rate", Drop(1e-2, at=40))
    trainer = Trainer(model, objective, labeled, unlabeled, learning_rate=rate, seed=seed)
    named = {"validation": (x[:20], y[:20]), "test": (x[20:], y[20:])}
    settings = {"examples": named, "evaluate_every": 10, "checkpoint_every": 7} | settings
    return Run(trainer, steps=steps, folder=folder, truth=y[20:], **settings)


def stopped_after(run, steps):
    for record in run:
        if record["step"] == steps:
            return
    raise AssertionError("the run ended before it was to be stopped")


def without_time(run):
    return [{k: v for k, v in line.items() if k != "seconds"} for line in run.history]


def assert_same(one, two):
    assert without_time(one) == without_time(two)
    for name, value in one.trainer.state.tensors.items():
        assert torch.equal(value, two.trainer.state.tensors[name]), name
    assert one.best.info == two.best.info
    for name, value in one.best.tensors.items():
        assert torch.equal(value, two.best.tensors[name]), name


@pytest.mark.parametrize("stop", [1, 6, 7, 8, 30, 55, 60])
def test_a_stopped_run_ends_as_the_undisturbed_one(tmp_path, stop):
    undisturbed = make_run(tmp_path / "one").finish()
    stopped_after(make_run(tmp_path / "two"), stop)
    resumed = make_run(tmp_path / "two").finish()
    assert_same(undisturbed, resumed)
    lines = [(tmp_path / n / "metrics.jsonl").read_text().splitlines() for n in ("one", "two")]
    assert len(lines[0]) == len(lines[1]) == 7


def test_a_finished_run_is_read_and_not_trained_again(tmp_path):
    done = make_run(tmp_path).finish()
    again = make_run(tmp_path)
    assert list(again) == []
    assert_same(done, again)


def test_a_run_can_be_made_longer(tmp_path):
    make_run(tmp_path, steps=20).finish()
    longer = make_run(tmp_path, steps=60).finish()
    assert_same(make_run().finish(), longer)


def test_half_a_line_in_the_log_is_written_again(tmp_path):
    stopped_after(make_run(tmp_path), 30)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "lo')
    resumed = make_run(tmp_path).finish()
    steps = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()[1:]]
    assert [line["step"] for line in steps] == [10, 20, 30, 40, 50, 60]
    assert steps == resumed.history


def test_a_damaged_checkpoint_costs_only_the_steps_since_the_one_before(tmp_path):
    undisturbed = make_run(tmp_path / "one").finish()
    stopped_after(make_run(tmp_path / "two"), 30)
    sorted((tmp_path / "two" / "checkpoints").iterdir())[-1].write_bytes(b"")
    with pytest.warns(UserWarning, match="is damaged"):
        resumed = make_run(tmp_path / "two")
    assert resumed.trainer.index == 21
    assert_same(undisturbed, resumed.finish())


def test_every_evaluation_says_all_that_is_asked_of_it():
    last = make_run().finish().history[-1]
    assert set(last) == {
        "step", "seconds", "loss", "supervised/loss", "lga/loss", "lga/gap", "lga/cosine",
        "imputed_accuracy",
        "validation_error", "validation_loss", "validation_ece",
        "test_error", "test_loss", "test_ece",
    }  # fmt: skip
    assert -1 <= last["lga/cosine"] <= 1


def test_the_log_begins_with_what_the_run_is(tmp_path):
    make_run(tmp_path, steps=10).finish()
    head = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])
    assert head["settings"]["objective"].startswith("0.5 * Supervised() + LGA(rows=40, width=2")
    assert set(head) == {"settings", "labelgrad", "torch"}


def test_the_best_is_the_best_on_the_validation_examples():
    run = make_run().finish()
    ranks = [(line["validation_error"], line["validation_loss"]) for line in run.history]
    best = run.history[ranks.index(min(ranks))]
    assert run.best.info["step"] == best["step"]
    run.trainer.model.load_state_dict(run.best.tensors)
    assert (
        evaluate(run.trainer.model, *run.examples["validation"])["loss"] == best["validation_loss"]
    )


def test_the_test_examples_choose_nothing():
    run = make_run()
    run.examples = {"test": run.examples["test"]}
    assert run.finish().best is None


class Exploding(Objective):
    def forward(self, step):
        scale = float("nan") if step.index == 23 else 1.0
        return scale * step.unlabeled_outputs.mean()


class BadGradient(Objective):
    def forward(self, step):
        outputs = step.unlabeled_outputs.mean()
        return (outputs - outputs).sqrt() if step.index == 23 else outputs


def test_nan_stops_the_run_with_step_term_and_checkpoint(tmp_path):
    run = make_run(tmp_path, objective=Supervised() + Exploding())
    with pytest.raises(RuntimeError, match="turned nan") as caught:
        run.finish()
    message = str(caught.value)
    assert "turned nan at step 23 in the term 'exploding'" in message
    assert message.endswith("step-000000000021.safetensors.")
    kept = make_run(tmp_path, objective=Supervised() + Exploding())
    assert kept.trainer.index == 21
    assert all(torch.isfinite(p).all() for p in kept.trainer.model.parameters())


def test_a_gradient_that_is_not_finite_never_reaches_the_model():
    run = make_run(objective=Supervised() + BadGradient())
    with pytest.raises(RuntimeError, match="gradient stopped being finite at step 23"):
        run.finish()
    assert all(torch.isfinite(p).all() for p in run.trainer.model.parameters())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"objective": Supervised()}, "its objective is 0.5"),
        ({"seed": 1}, "its seed is 0"),
        ({"learning_rate": 0.1}, "its learning_rate is Drop"),
    ],
)
def test_a_checkpoint_of_another_configuration_is_refused(tmp_path, change, named):
    make_run(tmp_path, steps=10).finish()
    with pytest.raises(RuntimeError, match=f"another configuration: {named}"):
        make_run(tmp_path, **change)


def test_a_checkpoint_without_its_log_is_refused(tmp_path):
    make_run(tmp_path, steps=10).finish()
    (tmp_path / "metrics.jsonl").unlink()
    with pytest.raises(RuntimeError, match=r"metrics\.jsonl must hold the first"):
        make_run(tmp_path)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_large_or_mapped_table_goes_back_with_its_checkpoint(tmp_path, monkeypatch, mapped):
    """Its rows are in files beside the checkpoint."""
    monkeypatch.setattr("labelgrad.training.checkpoint.ROWS_SIZE", 500)

    def objective(name):
        return 0.5 * Supervised() + LGA(ROWS, 2, folder=tmp_path / name if mapped else None)

    undisturbed = make_run(tmp_path / "one", objective=objective("a")).finish()
    stopped_after(make_run(tmp_path / "two", objective=objective("b")), 30)
    assert len(list((tmp_path / "two" / "checkpoints").glob("rows-*28-*"))) > 2
    assert_same(undisturbed, make_run(tmp_path / "two", objective=objective("c")).finish())
    assert_same(undisturbed, make_run().finish())


def test_the_folder_may_be_moved(tmp_path):
    stopped_after(make_run(tmp_path / "here"), 30)
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert_same(make_run().finish(), make_run(tmp_path / "there").finish())


def test_regression_runs_alike():
    x, _ = data()
    y = x[:, 0] * 2
    labeled = TensorBatches(x[:20], y[:20], batch_size=10)
    objective = 0.5 * Supervised() + LGA(ROWS, 1, loss=SquaredError())
    unlabeled = TensorBatches(x[20:], batch_size=15)
    trainer = Trainer(
        MLP(5, (16,), 1), objective, labeled, unlabeled, learning_rate=1e-2, loss=SquaredError()
    )
    run = Run(trainer, steps=300, examples={"test": (x[20:], y[20:])}, truth=y[20:]).finish()
    assert run.history[-1]["test_error"] < 0.5 * y[20:].std()
    assert run.history[-1]["imputed_rmse"] < 0.5 * y[20:].std()
    assert "test_ece" not in run.history[-1]


@pytest.mark.parametrize("name", ["steps", "evaluate_every", "checkpoint_every"])
def test_counts_must_be_positive(name):
    with pytest.raises(ValueError, match="must be at least 1"):
        make_run(**{name: 0})


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 1, 2, 1]), "classes from 0 to 1, .* got values from 0 to 2"),
        (torch.tensor([0, -1, 1, 1]), "got values from -1 to 1"),
        (torch.tensor([0.0, 1.0, 1.0, 1.0]), "must be classes, got torch.float32"),
        (torch.tensor([1, 1, 1, 1]), r"needs a labeled example, and \[0\] have none"),
        (torch.zeros(4, 3), "must have 2 columns, one for each output, got 3"),
        (None, "`labeled` batches have no labels"),
    ],
)
def test_labels_outside_the_classes_are_named_before_training(labels, message):
    with pytest.raises(ValueError, match=message):
        Trainer(
            MLP(5, (4,), 2), Supervised(), TensorBatches(torch.zeros(4, 5), labels, batch_size=2)
        )


def test_values_that_are_not_finite_are_named_before_training():
    labeled = TensorBatches(torch.zeros(2, 5), torch.tensor([1.0, torch.nan]), batch_size=2)
    with pytest.raises(ValueError, match="must be finite for squared error"):
        Trainer(MLP(5, (4,), 1), Supervised(), labeled, loss=SquaredError())


def test_a_negative_rate_is_named():
    with pytest.raises(ValueError, match=r"`learning_rate` must be .* at least 0, got -1"):
        make_run(learning_rate=-1)


def test_a_model_for_other_examples_is_one_sentence():
    data = TensorBatches(torch.zeros(4, 3), torch.arange(4) % 2, batch_size=2)
    with pytest.raises(ValueError, match=r"of the shape \(3,\), and Linear does not.*first layers"):
        Trainer(nn.Linear(5, 2), Supervised(), data)


class FromDictionary(nn.Linear):
    def forward(self, batch):
        return super().forward(batch["x"])


def test_dictionaries_are_refused_where_the_training_is_built():
    x, y = torch.zeros(4, 3), torch.arange(4) % 2
    data = TensorBatches(x, y, batch_size=2)
    with pytest.raises(ValueError, match=r"FromDictionary does not .* makes the dictionary"):
        Trainer(FromDictionary(3, 2), Supervised(), data)
    with pytest.raises(ValueError, match="`x` must be one tensor of examples, got a dictionary of"):
        TensorBatches({"input_ids": x, "attention_mask": x}, y, batch_size=2)

    class Items(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, row):
            return {"input_ids": x[row]}, int(y[row])

    with pytest.raises(ValueError, match="an item of the data must be one tensor of examples"):
        Trainer(nn.Linear(3, 2), Supervised(), DatasetBatches(Items(), y, batch_size=2))
