"""Folders of images: classes are sub-folders, or are listed in a CSV file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import PIL
import torch
from joblib import Parallel, delayed
from torch.nn import functional as F

from labelgrad.auto import store
from labelgrad.auto.config import FitConfig
from labelgrad.auto.data import folders
from labelgrad.auto.data.dataset import Examples, NewExamples
from labelgrad.auto.data.folders import Files
from labelgrad.auto.encoders import pixels as decoding
from labelgrad.auto.encoders.features import encode_again, encode_with
from labelgrad.auto.encoders.find import choose_encoder
from labelgrad.auto.encoders.pretrained import IMAGES
from labelgrad.auto.events import Events
from labelgrad.auto.store import Computed
from labelgrad.auto.task import Array

MIN_SIZE, DEFAULT_SIZE, MAX_SIZE = 8, 32, 1024
FEATURE_SIDE = 16  # pixels of an image as base models that are no networks see it
PIXEL_STD = 0.5  # of a pixel between -1 and 1, about
CHUNK = 1000  # images
BATCH, BATCH_BYTES = 500, 2**24  # images, and bytes of them, that a process decodes at once
MIN_PARALLEL = 1000  # images: fewer are decoded sooner than processes have started
MAX_PROCESSES = 8
STAGE = "decoding images"


@dataclass(eq=False)
class ImagePreprocessor(folders.FolderPreprocessor):
    """How a folder of images became features, or pixels of one size."""

    kind: str = IMAGES
    size: int = DEFAULT_SIZE
    channels: int = 3
    suffixes = decoding.SUFFIXES

    def __post_init__(self) -> None:
        if self.size not in range(1, MAX_SIZE + 1) or self.channels not in (1, 3):
            found = f"{self.size!r} and {self.channels!r}"
            raise ValueError(
                f"Images need a `size` from 1 to {MAX_SIZE} and 1 or 3 channels, got {found}."
            )

    @classmethod
    def fit(
        cls, folder: Path, files: Files, config: FitConfig, events: Events
    ) -> tuple[Self, NewExamples, Sequence[str]]:
        """Choose the encoder, or the size of pixels."""
        paths = list(files.values())
        natural_side = decoding.median_side(paths)
        # A multiple of 4, for networks that halve it twice.
        usual = min(max((natural_side or DEFAULT_SIZE) // 4 * 4, MIN_SIZE), DEFAULT_SIZE)
        fitted = cls(None, config.fine_tune > 0, size=config.size or usual)
        encoder, notes = choose_encoder(config, IMAGES, natural_side=natural_side)
        if encoder is not None:
            block = encode_with(encoder, paths, config, events)
            fitted.state, fitted.size = block.state, encoder.settings["size"]
            return fitted, fitted.readable(files, block.features, block.failed, config), notes
        if fitted.fine_tune:
            raise ValueError(
                "Fine-tuning needs an encoder of images; name an --encoder or omit --fine-tune."
            )
        pixels, failed = decode(paths, fitted.size, config, events, folder)
        if not len(pixels):
            raise ValueError(folders.none_readable(list(zip(files, failed.values(), strict=True))))
        fitted.channels = 1 if decoding.is_grey(pixels) else 3
        size, color = fitted.size, "all grey" if fitted.channels == 1 else "in color"
        usual_side = f"the usual side, at most {DEFAULT_SIZE}; see --size"
        how = "as requested" if config.size else usual_side
        note = f"Images are scaled to {size}×{size} ({how}), cropped to their center, {color}."
        found = fitted.readable(files, pixels[:, : fitted.channels], failed, config)
        return fitted, found, [note, *notes]

    def transform_files(self, files: Files, config: FitConfig, events: Events) -> NewExamples:
        """Some files as the models see them."""
        paths = list(files.values())
        if self.state is not None:
            block = encode_again(self.state, paths, config, events)
            return self.readable(files, block.features, block.failed, config)
        pixels, failed = decode(paths, self.size, config, events)
        raw = decoding.to_grey(pixels) if self.channels == 1 else pixels
        return self.readable(files, raw, failed, config)

    def readable(
        self, files: Files, rows: Array, failed: Mapping[int, str], config: FitConfig
    ) -> NewExamples:
        """The examples that could be read, from features of all files or pixels of these."""
        names = [*files]
        skipped = [(names[position], reason) for position, reason in failed.items()]
        some = {n: files[n] for position, n in enumerate(files) if position not in failed}
        if self.state is None:
            return NewExamples(Examples(pixel_features(rows, config), rows), [*some], skipped)
        rows = np.delete(rows, [*failed], axis=0) if failed else rows
        return self.encoded(rows, some, skipped, config)


def pixel_features(pixels: Array, config: FitConfig) -> Array:
    """Images (n, c, h, w) in 8 bits as rows: averaged to 16×16, flattened, about unit variance.

    Examples
    --------
    >>> pixel_features(np.zeros((2, 3, 32, 32), np.uint8), FitConfig()).shape
    (2, 768)
    """
    n, channels, height, width = pixels.shape
    sides = min(FEATURE_SIDE, height), min(FEATURE_SIDE, width)
    features = store.allocate((n, channels * sides[0] * sides[1]), "float32", config.cache)
    for start in range(0, n, CHUNK):
        part = torch.from_numpy(np.ascontiguousarray(pixels[start : start + CHUNK])).float()
        small = F.adaptive_avg_pool2d(part * (2 / 255) - 1, sides)
        features[start : start + CHUNK] = small.flatten(1).numpy() / PIXEL_STD
    return features


def decode(
    paths: Sequence[Path], size: int, config: FitConfig, events: Events, source: Path | None = None
) -> Computed:
    """Decode images, in several processes where they are many.

    Parameters
    ----------
    paths
        Of image files.
    size
        Of the decoded images.
    config
        Its `cache` matters.
    events
        Is told of progress.
    source
        A folder whose decoded images are stored in the cache if they do not fit in memory. There an
        image is known by its path, its size in bytes and the time of its last change.

    Returns
    -------
    tuple of Array and dict
        The pixels (n, 3, size, size) of the images that could be read, and why others could not.
    """

    def compute(batches: list[list[int]]) -> Iterator[Computed]:
        # Processes of a pool may have started in another working directory.
        return _decode_batches([[paths[p].absolute() for p in batch] for batch in batches], size)

    shape, batch = (3, size, size), max(1, min(BATCH, BATCH_BYTES // (3 * size * size)))
    failed: dict[int, str] = {}
    if source is None or store.fits_memory(3 * size * size * len(paths)):
        pixels, done = store.allocate((len(paths), *shape), "uint8", config.cache), 0
        starts = range(0, len(paths), batch)
        found = compute([list(range(at, min(at + batch, len(paths)))) for at in starts])
        for start, (rows, reasons) in zip(starts, found, strict=True):
            pixels[done : done + len(rows)] = rows
            failed |= {start + place: reason for place, reason in reasons.items()}
            done += len(rows)
            events.progress(STAGE, done + len(failed), len(paths))
        pixels = pixels[:done]
    else:
        about = {"folder": os.path.realpath(source), "size": size, "pillow": PIL.__version__}
        stored = store.RowStore(store.cache_folder(config.cache) / "images", about, shape, "uint8")
        keys = [_file_key(path, source) for path in paths]
        places, failed = stored.complete(keys, compute, batch, STAGE, events)
        pixels = stored.rows(places[places >= 0], config.cache)
    return pixels, failed


def _decode_batches(batches: Sequence[Sequence[Path]], size: int) -> Iterator[Computed]:
    are_many = sum(map(len, batches)) > MIN_PARALLEL
    processes = min(MAX_PROCESSES, os.cpu_count() or 1, len(batches)) if are_many else 1
    window = 2 * processes  # so that decoded batches do not pile up before a slow disk
    with Parallel(processes, batch_size=1) as parallel:
        for start in range(0, len(batches), window):
            some = batches[start : start + window]
            yield from parallel(delayed(decoding.decode_batch)(batch, size) for batch in some)


def _file_key(path: Path, folder: Path) -> bytes:
    status, name = path.stat(), str(path).removeprefix(str(folder))
    return store.content_key(os.fsencode(f"{status.st_size} {status.st_mtime_ns} {name}"))
