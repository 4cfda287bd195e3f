"""Base models by name, and which of them are stacked by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from labelgrad.auto.base_models import estimators as e
from labelgrad.auto.base_models import networks as n
from labelgrad.auto.base_models.base import BaseModel, OnView
from labelgrad.auto.base_models.estimators import EstimatorModel, user_estimator
from labelgrad.auto.base_models.graph import GraphModel
from labelgrad.auto.base_models.lga_linear import LGALinear
from labelgrad.auto.base_models.networks import Network
from labelgrad.auto.base_models.weak_labels import read_weak_labels
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data.dataset import Dataset
from labelgrad.methods import SUPERVISED, every_method
from labelgrad.nearest import did_you_mean

ARD, MAX_FOR_ARD = "ard gaussian process", 2_000_000  # labels², times columns: five seconds
SEEDED: dict[str, Any] = {"seeded": "random_state"}
TREES = {"n_estimators": 200} | SEEDED
# scikit-learn's default of 20 examples in a leaf would be all labels there are.
HISTOGRAM = {"min_samples_leaf": 3, "early_stopping": False} | SEEDED
CATBOOST: dict[str, Any] = {"iterations": 200, "seeded": "random_seed", "thread_count": 1}
CATBOOST |= {"verbose": 0, "allow_writing_files": False}


def _family(name: str, path: str, read: str = "probabilities", **parameters: Any) -> EstimatorModel:
    """The classifier and the regressor of a family of estimators."""
    classifier = partial(e.build, path + "Classifier", **parameters)
    regressor = partial(e.build, path + "Regressor", **parameters)
    return EstimatorModel(name, classifier, regressor, read=read)


LINEAR, METRIC = "sklearn.linear_model", "labelgrad.linear.LGALinearClassifier"
KERNEL = "labelgrad.linear.LGAKernelClassifier"
SPREADING = partial(e.build, "sklearn.semi_supervised.LabelSpreading", kernel="knn", n_neighbors=10)
ESTIMATORS = (
    EstimatorModel(
        "linear",
        partial(e.build, METRIC, powers=(0,)),
        partial(e.build, f"{LINEAR}.BayesianRidge"),
    ),
    EstimatorModel("lga-metric", partial(e.build, METRIC), uses_unlabeled=True),
    EstimatorModel(
        "lga-kernel", partial(e.build, KERNEL, seeded="random_state"), uses_unlabeled=True
    ),
    EstimatorModel("self-training", e.self_training, uses_unlabeled=True),
    EstimatorModel("label spreading", SPREADING, read="spread labels", uses_unlabeled=True),
    _family("random forest", "sklearn.ensemble.RandomForest", "trees", **TREES),
    _family("extra trees", "sklearn.ensemble.ExtraTrees", "trees", **TREES),
    EstimatorModel("gaussian process", e.gaussian_classifier, e.gaussian_regressor),
    EstimatorModel(ARD, None, partial(e.gaussian_regressor, ard=True)),
    _family("catboost", "catboost.CatBoost", **CATBOOST),
    _family("tabicl", "tabicl.TabICL", allow_auto_download=False, **SEEDED),
    # Baselines for comparisons, which are not stacked by default.
    EstimatorModel(
        "logistic regression", partial(e.build, f"{LINEAR}.LogisticRegression", max_iter=500)
    ),
    _family("gradient boosting", "sklearn.ensemble.HistGradientBoosting", **HISTOGRAM),
    EstimatorModel("support vectors", e.support_vectors, partial(e.build, "sklearn.svm.SVR")),
    _family("majority", "sklearn.dummy.Dummy"),
)
BASE_MODELS: dict[str, Callable[[], BaseModel]] = {
    **{model.name: partial(replace, model) for model in ESTIMATORS},
    "neighbours": GraphModel,
    "nearest features": partial(GraphModel, "nearest features", 30, by_direction=True),
    "lga-linear": LGALinear,
}
DEFAULT = {
    "classification": (
        *("linear", "lga-kernel", "self-training", "random forest", "extra trees"),
        *("neighbours", "label spreading"),
    ),
    "regression": ("linear", "extra trees", "neighbours", "gaussian process", ARD),
}
FAST = {
    "classification": ("lga-metric", "extra trees", "neighbours"),
    "regression": ("linear", "extra trees", "gaussian process"),
}
DEFAULT_FOR_FEATURES = {  # of encoders: trees would use one of a thousand columns at a time
    "classification": ("linear", "nearest features", "lga-linear"),
    "regression": ("linear", "nearest features", "gaussian process"),
}
DEFAULT_FOR_PLAIN = {  # features beside an encoder's: what takes a second or two
    "classification": ("linear", "neighbours", "label spreading"),
    "regression": ("linear", "neighbours"),
}
PLAIN_VIEWS = {"images": "pixels", "texts": "words"}  # by what an encoder encodes
ON = " on "  # between a base model and the view that it sees
DEFAULT_NETWORKS = (SUPERVISED, "lga-evidence")
FOLDS, MAX_STEPS = 4, 10**9  # at most, for a time budget
TRAINING_SHARE, PARALLEL_EFFICIENCY = 0.85, 0.85  # of a time budget; of several processes
WHERE_INSTALLED, MAX_BOOSTED = ("catboost",), 300  # columns: a minute a fold for 800


def default_base_models(dataset: Dataset, quality: str = "best") -> tuple[str, ...]:
    """The names of the base models that are stacked by default.

    Networks are among them where they see pixels or tokens. On tables they make the ensemble no
    better and take half of the time.
    """
    networks = DEFAULT_NETWORKS if dataset.raw is not None else ()
    if dataset.has_encoded_features:
        beside = DEFAULT_FOR_PLAIN[dataset.task.name]
        plain = [f"{name}{ON}{view}" for view in views(dataset) if view for name in beside]
        return (*DEFAULT_FOR_FEATURES[dataset.task.name], *plain, *networks)
    if quality == "fast":
        return (*FAST[dataset.task.name], *networks)
    boosted = WHERE_INSTALLED if dataset.X.shape[1] <= MAX_BOOSTED else ()
    installed = (name for name in boosted if find_spec(name))
    is_slow = len(dataset.labeled) ** 2 * dataset.X.shape[1] > MAX_FOR_ARD
    names = (name for name in DEFAULT[dataset.task.name] if name != ARD or not is_slow)
    return (*names, *installed, *networks)


def views(dataset: Dataset) -> dict[str, tuple[int, int]]:
    """First and last column of an encoder's features, and of the plain ones beside them."""
    state = n.encoder_state(dataset.preprocessor) or {}
    if "plain" not in state:
        return {}
    width, plain = len(state["mean"]), PLAIN_VIEWS[state["encoder"]["kind"]]
    return {"": (0, width), plain: (width, dataset.X.shape[1])}


def _on_view(name: str, dataset: Dataset) -> BaseModel:
    """The model of a name such as "linear" or "linear on pixels"."""
    model, _, view = name.partition(ON)
    known = views(dataset)
    if view in known:
        return OnView(name, BASE_MODELS[model](), *known[view])
    if view:
        raise ValueError(
            f"The base model {name!r} needs features of an encoder with {view} beside them, and "
            f"the data have none; name {model!r} instead."
        )
    return BASE_MODELS[model]()


def base_models(
    names: Sequence[str] | None, config: FitConfig, dataset: Dataset, *, folder: Path | None = None
) -> list[BaseModel]:
    """The base models of these names, the additional network, estimators, weak labels.

    Parameters
    ----------
    names : sequence of str, optional
        Names of the registry or training methods such as "lga+vat"; the defaults if None.
    config : FitConfig
        `quality`, `method`, `estimators`, `weak_labels` and the options of networks are used.
    dataset : Dataset
        Tells defaults and what networks see.
    folder : Path, optional
        Where networks have their checkpoints.

    Returns
    -------
    list of BaseModel
        With different names.
    """
    prior, classes = config.class_prior or {}, dataset.task.classes
    if strange := [name for name in prior if name not in classes or not prior[name] >= 0]:
        known = ", ".join(classes[:20]) or "none"
        raise ValueError(f"`class_prior` must give shares of the classes ({known}), got {strange}.")
    module = n.module_to_fine_tune(dataset, config) if config.fine_tune else None
    make = partial(n.network_for, dataset=dataset, config=config, folder=folder, module=module)
    chosen = list(default_base_models(dataset, config.quality) if names is None else names)
    if config.method is not None and config.method not in chosen:
        chosen.append(config.method)
    models: dict[str, BaseModel] = {}
    for name in chosen:
        check_base_model_name(name)
        is_network = name.partition(ON)[0] not in BASE_MODELS
        model = make(n.usable_method(name, dataset)) if is_network else _on_view(name, dataset)
        models[model.name] = model
    if len([model for model in models.values() if isinstance(model, Network)]) > 1:
        # Networks that use unlabeled examples have seen the same labels and more.
        models |= {SUPERVISED: make(SUPERVISED, trusted=False)} if SUPERVISED in models else {}
    more: list[BaseModel] = [user_estimator(*each) for each in (config.estimators or {}).items()]
    if config.weak_labels is not None:
        more += read_weak_labels(config.weak_labels, dataset.ids, dataset.task)
    for model in more:
        if model.name in models:
            raise ValueError(
                f"Base models need different names, and there are two named {model.name!r}; "
                f"rename the estimator or the column of weak labels."
            )
        models[model.name] = model
    make(SUPERVISED)  # what the student cannot be is refused now
    return list(models.values())


def with_steps_for_budget(config: FitConfig, dataset: Dataset) -> FitConfig:
    """The configuration with as many steps as fit into its time budget, if it has one.

    All networks count with all folds, and the student: once where it sees pixels or tokens, else
    with all folds, too.
    """
    if config.time_budget is None or config.steps is not None:
        return config
    trainings = FOLDS + 1
    models = base_models(config.base_models, config, dataset)
    networks = [model for model in models if isinstance(model, Network)]
    seconds = sum(trainings * n.seconds_per_step(network, dataset) for network in networks)
    student = n.seconds_per_step(n.network_for(SUPERVISED, dataset, config), dataset)
    seconds += student * (1 if dataset.raw is not None else trainings)
    parallel = 1.0 if config.workers == 1 else PARALLEL_EFFICIENCY * config.workers
    affordable = TRAINING_SHARE * 60 * config.time_budget * parallel / seconds
    return config.override({"steps": max(1, int(min(affordable, MAX_STEPS)))})


def check_base_model_name(name: str) -> None:
    """Raise a ValueError unless it is a name of the registry or a training method.

    >>> check_base_model_name("lga+vat")
    >>> check_base_model_name("extratrees")
    Traceback (most recent call last):
    ValueError: There is no base model 'extratrees'; did you mean 'extra trees'?
    """
    model, _, view = name.partition(ON)
    if model in BASE_MODELS and view in ("", *PLAIN_VIEWS.values()):
        return
    terms = {*every_method(), SUPERVISED}
    if all(part.strip() in terms for part in name.split("+")):
        return
    hint = did_you_mean(name, [*BASE_MODELS, *terms], f"there are {', '.join(BASE_MODELS)}.")
    raise ValueError(f"There is no base model {name!r}; {hint}")
