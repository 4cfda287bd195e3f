"""Two "machines": network namespaces with an address each and a cable between them."""

import ctypes
import multiprocessing
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import torch._dynamo  # noqa: F401 - which every process would import by itself at its first optimizer
from torch.distributed import run as torchrun

ADDRESSES = ["10.77.0.1", "10.77.0.2"]
CABLE = "cable"  # what either calls its end
TOOLS = ["ip", "unshare", "nsenter"]


def missing():
    """What this system lacks for two machines, or nothing."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"needs the command {' and '.join(absent)} (packages iproute2 and util-linux)"
    try:
        with machines():
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"needs the right to make network namespaces (root, CAP_SYS_ADMIN): {error}"


class Machine:
    """One of the two: a process that sleeps holds its network."""

    def __init__(self):
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo up; exec sleep 300"], stdout=subprocess.PIPE
        )
        if not self._holder.stdout.readline():
            raise OSError("a network of its own was refused")
        self.pid = self._holder.pid

    def do(self, *command):
        """Run a command of the network there."""
        subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", *command], check=True, capture_output=True
        )

    def torchrun(self, log, *words):
        """Start torchrun there, forked from this process, in which PyTorch has begun."""
        process = multiprocessing.get_context("fork").Process(
            target=_torchrun, args=(self.pid, str(log), words)
        )
        process.start()
        return process

    def end(self):
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()


@contextmanager
def machines():
    """Both of them, connected."""
    found = []
    try:
        found.extend(Machine() for _ in ADDRESSES)
        one, two = found
        one.do("ip", "link", "add", CABLE, "type", "veth", "peer", CABLE, "netns", str(two.pid))
        for machine, address in zip(found, ADDRESSES, strict=True):
            machine.do("ip", "address", "add", f"{address}/24", "dev", CABLE)
            for name in (CABLE, "lo"):
                machine.do("ip", "link", "set", name, "up")
        yield found
    finally:
        for machine in found:
            machine.end()


def _torchrun(pid, log, words):
    os.setsid()
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(handle, 0):
        raise OSError(ctypes.get_errno(), "setns")
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    code = 1
    try:
        torchrun.main([str(word) for word in words])
        code = 0
    except BaseException as error:
        sys.stderr.write(f"torchrun: {type(error).__name__} {error}\n")
    os._exit(code)


WORKER = Path(__file__).with_name("machines_target.py")
