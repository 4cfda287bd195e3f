"""Semi-supervised learning by label gradient alignment.

Names are loaded when first used, so that importing the package, or asking the command for help,
does not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_HOME = {
    "Batch": "labelgrad.step",
    "Certainty": "labelgrad.certainty",
    "compare": "labelgrad.fitting.compare",
    "CrossEntropy": "labelgrad.losses",
    "DatasetBatches": "labelgrad.training.batches",
    "EntMin": "labelgrad.objectives.entmin",
    "evaluate": "labelgrad.training.evaluation",
    "Evidence": "labelgrad.labels.evidence",
    "Examples": "labelgrad.training.batches",
    "fit": "labelgrad.fitting.fit",
    "FixMatch": "labelgrad.objectives.fixmatch",
    "FlexMatch": "labelgrad.objectives.flexmatch",
    "FreeMatch": "labelgrad.objectives.freematch",
    "LabelTable": "labelgrad.labels.table",
    "LazyAdam": "labelgrad.labels.lazy_adam",
    "LGA": "labelgrad.objectives.lga",
    "LGAClassifier": "labelgrad.estimators",
    "LGARegressor": "labelgrad.estimators",
    "load": "labelgrad.fitting.result",
    "MeanTeacher": "labelgrad.objectives.mean_teacher",
    "MLP": "labelgrad.models.mlp",
    "Objective": "labelgrad.objective",
    "PiModel": "labelgrad.objectives.pi_model",
    "PooledClassifier": "labelgrad.estimators",
    "PooledRegressor": "labelgrad.estimators",
    "PseudoLabel": "labelgrad.objectives.pseudo_label",
    "Recipe": "labelgrad.training.recipe",
    "Run": "labelgrad.training.recipe",
    "SGD": "labelgrad.labels.sgd",
    "SoftMatch": "labelgrad.objectives.softmatch",
    "SquaredError": "labelgrad.losses",
    "Step": "labelgrad.step",
    "Supervised": "labelgrad.objectives.supervised",
    "TensorBatches": "labelgrad.training.batches",
    "Trainer": "labelgrad.training.trainer",
    "VAT": "labelgrad.objectives.vat",
    "WideResNet": "labelgrad.models.wide_resnet",
}

__all__ = [
    "LGA",
    "MLP",
    "SGD",
    "VAT",
    "Batch",
    "Certainty",
    "CrossEntropy",
    "DatasetBatches",
    "EntMin",
    "Evidence",
    "Examples",
    "FixMatch",
    "FlexMatch",
    "FreeMatch",
    "LGAClassifier",
    "LGARegressor",
    "LabelTable",
    "LazyAdam",
    "MeanTeacher",
    "Objective",
    "PiModel",
    "PooledClassifier",
    "PooledRegressor",
    "PseudoLabel",
    "Recipe",
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
    from labelgrad.certainty import Certainty
    from labelgrad.estimators import (
        LGAClassifier,
        LGARegressor,
        PooledClassifier,
        PooledRegressor,
    )
    from labelgrad.fitting.compare import compare
    from labelgrad.fitting.fit import fit
    from labelgrad.fitting.result import load
    from labelgrad.labels.evidence import Evidence
    from labelgrad.labels.lazy_adam import LazyAdam
    from labelgrad.labels.sgd import SGD
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
    from labelgrad.training.batches import DatasetBatches, Examples, TensorBatches
    from labelgrad.training.evaluation import evaluate
    from labelgrad.training.recipe import Recipe, Run
    from labelgrad.training.trainer import Trainer


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'labelgrad' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
