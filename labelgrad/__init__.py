"""Semi-supervised learning: label gradient alignment and its kin, and `labelgrad.auto`.

Names are loaded when first used, so that importing the package, or asking the command for help,
does not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from labelgrad.auto.compare import compare as compare
    from labelgrad.auto.config import FitConfig as FitConfig
    from labelgrad.auto.estimators import StackedClassifier as StackedClassifier
    from labelgrad.auto.estimators import StackedRegressor as StackedRegressor
    from labelgrad.auto.fit import fit as fit
    from labelgrad.auto.run import load as load
    from labelgrad.labels.rules import SGD as SGD
    from labelgrad.labels.rules import Evidence as Evidence
    from labelgrad.labels.rules import LazyAdam as LazyAdam
    from labelgrad.labels.table import LabelTable as LabelTable
    from labelgrad.losses import CrossEntropy as CrossEntropy
    from labelgrad.losses import SquaredError as SquaredError
    from labelgrad.models.mlp import MLP as MLP
    from labelgrad.models.wide_resnet import WideResNet as WideResNet
    from labelgrad.objective import Certainty as Certainty
    from labelgrad.objective import Objective as Objective
    from labelgrad.objectives.entmin import EntMin as EntMin
    from labelgrad.objectives.fixmatch import FixMatch as FixMatch
    from labelgrad.objectives.flexmatch import FlexMatch as FlexMatch
    from labelgrad.objectives.freematch import FreeMatch as FreeMatch
    from labelgrad.objectives.lga import LGA as LGA
    from labelgrad.objectives.mean_teacher import MeanTeacher as MeanTeacher
    from labelgrad.objectives.pi_model import PiModel as PiModel
    from labelgrad.objectives.pseudo_label import PseudoLabel as PseudoLabel
    from labelgrad.objectives.softmatch import SoftMatch as SoftMatch
    from labelgrad.objectives.supervised import Supervised as Supervised
    from labelgrad.objectives.vat import VAT as VAT
    from labelgrad.sklearn import LGAClassifier as LGAClassifier
    from labelgrad.sklearn import LGARegressor as LGARegressor
    from labelgrad.step import Batch as Batch
    from labelgrad.step import Step as Step
    from labelgrad.training.batches import DatasetBatches as DatasetBatches
    from labelgrad.training.batches import Examples as Examples
    from labelgrad.training.batches import TensorBatches as TensorBatches
    from labelgrad.training.evaluation import evaluate as evaluate
    from labelgrad.training.recipe import Recipe as Recipe
    from labelgrad.training.recipe import Run as Run
    from labelgrad.training.trainer import Trainer as Trainer

_MODULES = {
    "compare": "labelgrad.auto.compare",
    "FitConfig": "labelgrad.auto.config",
    "StackedClassifier": "labelgrad.auto.estimators",
    "StackedRegressor": "labelgrad.auto.estimators",
    "fit": "labelgrad.auto.fit",
    "load": "labelgrad.auto.run",
    "Certainty": "labelgrad.objective",
    "Evidence": "labelgrad.labels.rules",
    "LazyAdam": "labelgrad.labels.rules",
    "SGD": "labelgrad.labels.rules",
    "LabelTable": "labelgrad.labels.table",
    "CrossEntropy": "labelgrad.losses",
    "SquaredError": "labelgrad.losses",
    "MLP": "labelgrad.models.mlp",
    "WideResNet": "labelgrad.models.wide_resnet",
    "Objective": "labelgrad.objective",
    "EntMin": "labelgrad.objectives.entmin",
    "FixMatch": "labelgrad.objectives.fixmatch",
    "FlexMatch": "labelgrad.objectives.flexmatch",
    "FreeMatch": "labelgrad.objectives.freematch",
    "LGA": "labelgrad.objectives.lga",
    "MeanTeacher": "labelgrad.objectives.mean_teacher",
    "PiModel": "labelgrad.objectives.pi_model",
    "PseudoLabel": "labelgrad.objectives.pseudo_label",
    "SoftMatch": "labelgrad.objectives.softmatch",
    "Supervised": "labelgrad.objectives.supervised",
    "VAT": "labelgrad.objectives.vat",
    "LGAClassifier": "labelgrad.sklearn",
    "LGARegressor": "labelgrad.sklearn",
    "Batch": "labelgrad.step",
    "Step": "labelgrad.step",
    "DatasetBatches": "labelgrad.training.batches",
    "Examples": "labelgrad.training.batches",
    "TensorBatches": "labelgrad.training.batches",
    "evaluate": "labelgrad.training.evaluation",
    "Recipe": "labelgrad.training.recipe",
    "Run": "labelgrad.training.recipe",
    "Trainer": "labelgrad.training.trainer",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'labelgrad' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
