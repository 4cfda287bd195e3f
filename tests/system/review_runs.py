"""Small finished runs to review."""

import csv

import numpy as np
from PIL import Image

from labelgrad import fit

SCRIPT = "<script>alert(1)</script>"
HOSTILE = '"><img src=x onerror=alert(1)>.png'  # a name that a file can have
QUICK = {"base_models": "linear,neighbours", "encoder": "none"}


def table_run(folder, *, values=False, rows=60, labeled=24):
    """Two numbers and a note; the label is the sign of the numbers' sum, or the sum."""
    total = (x := np.random.default_rng(0).normal(size=(rows, 2))).sum(1)
    answers = total if values else np.where(total > 0, "dog", "cat")
    data = folder / "data.csv"
    with data.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "note", "answer"])
        for row, pair in enumerate(x):
            note = f"note\nof row {row + 1}"
            writer.writerow([*pair, note, answers[row] if row < labeled else ""])
    fit(data, target="answer", steps=5, out=folder / "run", **QUICK)
    return folder / "run"


def image_run(folder, *, count=40, labeled=16):
    """Bright and dark images; one class and one file have names that are markup."""
    random, names = np.random.default_rng(0), (SCRIPT, "dark")
    (folder / "images").mkdir()
    files = [f"{row:02}.png" if row != labeled else HOSTILE for row in range(count)]
    for row, name in enumerate(files):
        low = 130 if row % 2 == 0 else 0
        pixels = random.integers(low, low + 120, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "label"])
        writer.writerows([files[row], names[row % 2]] for row in range(labeled))
    labels, out = str(folder / "labels.csv"), folder / "run"
    fit(folder / "images", labels=labels, network="mlp-8", steps=5, out=out, **QUICK)
    return out


def digit_run(folder, *, count=300, each=3):
    """Real digits, few of each with a label; and the truth, by file."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.random.default_rng(0).permutation(len(digits.target))[:count]
    (folder / "images").mkdir()
    truth, labels = {}, {}
    for row in rows:
        name, digit = f"{row:04}.png", str(digits.target[row])
        pixels = np.round(digits.images[row] * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "images" / name)
        truth[name] = digit
        if list(labels.values()).count(digit) < each:
            labels[name] = digit
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *labels.items()])
    file, out = str(folder / "labels.csv"), folder / "run"
    fit(folder / "images", labels=file, network="mlp-32", steps=50, out=out, **QUICK)
    return out, truth
