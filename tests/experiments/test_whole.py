"""Scale `whole` on a few synthetic images: the split, a killed run, a line of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from experiments.datasets.image_sets import ImageSet
from experiments.whole import __main__ as command
from experiments.whole import slopes
from experiments.whole import trial as trials
from experiments.whole.methods import objective
from experiments.whole.network import whitening_filters
from experiments.whole.rules import ForgettingEvidence
from experiments.whole.settings import VALIDATION, Settings
from experiments.whole.trial import Task, Trial, as_inputs
from labelgrad import CrossEntropy

SMALL = Settings(
    method="lga-forgetting",
    labels=30,
    width=2,
    visits=2,
    labeled_batch=10,
    unlabeled_batch=20,
    evaluations=4,
)


@pytest.fixture(autouse=True)
def images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three classes of noise around a mean image each, 190 for training and 30 for the test."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randint(60, 190, (3, 3, 32, 32), generator=generator)
    parts = []
    for count in (190, 30):
        classes = torch.arange(count) % 3
        noise = torch.randint(-60, 60, (count, 3, 32, 32), generator=generator)
        parts.append(((means[classes] + noise).to(torch.uint8), classes))
    found = ImageSet("cifar10", ("a", "b", "c"), *parts)
    monkeypatch.setattr(trials, "load", lambda name, folder=None, rebuilt=False: found)
    monkeypatch.setitem(VALIDATION, "cifar10", 40)


def test_labeled_images_are_among_the_unlabeled_ones() -> None:
    task = Task.of(SMALL)
    assert [len(part) for part in (task.labeled, task.unlabeled, task.validation)] == [30, 150, 40]
    assert torch.isin(task.labeled, task.unlabeled).all()
    assert not torch.isin(task.validation, task.unlabeled).any()


@pytest.mark.parametrize("method", ["supervised", "lga", "lga-strong", "lga-forgetting+vat"])
def test_a_killed_trial_ends_where_an_undisturbed_one_does(method: str, tmp_path: Path) -> None:
    settings = SMALL.changed([f"method={method}", f"half_strong={method == 'supervised'}"])
    whole = Trial(settings, tmp_path / "whole")
    list(whole)
    killed = iter(Trial(settings, tmp_path / "killed").run)
    for _ in range(7):
        next(killed)
    resumed = Trial(settings, tmp_path / "killed")
    assert 0 < resumed.run.trainer.index < 8
    list(resumed)
    ends = [run.trainer.evaluated.state_dict() for run in (whole.run, resumed.run)]
    assert all(torch.equal(a, b) for a, b in zip(*(end.values() for end in ends), strict=True))
    curves = [trial.line["curve"] for trial in (whole, resumed)]
    assert curves[0] == curves[1]


def test_a_finished_trial_is_one_line_of_results(tmp_path: Path) -> None:
    words = ["train", "lga", "--labels", "30", "--test", "--out", str(tmp_path)]
    for name in ("width", "visits", "labeled_batch", "unlabeled_batch", "evaluations"):
        words += ["--set", f"{name}={getattr(SMALL, name)}"]
    for _ in range(2):  # the second call finds it finished
        result = CliRunner().invoke(command.commands, words)
        assert result.exit_code == 0, result.output
    (line,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    known = {"scale": "whole", "method": "lga", "labels": 30, "seed": 0, "steps": 15}
    assert known.items() <= line.items()
    for prefix in ("", "best_loss_", "last_"):
        assert 0 <= line[f"{prefix}test_error"] <= 1
        assert line[f"{prefix}test_loss"] > 0
    assert line["best_loss_validation_loss"] == min(line["curve"]["validation_loss"])
    assert list(tmp_path.glob("*/wrong-labels.png"))


def test_the_stem_whitens_patches() -> None:
    images = as_inputs(Task.of(SMALL).images)
    answers = torch.nn.functional.conv2d(images, whitening_filters(images, floor=0.0))
    rows = answers.permute(1, 0, 2, 3).flatten(1)
    torch.testing.assert_close(rows @ rows.T / rows.shape[1], torch.eye(12), atol=1e-3, rtol=0)


def test_forgetting_evidence_turns_a_decided_label() -> None:
    rule, row, loss = ForgettingEvidence(), torch.zeros(1, 3, 3), CrossEntropy()
    for wanted, visits in ((0, 10), (2, 6)):
        for _ in range(visits):
            slope = -torch.eye(3)[wanted : wanted + 1]
            labels = loss.impute(row[:, 0])
            rule.step(row, loss.pull_back(slope, labels), 1, loss)
        assert int(row[0, 0].argmax()) == wanted


def test_an_unknown_method_or_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="a method is a sum of"):
        objective(Settings(method="lgb"), 100, 10)
    with pytest.raises(ValueError, match="NAME=VALUE"):
        Settings().changed(["widht=3"])


def test_slopes_are_measured_for_each_kind_of_label_and_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slopes, "BATCH", 20)
    found = slopes.slope_accuracy(SMALL)
    kinds = {(line["labels"], line["gradient"], line["power"]) for line in found}
    assert len(found) == len(kinds) == 2 * 3 * 3
    assert all(0 <= line["right"] <= 1 for line in found)


def test_a_visit_costs_more_than_its_convolutions() -> None:
    words = ["cost", "lga", "--rounds", "1", "--set", "width=4", "--set", "autocast=False"]
    found = json.loads(CliRunner().invoke(command.commands, words).output)
    assert 0 < found["convolutions"] < found["step"]
    assert found["ratio"] == pytest.approx(found["step"] / found["convolutions"], rel=0.05)
