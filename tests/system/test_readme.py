"""Every Python snippet of the README runs, one after another, on small data."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from tests.system.snippets import FEW, README, blocks, make_quick, run_python

SNIPPETS = [block.code for block in blocks(README) if block.language == "python"]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the snippets take for granted, and no more steps than a test can wait for."""
    monkeypatch.chdir(tmp_path)
    make_quick(monkeypatch)
    pixels, digits = load_digits(return_X_y=True)
    partly = np.where(np.arange(300) < 100, digits[:300], -1)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    return {
        "X": pixels[:300],
        "y": partly,
        "X_new": pixels[300:310],
        "model": nn.Linear(64, 10),
        "x": x[:100],
        "x_unlabeled": x[100:200],
        "x_val": x[200:300],
        "y_val": y[200:300],
        "true_y": y[:100],
    }


def test_the_readme_has_its_snippets():
    assert len(SNIPPETS) == 2


def test_the_estimator_snippet_runs(names):
    run_python(SNIPPETS[0], names)
    assert names["model"].transduction_.shape == (300,)


def test_the_library_snippet_runs(names):
    names["y"] = names["true_y"]
    run_python(SNIPPETS[1], names)
    assert names["run"].trainer.index == FEW
    assert names["run"].best is not None
    assert names["lga"].table.entropy().shape == (100,)
    assert Path("runs/mine/metrics.jsonl").exists()
