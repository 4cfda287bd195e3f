"""The trainings of a fit share one tensor: none of them copies the data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FIT = """
import gc, re
import numpy as np, torch
from torch import nn
import labelgrad

torch.set_num_threads(1)

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 4, 3, stride=8), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.convolution(x).relu().mean((2, 3)))

def pictures(count):
    x = np.random.default_rng(0).integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8)
    return x, np.where(np.arange(count) < 60, np.arange(count) % 3, -1)

def megabytes(of):
    return int(re.search(of + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def fit(x, y):
    methods = set()
    heard = lambda record: methods.add(record["method"])
    labelgrad.fit(x, y, model=Small(), steps=3, witnesses="", on_record=heard)
    assert methods == {"supervised", "lga-evidence"}

x, y = pictures(4000)
fit(*pictures(200))  # what is imported on the way is not counted, nor what PyTorch sets up
gc.collect()
gc.set_threshold(50)  # nor what is no longer in use
before = megabytes("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak is now
fit(x, y)
print(x.nbytes / 2**20, megabytes("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak there")
def test_ten_trainings_need_less_than_twice_the_pictures():
    # What is freed goes back to the system at once, so that the peak is of memory in use.
    at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    said = subprocess.run(
        [sys.executable, "-c", FIT],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | at_once,
    )
    assert said.returncode == 0, said.stderr
    pictures, peak = map(float, said.stdout.split())
    assert pictures > 11
    assert peak < 2 * pictures
