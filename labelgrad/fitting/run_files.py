"""What the files of a run folder are called; this can be read without PyTorch."""

from __future__ import annotations

SUMMARY, LABELS, HELD_OUT, METRICS = "result.json", "labels.csv", "held_out.npz", "metrics.jsonl"
REPORT, EXAMPLES = "report.html", "examples.csv"
CONFIG, MODEL = "config.json", "model.safetensors"
BEFORE = "before-corrections"  # the result before the last ones, in a folder of its own
HALF = f".{BEFORE}.partial"  # where it is put together
SAID_BY = "said by "  # before the name, of what somebody said about held-out labels
FOLD, FOLD_MEANS = "fold", "means by fold"  # of labels drawn at random, and of unlabeled rows
