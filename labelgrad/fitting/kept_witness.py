"""One witness as the content of a file, and back; no file holds code.

Models of scikit-learn are skops files, of which only types that are known to be harmless are read.
The neighbours, LGA's linear head and our networks are tensors, CatBoost has a format of its own.
What others said in a file of opinions is about the rows of the data: of new ones they say nothing,
and need no file.
"""

from __future__ import annotations

import copy
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from labelgrad.files import unshared
from labelgrad.fitting.pooling import NetworkOpinion
from labelgrad.inputs.base import Scale, join_few
from labelgrad.witnesses.aligned import LinearOpinion
from labelgrad.witnesses.base import Array, Learned, Opinion
from labelgrad.witnesses.hearing import Rescaled
from labelgrad.witnesses.models import (
    Says,
    WithSpread,
    probabilities_or_values,
    spread_or_near,
    votes_or_trees,
)
from labelgrad.witnesses.neighbours import NearRows, Spread
from labelgrad.witnesses.opinions import NO_OPINION, Spoken

MOST_BYTES = 2**31  # of a file, also when it is unpacked
TRUSTED = (  # of scikit-learn, beside what skops trusts by itself
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.gaussian_process.kernels.ConstantKernel",
    "sklearn.gaussian_process.kernels.Product",
    "sklearn.gaussian_process.kernels.RBF",
    "sklearn.gaussian_process.kernels.Sum",
    "sklearn.gaussian_process.kernels.WhiteKernel",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
)
READ_BY: dict[str, Says] = {  # the kinds of skops files, by how what the model says is read
    "model": probabilities_or_values,
    "trees": votes_or_trees,
    "spreading": spread_or_near,
}
CATBOOST, NEIGHBOURS, NETWORK, OPINIONS = "catboost", "neighbours", "network", "opinions"
HEAD = "linear head"
ENDINGS = dict.fromkeys(READ_BY, ".skops") | {
    CATBOOST: ".json",
    NEIGHBOURS: ".safetensors",
    NETWORK: ".safetensors",
    HEAD: ".safetensors",
}


FACTOR = "times as unsure"  # among the numbers of a witness of values: see `hearing.Rescaled`


@dataclass(frozen=True)
class Packed:
    """A witness as a file would hold it, and the numbers that go with it."""

    kind: str
    content: bytes | None = None
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Asked:
    """What a witness must know of the run to speak again."""

    classes: int  # 0 of values
    known: Array  # (classes,) their shares among the labels
    transform: Scale
    network: nn.Module  # like those of the run, with whatever weights


@dataclass(frozen=True, eq=False)
class Silence:
    """The opinion of nobody: what moves nothing in a pool.

    >>> np.exp(Silence(np.array([0.25, 0.75])).of_new(np.zeros((1, 3))))
    array([[0.25, 0.75]])
    """

    known: Array

    def of_rows(self, rows: Array) -> Array:
        """Nothing."""
        return self.of_new(rows)

    def of_new(self, x: Any) -> Array:
        """Nothing."""
        silent = np.log(self.known) if len(self.known) else np.array([0.0, NO_OPINION])
        return np.tile(silent, (len(x), 1))


def pack(opinion: Opinion) -> Packed:
    """The witness as a file would hold it; a ValueError says why one cannot be kept."""
    if isinstance(opinion, Rescaled):
        inner = pack(opinion.opinion)
        return replace(inner, settings=inner.settings | {FACTOR: opinion.factor})
    if isinstance(opinion, Spoken):
        return Packed(OPINIONS)
    if isinstance(opinion, NetworkOpinion):
        weights = save_tensors(unshared(opinion.network.state_dict()))
        return Packed(NETWORK, weights, {"spread": opinion.spread})
    if isinstance(opinion, Spread):
        return _pack_neighbours(opinion)
    if isinstance(opinion, LinearOpinion):
        tensors = {
            "weight": torch.from_numpy(opinion.weight),
            "bias": torch.from_numpy(opinion.bias),
        }
        return Packed(HEAD, save_tensors(unshared(tensors)))
    if isinstance(opinion, Learned):
        return _pack_model(opinion)
    raise ValueError(f"there is no file for {type(opinion).__name__}")


def unpack(packed: Packed, asked: Asked) -> Opinion:
    """The opinion that `pack` made this of; it can be asked about new examples."""
    unpack_kind: dict[str, Callable[[Packed, Asked], Opinion]] = {
        OPINIONS: lambda packed, asked: Silence(asked.known),
        NETWORK: _unpack_network,
        NEIGHBOURS: _unpack_neighbours,
        HEAD: _unpack_head,
    }
    opinion = unpack_kind.get(packed.kind, _unpack_model)(packed, asked)
    factor = packed.settings.get(FACTOR)
    return opinion if factor is None else Rescaled(opinion, factor)


def _unpack_network(packed: Packed, asked: Asked) -> NetworkOpinion:
    network = copy.deepcopy(asked.network)
    network.load_state_dict(load_tensors(packed.content or b""))
    nothing = torch.zeros(0)
    spread = packed.settings["spread"]
    return NetworkOpinion(network.eval(), nothing, asked.transform, not asked.classes, spread)


def _pack_neighbours(opinion: Spread) -> Packed:
    rows = opinion.graph
    tensors = {"x": rows.x, "arrived": opinion.arrived, "factor": opinion.factor}
    content = save_tensors(unshared({name: _compact(each) for name, each in tensors.items()}))
    settings = {"spread": opinion.spread, "neighbours": rows.neighbours, "seed": rows.seed}
    settings["by direction"] = float(rows.by_direction)
    return Packed(NEIGHBOURS, content, settings)


def _unpack_neighbours(packed: Packed, asked: Asked) -> Spread:
    tensors = load_tensors(packed.content or b"")
    x, arrived, factor = (tensors[name].double().numpy() for name in ("x", "arrived", "factor"))
    if x.ndim != 2 or arrived.shape != (len(x), asked.classes or 2):
        raise ValueError(f"its rows are {x.shape}, and {arrived.shape} arrived at them")
    neighbours, seed = int(packed.settings["neighbours"]), int(packed.settings["seed"])
    by_direction = bool(packed.settings.get("by direction"))
    rows = NearRows(x, neighbours, seed, by_direction=by_direction)
    return Spread(rows, arrived, factor, packed.settings["spread"], asked.classes)


def _unpack_head(packed: Packed, asked: Asked) -> LinearOpinion:
    tensors = load_tensors(packed.content or b"")
    weight, bias = tensors["weight"].numpy(), tensors["bias"].numpy()
    if weight.shape[1:] != bias.shape or bias.shape != (asked.classes,):
        raise ValueError(f"its weight is {weight.shape}, and its bias {bias.shape}")
    return LinearOpinion(np.zeros((0, len(weight))), weight, bias)


def _compact(numbers: Array) -> Tensor:
    """The same numbers in half the bytes, where that loses nothing.

    >>> _compact(np.array([0.5, 0.25])).dtype, _compact(np.array([0.1])).dtype
    (torch.float32, torch.float64)
    """
    short = numbers.astype(np.float32)
    return torch.from_numpy(short if (short == numbers).all() else numbers.astype(float))


def _pack_model(opinion: Learned) -> Packed:
    model, settings = opinion.model, {}
    if isinstance(model, WithSpread):
        model, settings = model.model, {"spread": model.spread}
    if type(model).__module__.partition(".")[0] == CATBOOST:
        return Packed(CATBOOST, _catboost_bytes(model), settings)
    kinds = [kind for kind, says in READ_BY.items() if says is opinion.says]
    if not kinds:
        raise ValueError("what it says is read in a way of its own")
    if hasattr(model, "nn_fit"):  # a search among its rows, which label spreading makes anew
        model = copy.copy(model)
        model.nn_fit = None
    return Packed(kinds[0], _skops_bytes(model), settings)


def _unpack_model(packed: Packed, asked: Asked) -> Learned:
    content, is_catboost = packed.content or b"", packed.kind == CATBOOST
    model = _catboost_model(content, asked.classes) if is_catboost else _skops_model(content)
    if "spread" in packed.settings:
        model = WithSpread(model, packed.settings["spread"])
    says = READ_BY.get(packed.kind, probabilities_or_values)
    return Learned(np.zeros((0, 0)), model, says, asked.classes)


def _skops_bytes(model: Any) -> bytes:
    from skops import io as skops

    content: bytes = skops.dumps(model, compression=zipfile.ZIP_DEFLATED)
    _check_types(content)
    return content


def _skops_model(content: bytes) -> Any:
    from skops import io as skops

    _check_types(content)
    model = skops.loads(content, trusted=list(TRUSTED))
    for part in _inside(model):
        if hasattr(part, "tree_"):
            _check_tree(part.tree_, part.n_features_in_)
    return model


def _inside(model: Any) -> Iterator[Any]:
    """The model, and all that it holds, also in lists, dictionaries and arrays of objects.

    >>> [part for part in _inside({"a": [1, (2,)]}) if isinstance(part, int)]
    [2, 1]
    """
    waiting, seen = [model], set()
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


def _check_types(content: bytes) -> None:
    """Refuse a skops file that is too large when unpacked, or has a type that is not trusted."""
    from skops import io as skops

    with zipfile.ZipFile(io.BytesIO(content)) as file:
        size = sum(part.file_size for part in file.infolist())
    if size > MOST_BYTES:
        raise ValueError(f"it has {size} bytes when unpacked, and {MOST_BYTES} are the most")
    strange = sorted(set(skops.get_untrusted_types(data=content)) - set(TRUSTED))
    if strange:
        raise ValueError(f"it has types that are not trusted: {join_few(strange, most=3)}")


def _check_tree(tree: Any, columns: int) -> None:
    """Refuse a tree that leads out of itself or round in circles: compiled code would follow it."""
    left, right, here = tree.children_left, tree.children_right, np.arange(tree.node_count)
    inner = (left != -1) | (right != -1)
    for child in (left[inner], right[inner]):
        if (child <= here[inner]).any() or (child >= tree.node_count).any():
            raise ValueError("it has a tree whose branches lead nowhere")
    if (tree.feature[inner] < 0).any() or (tree.feature[inner] >= columns).any():
        raise ValueError("it has a tree that asks for columns that there are not")


def _catboost_bytes(model: Any) -> bytes:
    with TemporaryDirectory() as spare:
        path = Path(spare, "model.json")
        model.save_model(str(path), format="json")
        return path.read_bytes()


def _catboost_model(content: bytes, classes: int) -> Any:
    from catboost import CatBoostClassifier, CatBoostRegressor

    model = CatBoostClassifier() if classes else CatBoostRegressor()
    with TemporaryDirectory() as spare:
        path = Path(spare, "model.json")
        path.write_bytes(content)
        return model.load_model(str(path), format="json")
