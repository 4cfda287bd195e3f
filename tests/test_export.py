"""An exported model gives the outputs of the trained one, in a program that has no labelgrad."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import labelgrad
from labelgrad.fitting.export import export

LOADED = {
    "torch": "torch.export.load(path).module()",
    "torchscript": "torch.jit.load(path)",
}


def fitted(kind):
    rng = np.random.default_rng(0)
    shape = {"table": (40, 3), "values": (40, 3), "pictures": (40, 1, 8, 8)}[kind]
    x = rng.integers(0, 256, size=shape) if kind == "pictures" else rng.normal(size=shape)
    truth = x.reshape(40, -1)[:, 0]
    y = truth if kind == "values" else truth > np.median(truth)
    hidden = np.nan if kind == "values" else -1
    return x, labelgrad.fit(
        x, np.where(np.arange(40) < 12, y, hidden), steps=3, method="supervised"
    )


@pytest.mark.parametrize("to", LOADED)
@pytest.mark.parametrize("kind", ["table", "values", "pictures"])
def test_the_exported_model_gives_the_same_outputs_elsewhere(tmp_path, kind, to):
    x, result = fitted(kind)
    path = tmp_path / "model"
    assert export(result.predictor, path, to) < 1e-5
    prepared = torch.from_numpy(x).float() if kind == "pictures" else None
    if prepared is None:  # columns as the network sees them
        from labelgrad.sources.arrays import prepare_array

        prepared = prepare_array(result.predictor.config.preparation, x).x
    np.save(tmp_path / "x.npy", prepared.numpy())
    code = f"""
import sys, numpy, torch
path, x = sys.argv[1], torch.from_numpy(numpy.load(sys.argv[2]))
numpy.save(sys.argv[3], {LOADED[to]}(x).detach().numpy())
assert "labelgrad" not in sys.modules
"""
    command = [sys.executable, "-W", "ignore", "-c", code, path, tmp_path / "x.npy"]
    subprocess.run([*map(str, command), str(tmp_path / "y.npy")], check=True, timeout=300)
    wanted = result.predict(x).values.numpy()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-5)


def test_an_unknown_format_is_named(tmp_path):
    _, result = fitted("table")
    with pytest.raises(ValueError, match="one of torch, torchscript, onnx, got 'keras'"):
        export(result.predictor, tmp_path / "model", "keras")
