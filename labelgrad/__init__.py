"""Semi-supervised learning: label gradient alignment and its kin, and `labelgrad.auto`.

Names are loaded when first used, so that importing the package, or asking the command for help,
does not wait for PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from labelgrad.auto.cli.console import Terminal as Terminal
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
    from labelgrad.linear import LGAKernelClassifier as LGAKernelClassifier
    from labelgrad.linear import LGALinearClassifier as LGALinearClassifier
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

_NAMES = {  # by module
    "auto.cli.console": ["Terminal"],
    "auto.compare": ["compare"],
    "auto.config": ["FitConfig"],
    "auto.estimators": ["StackedClassifier", "StackedRegressor"],
    "auto.fit": ["fit"],
    "auto.run": ["load"],
    "objective": ["Certainty", "Objective"],
    "labels.rules": ["Evidence", "LazyAdam", "SGD"],
    "labels.table": ["LabelTable"],
    "linear": ["LGAKernelClassifier", "LGALinearClassifier"],
    "losses": ["CrossEntropy", "SquaredError"],
    "models.mlp": ["MLP"],
    "models.wide_resnet": ["WideResNet"],
    "objectives.entmin": ["EntMin"],
    "objectives.fixmatch": ["FixMatch"],
    "objectives.flexmatch": ["FlexMatch"],
    "objectives.freematch": ["FreeMatch"],
    "objectives.lga": ["LGA"],
    "objectives.mean_teacher": ["MeanTeacher"],
    "objectives.pi_model": ["PiModel"],
    "objectives.pseudo_label": ["PseudoLabel"],
    "objectives.softmatch": ["SoftMatch"],
    "objectives.supervised": ["Supervised"],
    "objectives.vat": ["VAT"],
    "sklearn": ["LGAClassifier", "LGARegressor"],
    "step": ["Batch", "Step"],
    "training.batches": ["DatasetBatches", "Examples", "TensorBatches"],
    "training.evaluation": ["evaluate"],
    "training.recipe": ["Recipe", "Run"],
    "training.trainer": ["Trainer"],
}
_MODULES = {name: f"labelgrad.{module}" for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'labelgrad' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
