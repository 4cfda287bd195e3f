"""An exported model gives the outputs of the trained one, in a program that has no labelgrad."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import labelgrad
from labelgrad.fitting.export import export
from labelgrad.inputs.kinds import prepare
from tests.command import labelgrad as command

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


def prepared(kind, x, result):
    """Pictures as they are, columns as the network sees them."""
    if kind == "pictures":
        return x.astype(np.float32)
    return prepare(result.predictor.config.preprocessing, x).x.numpy()


@pytest.mark.parametrize("to", LOADED)
@pytest.mark.parametrize("kind", ["table", "values", "pictures"])
def test_the_exported_model_gives_the_same_outputs_elsewhere(tmp_path, kind, to):
    x, result = fitted(kind)
    path = tmp_path / "model"
    assert export(result.predictor, path, to) < 1e-5
    np.save(tmp_path / "x.npy", prepared(kind, x, result))
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


@pytest.mark.parametrize("kind", ["table", "values", "pictures"])
def test_onnx_runtime_gives_the_same_outputs_for_any_number_of_examples(tmp_path, kind):
    from onnxruntime import InferenceSession

    x, result = fitted(kind)
    path = tmp_path / "model.onnx"
    assert export(result.predictor, path, "onnx") < 1e-5
    session = InferenceSession(path)
    (given,), wanted = session.get_inputs(), result.predict(x).values.numpy()
    for count in (1, 7, 40):  # it was traced with 3
        (found,) = session.run(None, {given.name: prepared(kind, x, result)[:count]})
        np.testing.assert_allclose(found, wanted[:count], rtol=1e-5, atol=1e-6)


def test_the_command_writes_onnx_and_says_one_line(tmp_path):
    x, _ = fitted("table")
    y = np.where(np.arange(40) < 12, x[:, 0] > 0, -1)
    labelgrad.fit(x, y, steps=3, method="supervised", out=tmp_path / "run")
    said = command("export", "run", "--to", "onnx", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(str(Path("run", "model.onnx")))
    assert len(said.stdout.splitlines()) == 1


def test_an_unknown_format_is_named(tmp_path):
    _, result = fitted("table")
    with pytest.raises(ValueError, match="one of torch, torchscript, onnx, got 'keras'"):
        export(result.predictor, tmp_path / "model", "keras")
