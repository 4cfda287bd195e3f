"""The command as a person runs it: another process, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def labelgrad(arguments, *, cwd, timeout=300, **environment):
    """Run the command and give what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "labelgrad", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"} | environment,
    )


def run_ok(arguments, *, cwd, **options):
    """Run the command, which must succeed, and give its output."""
    done = labelgrad(arguments, cwd=cwd, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
