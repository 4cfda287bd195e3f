"""The base models of an ensemble as files, and back; no file holds code.

Each model is a skops file of arrays, numbers and estimators of scikit-learn; CatBoost's is in its
own JSON. A file may come from somebody who means harm, with digests that are right. So the exact
types that a file may hold are listed here, and indices and sizes are checked before compiled code
follows them. Models of other types are not saved.
"""

from __future__ import annotations

import copy
import io
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from labelgrad.auto.base_models.base import OnView
from labelgrad.auto.base_models.estimators import READ_BY, FittedEstimator
from labelgrad.auto.base_models.graph import FittedGraph, Graph
from labelgrad.auto.base_models.lga_linear import LinearHead
from labelgrad.auto.base_models.networks import TrainedNetwork
from labelgrad.auto.cross_fit import CrossFit, Folds, RescaledModel
from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.plain_values import built
from labelgrad.auto.stacking import Ensemble
from labelgrad.auto.task import Array, Classification, Regression, Task
from labelgrad.files import json_bytes, read_json
from labelgrad.reasons import reason_of

if TYPE_CHECKING:
    from labelgrad.auto.base_models.base import FittedModel
    from labelgrad.auto.predictor import Predictor
    from labelgrad.auto.run import Manifest

FOLDER = "ensemble"
INDEX = f"{FOLDER}/ensemble.json"
AGAIN = "fit again with --resume --keep-ensemble"
MOST_INDEX, MOST_BYTES = 2**24, 2**31  # bytes of the index; of a model, also when unpacked
CLASSES = {  # of scikit-learn, by their modules
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble._forest": "RandomForestClassifier RandomForestRegressor ExtraTreesClassifier "
    "ExtraTreesRegressor",
    "gaussian_process._gpc": "GaussianProcessClassifier _BinaryGaussianProcessClassifierLaplace",
    "gaussian_process._gpr": "GaussianProcessRegressor",
    "gaussian_process.kernels": "ConstantKernel Product RBF Sum WhiteKernel",
    "kernel_approximation": "Nystroem",
    "linear_model._bayes": "BayesianRidge",
    "linear_model._logistic": "LogisticRegression",
    "multiclass": "OneVsRestClassifier",
    "preprocessing._label": "LabelBinarizer",
    "semi_supervised._label_propagation": "LabelSpreading",
    "semi_supervised._self_training": "SelfTrainingClassifier",
    "tree._classes": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier "
    "ExtraTreeRegressor",
}
ALLOWED = {  # by the loader of skops: the types that it may build
    "ObjectNode": {f"sklearn.{at}.{name}" for at in CLASSES for name in CLASSES[at].split()}
    | {"labelgrad.linear.LGALinearClassifier", "labelgrad.linear.LGAKernelClassifier"},
    "TreeNode": {"sklearn.tree._tree.Tree"},
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "JsonNode": {"builtins.str"},
    "TypeNode": {"builtins.str", "numpy.float64", "numpy.int64"},
    "NdArrayNode": {"numpy.ndarray", "numpy.float64", "numpy.int64"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
}
TRUSTED = sorted(set().union(*ALLOWED.values()))


@dataclass(frozen=True)
class Entry:
    """A base model in `ensemble.json`."""

    name: str
    weight: float
    kind: str
    factor: float | None = None  # of standard deviations


@dataclass(frozen=True)
class Index:
    """The content of `ensemble.json`."""

    prior: tuple[float, ...]
    class_priors: tuple[tuple[float, ...], ...]  # plausible ones of all examples
    models: tuple[Entry, ...]
    sklearn: str = ""

    def check(self, task: Task) -> None:
        """Refuse an index that is not of a run with this task."""
        for shares in (self.prior, *self.class_priors):
            if len(shares) != len(task.classes) or not all(0 < share <= 1 for share in shares):
                raise ValueError(f"it needs the frequencies of {len(task.classes)} classes")
        if not 0 < len(self.models) == len({entry.name for entry in self.models}):
            raise ValueError("it needs models, each with a name of its own")
        for entry in self.models:
            for value in (entry.weight, entry.factor):
                if value is not None and not 0 < value < math.inf:
                    raise ValueError(f"model {entry.name!r} has the weight or factor {value}")


def check_can_save() -> None:
    """Refuse before anything is fitted what would fail when the ensemble is saved."""
    if find_spec("skops") is None:
        raise ImportError(
            "A saved ensemble needs skops, which is not installed; pip install "
            "'labelgrad[ensemble]'."
        )


def pack_ensemble(ensemble: Ensemble) -> tuple[dict[str, bytes], list[str]]:
    """The files of an ensemble by their names in a run folder, and a note for each model left out.

    Models with weight zero change nothing and are not saved.
    """
    import sklearn

    entries: list[Entry] = []
    files: dict[str, bytes] = {}
    notes: list[str] = []
    for each in ensemble.cross_fits:
        weight, fitted, factor = ensemble.weights[each.name], each.final, None
        if not weight or not each.predicts_new:
            continue
        if isinstance(fitted, RescaledModel):
            factor, fitted = fitted.factor, fitted.fitted
        try:
            kind, state = _state(fitted)
            content = _skops_bytes(state)
            if len(content) > MOST_BYTES:
                raise ValueError(f"it takes {len(content):,} bytes, more than {MOST_BYTES:,}")
            load_state(content)
        except Exception as error:  # of any library; the other models can be saved
            reason = reason_of(error)
            notes.append(
                f"The saved ensemble lacks the base model {each.name!r} with its weight of "
                f"{weight:.2f}: {reason}."
            )
            continue
        entries.append(Entry(each.name, weight, kind, factor))
        files[_file(len(entries), entries[-1])] = content
    class_priors = tuple(map(tuple, ensemble.class_priors.tolist()))
    prior = tuple(ensemble.prior.tolist())
    index = Index(prior, class_priors, tuple(entries), sklearn.__version__)
    return {**files, INDEX: json_bytes(asdict(index))}, notes


def _file(place: int, entry: Entry) -> str:
    plain = re.sub(r"[^a-z0-9]+", "-", entry.name.lower()).strip("-")[:40] or "model"
    return f"{FOLDER}/{place}-{plain}.skops"


def read_ensemble(manifest: Manifest, predictor: Predictor) -> Ensemble:
    """The ensemble that a manifest lists; it predicts new examples."""
    import sklearn

    task, fits = predictor.model.task, []
    task = replace(task, outputs=1) if isinstance(task, Regression) else task  # the student has 2
    with manifest.using(INDEX, AGAIN):
        index = built(Index, read_json(manifest.read(INDEX, MOST_INDEX)))
        index.check(task)
    check_can_save()
    other = f"it is of scikit-learn {index.sklearn}, and this is {sklearn.__version__}; {AGAIN}"
    hint = AGAIN if index.sklearn == sklearn.__version__ else other
    none = np.zeros((0, task.columns))
    for place, entry in enumerate(index.models, 1):
        file = _file(place, entry)
        with manifest.using(file, hint):
            state = load_state(manifest.read(file, MOST_BYTES))
            fitted = _fitted(entry.kind, state, predictor, task)
            if "start" in state:
                fitted = OnView(entry.name, fitted, int(state["start"]), int(state["stop"]))
            if isinstance(task, Regression):
                fitted = RescaledModel(fitted, entry.factor or 1.0, task)
            fits.append(CrossFit(entry.name, False, none, [], fitted))
    weights = {entry.name: entry.weight for entry in index.models}
    nothing = np.zeros(0, dtype=np.int64)
    X = np.zeros((0, 0), dtype=np.float32)
    dataset = Dataset(X, task.unlabeled(0), task, [], predictor.preprocessor)
    prior, class_priors = np.array(index.prior), np.array(index.class_priors)
    folds = Folds(nothing, nothing)
    return Ensemble(fits, weights, [], prior, class_priors, none, dataset, folds)


def _state(fitted: FittedModel) -> tuple[str, dict[str, Any]]:
    """Kind of a fitted model, and what a file holds of it; a ValueError if it cannot be saved."""
    if isinstance(fitted, OnView):
        kind, state = _state(fitted.model)
        return kind, state | {"start": fitted.start, "stop": fitted.stop}
    if isinstance(fitted, FittedGraph):
        graph = fitted.graph
        about = {"neighbours": graph.neighbours, "by_direction": graph.by_direction}
        return "graph", about | _arrays(X=graph.X, mass=fitted.mass, scale=fitted.scale)
    if isinstance(fitted, LinearHead):
        return "head", _arrays(weight=fitted.weight, bias=fitted.bias)
    if isinstance(fitted, TrainedNetwork):
        weights = {n: one.numpy(force=True) for n, one in fitted.network.state_dict().items()}
        numbers = {"std": fitted.std, "temperature": fitted.temperature}
        return "network", {"weights": _arrays(**weights), **numbers}
    if not isinstance(fitted, FittedEstimator):
        raise ValueError(f"a {type(fitted).__name__} cannot be saved")
    estimator = fitted.estimator
    if type(estimator).__module__.partition(".")[0] == "catboost":
        return "catboost", {"json": _catboost_json(estimator), "read": fitted.read}
    if hasattr(estimator, "nn_fit"):  # label spreading builds its search again
        estimator = copy.copy(estimator)
        estimator.nn_fit = None
    return "estimator", {"estimator": estimator, "read": fitted.read}


def _arrays(**arrays: Array) -> dict[str, Array]:
    return {name: np.ascontiguousarray(each) for name, each in arrays.items()}


def _fitted(kind: str, state: Mapping[str, Any], predictor: Predictor, task: Task) -> FittedModel:
    """The model that `_state` described, with everything checked that compiled code relies on."""
    student, columns = predictor.model, task.columns
    if kind == "graph":
        X, neighbours = state["X"], state["neighbours"]
        _check_floats(state, X=X.shape[:1] + X.shape[1:2], mass=(len(X), columns), scale=(columns,))
        if type(neighbours) is not int or not 1 <= neighbours < len(X):
            raise ValueError(f"it has {neighbours} neighbours of {len(X)} examples")
        graph = Graph(X, neighbours, by_direction=bool(state["by_direction"]))
        return FittedGraph(graph, state["mass"], state["scale"], task, np.arange(len(X)))
    if kind == "head":
        weight = state["weight"]
        _check_floats(state, weight=(len(weight), columns), bias=(columns,))
        return LinearHead(weight, state["bias"], task)
    if kind == "network":  # like the one that is saved beside the ensemble
        about = student.to_dict() | {name: state[name] for name in ("std", "temperature")}
        same = student.task.outputs == task.outputs
        model = TrainedNetwork.from_dict(
            about, task, copy.deepcopy(student.network) if same else None
        )
        weights = {name: torch.from_numpy(one) for name, one in state["weights"].items()}
        model.network.load_state_dict(weights)
        return replace(predictor, model=model).model
    if kind not in ("estimator", "catboost") or state["read"] not in READ_BY:
        raise ValueError(f"its kind {kind!r} or reading {state.get('read')!r} is unknown")
    if kind == "catboost":
        estimator = _catboost_model(state["json"], task)
    else:
        estimator = check_estimator(state["estimator"], task)
    return FittedEstimator(estimator, state["read"], task)


def _check_floats(state: Mapping[str, Any], **shapes: tuple[int, ...]) -> None:
    for name, shape in shapes.items():
        array: Array = state[name]
        if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"its {name} has no finite numbers of the shape {shape}")


def _skops_bytes(state: Mapping[str, Any]) -> bytes:
    """A skops file; the same state gives the same bytes."""
    from skops import io as skops

    with zipfile.ZipFile(io.BytesIO(skops.dumps(dict(state)))) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    # Objects are numbered by their addresses, also in the names of parts; here by their order.
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return found[1] + numbers.setdefault(found[2], str(len(numbers) + 1))

    schema = parts.pop("schema.json").decode()
    parts["schema"] = re.sub(r'("__id__": |"file": ")(\d+)', numbered, schema).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, part in parts.items():
            stem, suffix = Path(name).stem, Path(name).suffix or ".json"
            info = zipfile.ZipInfo(numbers.get(stem, stem) + suffix)  # with the earliest date
            file.writestr(info, part, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def load_state(content: bytes) -> Any:
    """What a skops file holds, if it holds nothing but allowed types."""
    from skops import io as skops

    with zipfile.ZipFile(io.BytesIO(content)) as file:
        size = sum(part.file_size for part in file.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes when unpacked, more than {MOST_BYTES:,}")
        schema = read_json(file.read("schema.json"))
    for node in _inside(schema):
        if isinstance(node, dict) and {"__class__", "__module__", "__loader__"} & node.keys():
            loader, kind = node.get("__loader__"), f"{node.get('__module__')}.{node['__class__']}"
            if kind not in ALLOWED.get(str(loader), ()):
                raise ValueError(f"it holds a {kind}, which is not allowed")
    return skops.loads(content, trusted=TRUSTED)


def check_estimator(estimator: Any, task: Task) -> Any:
    """The estimator, unless its trees lead out of themselves or its classes are not the task's.

    Compiled code follows the branches of a tree without looking.
    """
    columns = estimator.n_features_in_
    for part in _inside(estimator):
        if getattr(part, "n_features_in_", columns) != columns:
            raise ValueError("its parts have different numbers of columns")
        classes = getattr(part, "classes_", None)
        if isinstance(classes, np.ndarray):
            is_known = np.isin(classes, np.arange(len(task.classes))).all()
            if classes.dtype.kind not in "if" or len(classes) > len(task.classes) or not is_known:
                raise ValueError("its classes are not those of the run")
            if getattr(part, "n_classes_", len(classes)) != len(classes):
                raise ValueError("its number of classes is not that of its classes")
        if hasattr(part, "tree_"):
            _check_tree(part.tree_, columns)
    return estimator


def _check_tree(tree: Any, columns: int) -> None:
    left, right, here = tree.children_left, tree.children_right, np.arange(tree.node_count)
    inner = (left != -1) | (right != -1)
    for child in (left[inner], right[inner]):
        if (child <= here[inner]).any() or (child >= tree.node_count).any():
            raise ValueError("it has a tree whose branches lead nowhere")
    if (tree.feature[inner] < 0).any() or (tree.feature[inner] >= columns).any():
        raise ValueError("it has a tree with columns that do not exist")


def _inside(value: Any) -> Iterator[Any]:
    """A value and all that it holds, also in lists, dictionaries and arrays of objects.

    >>> [part for part in _inside({"a": [1, (2,)]}) if isinstance(part, int)]
    [2, 1]
    """
    waiting, seen = [value], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, type):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, np.ndarray) and part.dtype == object:
            waiting += part.ravel().tolist()
        elif hasattr(part, "__dict__"):
            waiting += vars(part).values()


def _catboost_json(model: Any) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        model.save_model(str(path), format="json")
        return path.read_text()


def _catboost_model(saved: str, task: Task) -> Any:
    """The model, unless its trees use columns that do not exist or lack values of their leaves."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    about = read_json(saved.encode())
    columns = len(about["features_info"]["float_features"])
    for tree in about["oblivious_trees"]:
        splits = tree["splits"] or []
        if any(not 0 <= split["float_feature_index"] < columns for split in splits):
            raise ValueError("it has a tree with columns that do not exist")
        if not tree["leaf_values"] or len(tree["leaf_values"]) % 2 ** len(splits):
            raise ValueError("it has a tree without some of its leaves")
    model = CatBoostClassifier() if isinstance(task, Classification) else CatBoostRegressor()
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_text(saved)
        model.load_model(str(path), format="json")
    return model
