"""The hub that timm's and sentence-transformers' weights come from: its cache, and downloads.

Nothing here touches the network but `download` and the size that is told before it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from labelgrad.encoders.base import Download, first_line

# Weights that hold no code, and the small files beside them.
FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]
OTHERS = ["onnx/*", "openvino/*", "*/onnx/*", "*/openvino/*", "data_config.json"]
OnBytes = Callable[[int, int], None]  # bytes done, bytes in all
Allow = bool | Callable[[Download], bool]  # whether to fetch, or who to ask


def cached(repository: str) -> Path | None:
    """The folder of weights that were downloaded before, by whichever program."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        return None
    try:
        folder = Path(snapshot_download(repository, local_files_only=True))
    except Exception:  # not there, or not a name the hub could have
        return None
    return folder if any(folder.rglob("*.safetensors")) else None


def fetched(repository: str, name: str, allow: Allow, on_bytes: OnBytes | None = None) -> Path:
    """The folder of weights, from the cache or from the hub, if that is allowed."""
    found = cached(repository)
    if found is not None:
        return found
    try:
        wanted = Download(name, f"https://huggingface.co/{repository}", size_of(repository))
    except Exception as error:  # no network, no such name, or no library to ask with
        raise ValueError(
            f"The encoder {name!r} is not on this machine, and https://huggingface.co/{repository} "
            f"cannot be reached ({first_line(error)}); bring its weights as a local folder."
        ) from None
    if not (allow(wanted) if callable(allow) else allow):
        raise ValueError(wanted.sentence)
    return _download(repository, wanted, on_bytes)


def size_of(repository: str) -> int:
    """How many bytes a download would be; asks the hub."""
    from fnmatch import fnmatch

    from huggingface_hub import HfApi

    found = HfApi().model_info(repository, files_metadata=True, timeout=10)
    files = {file.rfilename: file.size or 0 for file in found.siblings or []}
    return sum(
        size
        for file, size in files.items()
        if any(fnmatch(file, one) for one in FILES)
        and not any(fnmatch(file, one) for one in OTHERS)
    )


def _download(repository: str, wanted: Download, on_bytes: OnBytes | None) -> Path:
    from huggingface_hub import snapshot_download

    total, tell = wanted.size, on_bytes or (lambda done, total: None)
    tell(0, total)
    try:
        folder = snapshot_download(
            repository, allow_patterns=FILES, ignore_patterns=OTHERS, tqdm_class=_silent()
        )
    except Exception as error:
        raise ValueError(
            f"The encoder {wanted.name!r} could not be downloaded from {wanted.where} "
            f"({first_line(error)}); try again, or bring it as a local folder."
        ) from None
    tell(total, total)
    return Path(folder)


def _silent() -> Any:
    """The hub's bars, which print, made to say nothing: that is for the caller."""
    from tqdm.auto import tqdm

    class Silent(tqdm):  # type: ignore[type-arg,misc,unused-ignore]
        def __init__(self, *given: Any, **named: Any):
            super().__init__(*given, **{**named, "disable": True})

    return Silent
