"""Semi-supervised learning by label gradient alignment.

Names are loaded when first used, so that importing the package, or asking the command for help,
does not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Batch": "labelgrad.step",
    "CrossEntropy": "labelgrad.losses",
    "LGA": "labelgrad.objectives.lga",
    "LGAClassifier": "labelgrad.estimators",
    "LGARegressor": "labelgrad.estimators",
    "LabelTable": "labelgrad.labels.table",
    "MLP": "labelgrad.models.mlp",
    "Objective": "labelgrad.objective",
    "Run": "labelgrad.training.run",
    "SquaredError": "labelgrad.losses",
    "Step": "labelgrad.step",
    "TensorBatches": "labelgrad.training.batches",
    "Supervised": "labelgrad.objectives.supervised",
    "Trainer": "labelgrad.training.trainer",
    "WideResNet": "labelgrad.models.wide_resnet",
    "VAT": "labelgrad.objectives.vat",
    "EntMin": "labelgrad.objectives.entmin",
    "FixMatch": "labelgrad.objectives.fixmatch",
    "FlexMatch": "labelgrad.objectives.flexmatch",
    "FreeMatch": "labelgrad.objectives.freematch",
    "MeanTeacher": "labelgrad.objectives.mean_teacher",
    "PiModel": "labelgrad.objectives.pi_model",
    "PseudoLabel": "labelgrad.objectives.pseudo_label",
    "SoftMatch": "labelgrad.objectives.softmatch",
    "compare": "labelgrad.fitting.compare",
    "evaluate": "labelgrad.training.evaluation",
    "fit": "labelgrad.fitting.fit",
    "load": "labelgrad.fitting.result",
}

__all__ = [
    "LGA",
    "MLP",
    "VAT",
    "Batch",
    "CrossEntropy",
    "EntMin",
    "FixMatch",
    "FlexMatch",
    "FreeMatch",
    "LGAClassifier",
    "LGARegressor",
    "LabelTable",
    "MeanTeacher",
    "Objective",
    "PiModel",
    "PseudoLabel",
    "Run",
    "SoftMatch",
    "SquaredError",
    "Step",
    "Supervised",
    "TensorBatches",
    "Trainer",
    "WideResNet",
    "__version__",
    "compare",
    "evaluate",
    "fit",
    "load",
]

if TYPE_CHECKING:
    from labelgrad.estimators import LGAClassifier, LGARegressor
    from labelgrad.fitting.compare import compare
    from labelgrad.fitting.fit import fit
    from labelgrad.fitting.result import load
    from labelgrad.labels.table import LabelTable
    from labelgrad.losses import CrossEntropy, SquaredError
    from labelgrad.models.mlp import MLP
    from labelgrad.models.wide_resnet import WideResNet
    from labelgrad.objective import Objective
    from labelgrad.objectives.entmin import EntMin
    from labelgrad.objectives.fixmatch import FixMatch
    from labelgrad.objectives.flexmatch import FlexMatch
    from labelgrad.objectives.freematch import FreeMatch
    from labelgrad.objectives.lga import LGA
    from labelgrad.objectives.mean_teacher import MeanTeacher
    from labelgrad.objectives.pi_model import PiModel
    from labelgrad.objectives.pseudo_label import PseudoLabel
    from labelgrad.objectives.softmatch import SoftMatch
    from labelgrad.objectives.supervised import Supervised
    from labelgrad.objectives.vat import VAT
    from labelgrad.step import Batch, Step
    from labelgrad.training.batches import TensorBatches
    from labelgrad.training.evaluation import evaluate
    from labelgrad.training.run import Run
    from labelgrad.training.trainer import Trainer


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'labelgrad' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
