"""Small finished runs to review, and the page's server asked without a network."""

import asyncio
import csv
import json

import numpy as np
from PIL import Image

import labelgrad
from labelgrad.review.server import make_app

SCRIPT = "<script>alert(1)</script>"
HOSTILE = '"><img src=x onerror=alert(1)>.png'  # a name that a file can have
SECRET, PORT = "a-secret", 8765
OWN = f"127.0.0.1:{PORT}"


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
    labelgrad.fit(data, target="answer", steps=5, out=folder / "run")
    return folder / "run"


def picture_run(folder, *, count=40, labeled=16):
    """Bright and dark pictures; one class and one file have names that are markup."""
    random, names = np.random.default_rng(0), (SCRIPT, "dark")
    (folder / "pictures").mkdir()
    files = [f"{row:02}.png" if row != labeled else HOSTILE for row in range(count)]
    for row, name in enumerate(files):
        low = 130 if row % 2 == 0 else 0
        pixels = random.integers(low, low + 120, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / name)
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "label"])
        writer.writerows([files[row], names[row % 2]] for row in range(labeled))
    labelgrad.fit(
        folder / "pictures",
        labels=folder / "labels.csv",
        model="mlp-8",
        method="supervised",
        steps=5,
        out=folder / "run",
    )
    return folder / "run"


def digit_run(folder, *, count=300, each=3):
    """Real digits, few of each with a label; and the truth, by file."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.random.default_rng(0).permutation(len(digits.target))[:count]
    (folder / "pictures").mkdir()
    truth, labels = {}, {}
    for row in rows:
        name, digit = f"{row:04}.png", str(digits.target[row])
        pixels = np.round(digits.images[row] * 255 / 16).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / name)
        truth[name] = digit
        if list(labels.values()).count(digit) < each:
            labels[name] = digit
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *labels.items()])
    options = {
        "model": "mlp-32",
        "method": "supervised",
        "steps": 50,
        "witnesses": "linear,neighbours",
    }
    where = folder / "pictures"
    labelgrad.fit(where, labels=folder / "labels.csv", out=folder / "run", **options)
    return folder / "run", truth


class Client:
    """The server's answers, without a network."""

    def __init__(self, desk, secret=SECRET):
        self.app, self.secret = make_app(desk, secret, PORT), secret

    def get(self, path, **headers):
        return self.ask("GET", f"/{self.secret}/{path}", **headers)

    def post(self, path, sent, **headers):
        return self.ask("POST", f"/{self.secret}/{path}", json.dumps(sent).encode(), **headers)

    def ask(self, method, path, body=b"", **headers):
        """Status, headers and content; `body` may be an iterator of parts."""
        given = {"host": OWN} | {name.replace("_", "-"): value for name, value in headers.items()}
        parts = iter([body] if isinstance(body, bytes) else body)
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        sent = []

        async def receive():
            part = next(parts, None)
            if part is None:
                return {"type": "http.disconnect"}
            more = not isinstance(body, bytes)
            return {"type": "http.request", "body": part, "more_body": more}

        async def send(message):
            sent.append(message)

        asyncio.run(self.app(scope, receive, send))
        content = b"".join(message.get("body", b"") for message in sent[1:])
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        if found["content-type"].startswith("application/json"):
            content = json.loads(content)
        return sent[0]["status"], found, content
