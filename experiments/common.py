"""What all experiments share: results in a folder, trials in parallel, tables and commands."""

from __future__ import annotations

import io
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import typer

from labelgrad.files import write_whole

Line = dict[str, Any]  # one line of results.jsonl
Trial = Callable[..., list[Line]]  # the settings of a trial in, its lines out
INTERRUPTED = 130  # the exit code after Ctrl-C
FIRST = os.environ.get("RANK", "0") == "0"  # the one process under torchrun that prints and writes


@cache
def revision() -> dict[str, str | None]:
    """Which code this is: the commit of this repository, and the versions of what it runs on."""
    import torch

    import labelgrad

    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    found = subprocess.run([*git, "--abbrev=12"], capture_output=True, text=True)
    return {
        "labelgrad": labelgrad.__version__,
        "revision": found.stdout.strip() or None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


class Results:
    """The lines of a folder's `results.jsonl`; `commands.jsonl` says which commands made them.

    A setting cannot change within a folder; new settings, such as those of a further method, may
    be added.

    >>> from tempfile import mkdtemp
    >>> results = Results(mkdtemp(), {"steps": 10})
    >>> results.add([{"seed": 0, "loss": 1.5}])
    >>> results.lines, results.has(seed=0)
    ([{'seed': 0, 'loss': 1.5}], True)
    """

    def __init__(self, folder: str | Path, settings: Line):
        self.folder = Path(folder)
        self.settings: Line = json.loads(json.dumps(settings))  # as it will be read back
        for earlier in read_lines(self.folder / "commands.jsonl"):
            for name in sorted(earlier["settings"].keys() & self.settings.keys()):
                old, new = earlier["settings"][name], self.settings[name]
                if old != new:
                    raise ValueError(
                        f"{folder} holds results with {name} = {old}, and now it is {new}; use "
                        f"another folder with --out."
                    )
        self.lines = read_lines(self.folder / "results.jsonl")

    def begin(self) -> None:
        """Record the command and the revision of the code that are about to add lines."""
        call = {"command": typed(), **revision(), "settings": self.settings}
        self._write("commands.jsonl", [*read_lines(self.folder / "commands.jsonl"), call])

    def add(self, lines: Iterable[Line]) -> None:
        """Add the lines of a finished trial: after a crash, all of them are there or none."""
        self.lines = [*self.lines, *lines]
        self._write("results.jsonl", self.lines)

    def has(self, **wanted: Any) -> bool:
        """Whether a line with these values is there."""
        return any(wanted.items() <= line.items() for line in self.lines)

    def _write(self, name: str, lines: Sequence[Line]) -> None:
        if FIRST:
            text = "".join(json.dumps(line) + "\n" for line in lines)
            write_whole(self.folder / name, text.encode())


def run_trials(trial: Trial, jobs: Mapping[str, Line], results: Results, workers: int) -> None:
    """Run all jobs in `workers` processes and save each as it ends.

    The jobs are joblib's, so `joblib.parallel_config(backend="dask")` sends them to a cluster.
    Under torchrun its processes train every trial together, and the first one saves.
    """
    from joblib import Parallel, delayed

    if not jobs:
        return
    results.begin()
    # Activations are freed in every step; asking the system for them again takes a tenth of it.
    os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**31))
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2**31))
    together = "TORCHELASTIC_RUN_ID" in os.environ
    parallel = Parallel(1 if together else workers, return_as="generator_unordered")
    calls = (delayed(_run)(trial, name, job) for name, job in jobs.items())
    for done, (name, lines) in enumerate(parallel(calls), 1):
        results.add(lines)
        print(f"{done} of {len(jobs)} done: {name}", flush=True)


def _run(trial: Trial, name: str, job: Line) -> tuple[str, list[Line]]:
    import torch

    torch.set_num_threads(1)  # trials share the cores, and the number of threads changes rounding
    return name, trial(**job)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(["set", "error"], [["wine", "1.0"]]))
    | set | error |
    |---|---|
    | wine | 1.0 |
    """
    shown = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return "\n".join([shown[0], "|" + "---|" * len(heads), *shown[1:]])


def with_spread(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation; the mean alone where there is one value.

    >>> with_spread([10.0, 20.0], 1), with_spread([10.0], 1)
    ('15.0 ± 7.1', '10.0')
    """
    shown = f"{mean(values):.{digits}f}"
    return f"{shown} ± {stdev(values):.{digits}f}" if len(values) > 1 else shown


def read_lines(path: Path) -> list[Line]:
    """The lines of a file of JSON lines; none if there is no such file."""
    return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []


def aligned(text: str) -> str:
    """The same table with columns of equal width, for a terminal.

    >>> print(aligned(table(["set", "error"], [["wine", "1.0"]])))
    set   error
    wine  1.0
    """
    first, _, *rest = (line[2:-2].split(" | ") for line in text.splitlines())
    widths = [max(map(len, column)) for column in zip(first, *rest, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (first, *rest)
    )


def check_choice(name: str, choices: Iterable[str], *given: str) -> None:
    """Refuse words that are none of the choices.

    >>> check_choice("NAME", ["synthetic", "svhn"], "svhn", "syntetic")
    Traceback (most recent call last):
    ValueError: NAME must be one of synthetic, svhn, got 'syntetic'; did you mean 'synthetic'?
    """
    known = list(choices)
    for word in given:
        if word not in known:
            near = get_close_matches(word, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {word!r}{hint}")


def listed(given: str) -> tuple[str, ...]:
    """Words separated by commas.

    >>> listed("lga, vat,")
    ('lga', 'vat')
    """
    return tuple(part.strip() for part in given.split(",") if part.strip())


def commands_for(what: str) -> typer.Typer:
    """The commands of a package, to be filled."""
    return typer.Typer(
        help=what, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )


def typed() -> str:
    """The command as it was typed, for `commands.jsonl`."""
    return shlex.join(["python", *sys.orig_argv[1:]])


def run(command: typer.Typer | Callable[..., None]) -> None:
    """Run a command, or one of several; without --debug an error is one line and no traceback."""
    if not isinstance(command, typer.Typer):
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command()(command)
        return run(single)
    debug = "--debug" in sys.argv
    if not FIRST:
        sys.stdout = io.StringIO()
    try:
        command(args=[argument for argument in sys.argv[1:] if argument != "--debug"])
    except SystemExit as end:
        if end.code == INTERRUPTED:
            typer.echo("stopped; the same command continues with what is missing.", err=True)
        raise
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        if debug:
            raise
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        sys.exit(1)
