"""`labelgrad export`: a model for programs without labelgrad."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from labelgrad.cli.console import Terminal
from labelgrad.fitting.asked import encoding_of
from labelgrad.fitting.export import SUFFIXES, export
from labelgrad.fitting.predictor import load_predictor


def run_export(
    run: Path, *, to: str, out: Path | None, with_encoder: bool, encoder: Sequence[str]
) -> None:
    """Write the file, and say how near its outputs are."""
    path = out or run / f"model{SUFFIXES.get(to, '')}"
    encoding = encoding_of(encoder) if with_encoder or encoder else None
    apart = export(load_predictor(run, encoding=encoding), path, to, encoding=encoding)
    Terminal().print(
        f"{path}: outputs as the model's own, apart by at most {apart:.1g}.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
