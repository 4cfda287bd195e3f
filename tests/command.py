"""The command as tests call it: in a process of its own, or here, where nothing is trained."""

import io
import signal
import subprocess
import sys
import time
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

from labelgrad.cli.app import main

COMMAND = [sys.executable, "-c", "from labelgrad.cli.app import main; main()"]
WAITS_MIDWAY = str(Path(__file__).with_name("waits_midway.py"))
QUICK = ["--witnesses", "linear,neighbours"]  # those that `conftest` leaves


def labelgrad(*arguments, cwd=None):
    """As a person would, in a new process, but that `fit` hears few witnesses: it takes seconds."""
    if arguments[:1] == ("fit",) and "--witnesses" not in arguments:
        arguments = [*arguments, *QUICK]
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)


def labelgrad_here(*arguments, cwd=None):
    """The same in this process, which has PyTorch already: one process less has to begin."""
    arguments, before = [str(argument) for argument in arguments], (sys.argv, warnings.showwarning)
    sys.argv, code = ["labelgrad", *arguments], 0
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            sys.argv, warnings.showwarning = before
    return CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def hear_ctrl_c():
    """Before a child begins: tests in the background of a shell ignore the signal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def one_sentence(said):
    """What a refusal said: one line, no traceback."""
    assert said.returncode == 1, said.stderr
    assert "Traceback" not in said.stderr
    lines = said.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("labelgrad: ")
    return lines[0]


def start_and_wait_midway(*arguments, cwd):
    """The command in a process of its own, once it has got to step 25 and stands still."""
    process = subprocess.Popen(
        [sys.executable, WAITS_MIDWAY, *map(str, arguments), *QUICK],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )
    kept = "run/checkpoint/all-labels-{}/checkpoints/step-*25.safetensors"
    ends = time.monotonic() + 300
    while not all(list(cwd.glob(kept.format(name))) for name in ("supervised", "lga-evidence")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends, "step 25 was not reached"
        time.sleep(0.02)
    return process
