"""Many pictures decoded side by side, by processes that know nothing but how to do that."""

from __future__ import annotations

import os
import sys
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelgrad.child import begin_child
from labelgrad.inputs.pixels import Pixels, is_grey, load_picture, reason

COLOUR, GREY, FAILED = range(3)  # what became of a file
MOST_PROCESSES = 8
MOST, AT_ONCE = 500, 2**24  # pictures, and bytes of them, that are decoded in one go
FEW = 1000  # pictures: so many are decoded sooner than processes have begun


class Decoded(NamedTuple):
    """What became of some files, and the pixels of those that are whole."""

    kinds: NDArray[np.uint8]  # of every file
    checks: NDArray[np.uint32]  # of every file's pixels, 0 where there are none
    pixels: Pixels  # (whole ones, 3, size, size)
    reasons: list[str]  # why the others cannot be read


def decode(files: Sequence[Path], size: int) -> Decoded:
    """These pictures, or why they cannot be read."""
    kinds, checks = np.full(len(files), FAILED, np.uint8), np.zeros(len(files), np.uint32)
    pixels: Pixels = np.empty((len(files), 3, size, size), np.uint8)
    whole, reasons = 0, []
    for place, path in enumerate(files):
        try:
            pixels[whole] = load_picture(path, size)
        except Exception as error:  # a damaged file stumbles anywhere in Pillow's decoders
            reasons.append(reason(error))
            continue
        kinds[place] = GREY if is_grey(pixels[whole : whole + 1]) else COLOUR
        checks[place] = zlib.crc32(pixels[whole].data)
        whole += 1
    return Decoded(kinds, checks, pixels[:whole], reasons)


def pieces(count: int, size: int) -> list[slice]:
    """So many pictures in pieces that are decoded in one go.

    >>> pieces(1200, 32)
    [slice(0, 500, None), slice(500, 1000, None), slice(1000, 1200, None)]
    """
    many = max(1, min(MOST, AT_ONCE // (3 * size * size)))
    return [slice(start, min(start + many, count)) for start in range(0, count, many)]


def decode_all(lists: Sequence[Sequence[Path]], size: int) -> Iterator[Decoded]:
    """Each list of files decoded, in their order; several at a time where there are many.

    A process that is killed costs nothing: the rest is decoded here.
    """
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, len(lists))
    if processes < 2 or sum(map(len, lists)) <= FEW:
        for files in lists:
            yield decode(files, size)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), begin_child)
    ahead: deque[tuple[Sequence[Path], Future[Decoded] | None]] = deque()
    try:
        for files in lists:
            ahead.append((files, _submitted(pool, files, size)))
            if len(ahead) > 2 * processes:
                yield _result(*ahead.popleft(), size)
        while ahead:
            yield _result(*ahead.popleft(), size)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, files: Sequence[Path], size: int
) -> Future[Decoded] | None:
    with suppress(BrokenProcessPool), _no_main():
        return pool.submit(decode, files, size)
    return None


def _result(files: Sequence[Path], future: Future[Decoded] | None, size: int) -> Decoded:
    if future is not None:
        with suppress(BrokenProcessPool):
            return future.result()
    return decode(files, size)


@contextmanager
def _no_main() -> Iterator[None]:
    """Have processes begin without the script that started this one, which would run again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
