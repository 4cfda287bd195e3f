"""A training on one of two machines; the second loses its cable in the middle of the first life.

torchrun starts `machines_target.py FOLDER` on both.
"""

import multiprocessing.process
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.distributed.machines import CABLE
from tests.unit.distributed.torchrun_target import training

CUT_AT = 25

if __name__ == "__main__":
    # As one that torchrun starts by a command, not a child of whoever had joined nobody before.
    multiprocessing.process._parent_process = None
    folder, second = Path(sys.argv[1]), os.environ["RANK"] == "1"
    try:
        for record in training(folder / "run"):
            if second and record["step"] == CUT_AT and not (folder / "cut").exists():
                (folder / "cut").touch()
                subprocess.run(["ip", "link", "set", CABLE, "down"], check=True)
    except Exception as error:
        sys.exit(f"ended: {error}")
