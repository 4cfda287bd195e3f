"""Options and arguments that several commands take, each with its words of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ResultsOut = Annotated[Path, typer.Option(help="Where results and picture go.")]
Data = Annotated[Path, typer.Argument(help="Folder of pictures, texts, Parquet; table; .npz.")]
Labels = Annotated[Path | None, typer.Option(help="CSV with file and label.")]
Target = Annotated[str | None, typer.Option(help="A table's column of labels.")]
Task = Annotated[str | None, typer.Option(help="classification or regression.")]
Dates = Annotated[str | None, typer.Option(help="day-first or month-first.")]
Model = Annotated[str | None, typer.Option(help="Such as mlp, linear, wrn-10-1.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Training steps.")]
Device = Annotated[str, typer.Option(help="Where to train: cpu or cuda.")]
Dask = Annotated[str | None, typer.Option(help="Train on this cluster: tcp://host:8786.")]
Size = Annotated[int | None, typer.Option(help="Pictures' side, in pixels.")]
Mirror = Annotated[bool, typer.Option("--mirror", help="Mirrored means the same.")]
Text = Annotated[list[str] | None, typer.Option(help="Column of texts; else found.")]
Picture = Annotated[list[str] | None, typer.Option(help="Column of picture files.")]
Encoder = Annotated[str | None, typer.Option(help="Names, folders or none.")]
Download = Annotated[bool, typer.Option("--download", help="An encoder may be fetched.")]
Cache = Annotated[Path | None, typer.Option(help="Folder of the cache.")]
Strict = Annotated[bool, typer.Option("--strict", help="A damaged picture is fatal.")]
Splits = Annotated[int, typer.Option(min=1, help="Splits of each set.")]
TrialsAtOnce = Annotated[int, typer.Option(min=1, help="Trials side by side.")]
Run = Annotated[Path, typer.Argument(help="Folder of a run that `fit` made.")]
SpreadsheetSafe = Annotated[
    bool, typer.Option("--spreadsheet-safe", help="No cell begins like a formula.")
]
EncoderFolder = Annotated[str | None, typer.Option(help="Its folder, where it is elsewhere now.")]
DataSets = Annotated[
    Path | None, typer.Option(help="Folder of the data sets; else LABELGRAD_DATA.")
]
