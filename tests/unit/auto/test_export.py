"""An exported model predicts without labelgrad what the saved one predicts."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from labelgrad import load
from labelgrad.auto.export import export
from tests.unit.auto.small_fit import arrays, small_fit


@pytest.fixture(scope="module", params=["classes", "values"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "run"
    small_fit(*arrays(values=request.param == "values"), out=folder, base_models="linear")
    return load(folder)


def expected(run, X):
    found = run.predict(X)
    return found.probabilities if run.task.classes else np.array(found.labels)


def test_torch_export_takes_columns_as_fit_preprocesses_them(run):
    X, _ = arrays()
    path = export(run, to="torch")
    assert path == run.folder / "model.pt2"
    columns = run.predictor.preprocessor.transform(X, run.config).examples.X
    program = torch.export.load(path).module()
    found = program(torch.from_numpy(np.array(columns))).detach().numpy()
    np.testing.assert_allclose(found, expected(run, X), rtol=1e-4, atol=1e-5)


def test_onnx_gives_the_same(run, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    X, _ = arrays()
    path = export(run, to="onnx", out=tmp_path / "model.onnx")
    columns = run.predictor.preprocessor.transform(X, run.config).examples.X
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: np.array(columns)})
    np.testing.assert_allclose(found, expected(run, X), rtol=1e-4, atol=1e-5)


def test_what_cannot_be_exported_is_said(run, tmp_path):
    with pytest.raises(ValueError, match="`to` must be one of torch, onnx, got 'torchscript'"):
        export(run, to="torchscript")
    with pytest.raises(ValueError, match="--with-encoder needs a model of a folder of images"):
        export(run, with_encoder=True)
    with pytest.raises(ValueError, match="has no run folder; name a file with `out`"):
        export(small_fit(*arrays(), base_models="linear"))
    export(run, out=tmp_path / "deep" / "model.pt2")
    assert (tmp_path / "deep" / "model.pt2").is_file()


def images(folder, count=24):
    rng = np.random.default_rng(0)
    for number in range(count):
        kind = "dark" if number % 2 else "light"
        place = folder / (kind if number < 16 else "unlabeled")
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 120, (12, 12, 3)) + (0 if kind == "dark" else 120)
        Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    return folder


class Means(nn.Module):
    """An encoder that anybody can build."""

    def forward(self, pixels):
        return nn.functional.adaptive_avg_pool2d(pixels / 255, 2).flatten(1)


@pytest.mark.parametrize("encoder", ["none", Means()])
def test_pixels_go_in_where_there_are_images(tmp_path, encoder):
    data = images(tmp_path / "images")
    options = {"encoder": encoder, "base_models": "linear", "size": 8, "network": "mlp-8"}
    run = small_fit(data, out=tmp_path / "run", **options)
    path = export(run, with_encoder=encoder != "none")
    program = torch.export.load(path).module()
    pixels = torch.randint(0, 256, (2, 3, 8, 8)).float()
    probabilities = program(pixels).detach().numpy()
    assert probabilities.shape == (2, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
