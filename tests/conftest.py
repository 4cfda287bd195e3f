"""Small networks, batches and objectives that many tests need."""

import os
import sys

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from labelgrad import Batch, CrossEntropy, SquaredError, Step, methods
from labelgrad.auto.base_models import registry

settings.register_profile("shared-machine", deadline=None, max_examples=50)
settings.load_profile("shared-machine")
os.environ["LABELGRAD_ENCODER"] = (
    "none"  # pretrained ones only where a test asks; subprocesses, too
)
torch.set_num_threads(1)  # tests run side by side, and the networks here are tiny

FEW = ("linear", "neighbours")  # base models; forests would take most of the tests' time


@pytest.fixture(autouse=True, scope="session")
def few_base_models():
    """Fits of this process stack few base models by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "DEFAULT", dict.fromkeys(registry.DEFAULT, FEW))
        patch.setattr(registry, "WHERE_INSTALLED", ())
        yield


@pytest.fixture(autouse=True, scope="module")
def methods_of_its_own():
    """No module knows the methods that another one has registered."""
    methods.every_method()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "_registered", dict(methods._registered))
        yield


@pytest.fixture(autouse=True, scope="module")
def workers_of_its_own():
    """No module finds processes that another one has started, and that may have waited too long."""
    yield
    if loky := sys.modules.get("joblib.externals.loky"):
        loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


WIDTH = 3  # classes or targets in every small problem


class ConvNet(nn.Module):
    """A convolution, batch norm and dropout: everything that makes an extra pass delicate."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        features = self.dropout(self.norm(self.conv(x)).tanh())
        return self.head(features.mean((2, 3)))


class Tied(nn.Module):
    """One module under two names, and one parameter in two modules."""

    def __init__(self):
        super().__init__()
        self.one, self.three = nn.Linear(16, 16), nn.Linear(16, 16)
        self.two, self.three.weight = self.one, self.one.weight
        self.norm = nn.BatchNorm1d(16)
        self.head = nn.Linear(16, WIDTH)

    def forward(self, x):
        for layer in (self.one, self.two, self.norm, self.three):
            x = layer(x.flatten(1)).tanh()
        return self.head(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, WIDTH))


NETWORKS = {"mlp": mlp, "conv": ConvNet, "dropout": lambda: ConvNet(dropout=0.5), "tied": Tied}
LOSSES = {"cross-entropy": CrossEntropy(), "squared-error": SquaredError()}


def make_step(
    network="mlp",
    loss="cross-entropy",
    *,
    seed=0,
    labeled=6,
    unlabeled=7,
    index=0,
    views=None,
    **options,
):
    """A step in float64 on random pictures of 4×4."""
    torch.manual_seed(seed)
    model = NETWORKS[network]().double()
    x, labels = torch.randn(labeled, 1, 4, 4).double(), torch.arange(labeled) % WIDTH
    if loss == "squared-error":
        labels = torch.randn(labeled, WIDTH).double()
    others = Batch(torch.randn(unlabeled, 1, 4, 4).double(), None, torch.arange(unlabeled))
    truths = Batch(x, labels, torch.arange(labeled))
    return Step(model, truths, others, loss=LOSSES[loss], index=index, views=views, **options)


@pytest.fixture(params=NETWORKS)
def network(request):
    return request.param


@pytest.fixture(params=LOSSES)
def loss(request):
    return request.param
