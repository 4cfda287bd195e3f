"""Labels to use, labels to look at, and the way of a correction back into a run."""

import csv
import hashlib
import re
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import labelgrad
from labelgrad.fitting.corrections import (
    BEFORE,
    FILE,
    HALF,
    Known,
    corrected,
    read_corrections,
    restart_if_corrected,
    take_corrections,
)
from labelgrad.fitting.labels import NEIGHBOURS, nearest
from labelgrad.fitting.plan import load_plan
from labelgrad.fitting.review import review_queue, sure_labels
from labelgrad.inputs.kinds import read
from tests.command import labelgrad as command
from tests.command import labelgrad_here, one_sentence, start_and_wait_midway
from tests.test_cli import gone

RESULT = ("config.json", "model.safetensors", "labels.csv", "examples.csv", "metrics.jsonl")


def table(path, *, rows=60, labeled=24, values=False):
    """Two numbers; the label is the sign of their sum, or the sum."""
    total = (x := np.random.default_rng(0).normal(size=(rows, 2))).sum(1)
    answers = total if values else np.where(total > 0, "dog", "cat")
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "answer"])
        for row, pair in enumerate(x):
            writer.writerow([*pair, answers[row] if row < labeled else ""])
    return path


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_csv(path, text):
    path.write_text(text)
    return path


def contents(folder):
    """Every file of a folder with a digest of what is in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finished runs, of classes and of values, that tests may copy."""
    folder = tmp_path_factory.mktemp("labels")
    for name, values in (("pets", False), ("weights", True)):
        data = table(folder / f"{name}.csv", values=values)
        labelgrad.fit(data, target="answer", steps=10, out=folder / name)
    return folder


@pytest.fixture
def place(finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


# Neighbours, sure labels, doubtful labels


def test_neighbours_are_those_of_a_plain_sort_without_oneself():
    points = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    points[7] = points[3]  # one place, two examples
    rows = torch.arange(0, 40, 3)
    found = nearest(points, rows, torch.arange(40))
    for row, mine in zip(rows.tolist(), found, strict=True):
        away = (points - points[row]).norm(dim=1)
        away[row] = torch.inf
        assert set(mine.tolist()) == set(away.argsort()[:NEIGHBOURS].tolist())


def test_what_the_neighbours_say_is_what_a_loop_over_the_file_finds(finished):
    result = labelgrad.load(finished / "pets")
    x = read(finished / "pets.csv", target="answer").x.numpy()
    labels = [example.given for example in result.examples]
    for row in result.labels:
        labels[int(row.name) - 1] = row.label
    for place, example in enumerate(result.examples):
        if example.given is not None:
            assert example.apart is None
            continue
        away = ((x - x[place]) ** 2).sum(1)
        around = [labels[other] for other in away.argsort()[1 : NEIGHBOURS + 1]]
        different = sum(label != labels[place] for label in around) / NEIGHBOURS
        assert example.apart == pytest.approx(different)
        assert around.count(example.neighbours) >= NEIGHBOURS / 2


def test_sure_labels_are_agreed_on_and_as_sure_as_asked(finished):
    result = labelgrad.load(finished / "pets")
    limit = sorted(r.prediction_probability for r in result.labels)[len(result.labels) // 2]
    sure = sure_labels(result, limit)
    wanted = [
        row.name
        for row in result.labels
        if row.label == row.prediction
        and row.label_probability >= limit
        and row.prediction_probability >= limit
    ]
    assert [row.name for row in sure] == wanted
    agreed = [row.name for row in result.labels if row.agree]
    assert [row.name for row in sure_labels(result, 0)] == agreed


def test_the_most_doubtful_come_first_and_each_says_why(finished):
    result = labelgrad.load(finished / "pets")
    names = [row.name for row in result.labels]
    labels = [replace(row, agree=n not in (3, 5)) for n, row in enumerate(result.labels)]
    examples = [
        replace(
            example,
            apart=0.7 if names.index(example.name) in (5, 8) else 0.2,
            margin=0.01 if names.index(example.name) == 11 else 0.5,
        )
        for example in result.examples
        if example.name in names
    ]
    result = replace(result, labels=labels, examples=examples)
    found = review_queue(result, 4)
    assert [names.index(item.name) for item in found] == [5, 3, 8, 11]
    reasons = ["model and 70% of neighbours differ", "model differs"]
    assert [f.reason for f in found] == [*reasons, "70% of neighbours differ", "small margin"]
    assert [f.name for f in review_queue(result, 3, leave_out={found[0].name})] == [
        f.name for f in found[1:]
    ]


def test_values_are_looked_at_by_how_far_they_are(finished):
    found = review_queue(labelgrad.load(finished / "weights"), 50)
    assert len(found) == 36
    assert all(isinstance(look.neighbours, float) for look in found)
    quiet = [look for look in found if "agree" in look.reason]
    far = [max(abs(q.label - q.prediction), abs(q.label - q.neighbours)) for q in quiet]
    assert far == sorted(far, reverse=True)


def test_the_command_writes_both_files_and_the_filled_in_one_comes_back(place):
    said = command(
        *("labels", "pets", "--above", 0.5, "--out", "sure.csv", "--look", 3),
        *("--look-out", "look.csv"),
        cwd=place,
    )
    assert said.returncode == 0, said.stderr
    assert "Worth a look" in said.stdout
    sure = len(sure_labels(labelgrad.load(place / "pets"), 0.5))
    assert f"{sure} of 36 imputed labels are 0.5 sure or more: sure.csv" in said.stdout
    assert list(read_csv(place / "sure.csv")[0]) == ["row", "label", "probability"]
    look = read_csv(place / "look.csv")
    assert len(look) == 3
    assert [row["label"] for row in look] == ["", "", ""]
    assert all(row["reason"] for row in look)
    lines = (place / "look.csv").read_text().splitlines()
    lines[2] = lines[2].replace(f"{look[1]['row']},,", f"{look[1]['row']},dog,", 1)
    (place / "look.csv").write_text("\n".join(lines))
    assert take_corrections(labelgrad.load(place / "pets"), place / "look.csv") == (1, 1)
    again = review_queue(labelgrad.load(place / "pets"), 3, leave_out={look[1]["row"]})
    said = command("labels", "pets", "--look", 3, "--look-out", "next.csv", cwd=place)
    assert [row["row"] for row in read_csv(place / "next.csv")] == [look.name for look in again]


# Corrections


def test_corrections_are_merged_and_the_newest_counts(place):
    result = labelgrad.load(place / "pets")
    had = {example.name: example.given for example in result.examples}
    other = "cat" if had["1"] == "dog" else "dog"
    first = write_csv(place / "a.csv", f"row,label\n30,dog\n31,cat\n2,{had['2']}\n1,{other}\n")
    assert take_corrections(result, first) == (3, 3), "row 2 has that label already"
    second = write_csv(place / "b.csv", "label;row;note\ndog;31;sure\ndog;30;\n;32;not yet\n")
    assert take_corrections(result, second) == (1, 3)
    kept = {row["row"]: row["label"] for row in read_csv(place / "pets" / FILE)}
    assert kept == {"1": other, "30": "dog", "31": "dog"}
    source = read(place / "pets.csv", target="answer")
    changed = corrected(source, place / "pets")
    assert changed.summary["labeled"] == 26
    assert [changed.classes[changed.y[row - 1]] for row in (1, 30, 31)] == [other, "dog", "dog"]
    untouched = [row for row in range(60) if row + 1 not in (1, 30, 31)]
    assert torch.equal(changed.y[untouched], source.y[untouched])
    assert source.summary["labeled"] == 24


def test_values_are_corrected_too(place):
    more = write_csv(place / "more.csv", "row,label\n40,2.5\n")
    assert take_corrections(labelgrad.load(place / "weights"), more) == (1, 1)
    changed = corrected(read(place / "weights.csv", target="answer"), place / "weights")
    assert changed.y[39] == 2.5


def test_pictures_go_the_same_way(tmp_path):
    rng = np.random.default_rng(0)
    for name in [f"{k}/{i}" for k in ("a", "b", "unlabeled") for i in range(4)]:
        path = tmp_path / "album" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8)).astype("uint8")).save(path)
    result = labelgrad.fit(tmp_path / "album", steps=2, out=tmp_path / "run")
    assert {item.name for item in review_queue(result)} == {f"unlabeled/{i}.png" for i in range(4)}
    more = write_csv(tmp_path / "more.csv", "file,label\n./unlabeled/1.png,a\n")
    assert take_corrections(result, more) == (1, 1)
    again = labelgrad.fit(tmp_path / "album", out=tmp_path / "run", resume=True)
    assert again.summary.counts.classes == {"a": 5, "b": 4}


def test_a_correction_goes_round_and_nothing_outside_the_run_is_touched(place):
    before = labelgrad.load(place / "pets")
    write_csv(place / "more.csv", "row,label\n30,dog\n31,cat\n1,dog\n2,dog\n")
    outside = {k: v for k, v in contents(place).items() if not k.startswith("pets/")}
    said = command("labels", "pets", "--corrections", "more.csv", cwd=place)
    assert said.returncode == 0, said.stderr
    assert "--resume" in said.stdout
    order = ("fit", "pets.csv", "--target", "answer", "--out", "pets")
    assert "--resume" in command(*order, cwd=place).stderr
    said = command(*order, "--resume", cwd=place)
    assert said.returncode == 0, said.stderr
    assert "26 labeled, 34 unlabeled" in said.stdout
    after = labelgrad.load(place / "pets")
    names = [{row.name for row in result.labels} for result in (before, after)]
    assert names[0] - names[1] == {"30", "31"}
    has = {example.name: example.given for example in after.examples}
    assert [has[name] for name in ("30", "31", "1", "2")] == ["dog", "cat", "dog", "dog"]
    assert after.summary.counts.labeled == 26
    assert after.summary.plan == before.summary.plan
    kept = labelgrad.load(place / "pets" / BEFORE)
    assert kept.labels == before.labels
    assert {k: v for k, v in contents(place).items() if not k.startswith("pets/")} == outside
    finished = contents(place / "pets")
    model = finished["model.safetensors"]
    assert command(*order, "--resume", cwd=place).returncode == 0
    assert contents(place / "pets")["model.safetensors"] == model, "there was nothing new"
    assert not (place / "pets" / HALF).exists()


def test_a_run_from_corrections_is_one_from_data_that_had_these_labels(place):
    write_csv(place / "more.csv", "row,label\n30,dog\n31,cat\n")
    take_corrections(labelgrad.load(place / "pets"), place / "more.csv")
    again = labelgrad.fit(place / "pets.csv", target="answer", out=place / "pets", resume=True)
    lines = (place / "pets.csv").read_text().splitlines()
    lines[30], lines[31] = lines[30] + "dog", lines[31] + "cat"
    (place / "pets.csv").write_text("\n".join(lines))
    fresh = labelgrad.fit(place / "pets.csv", target="answer", steps=10)
    assert fresh.labels == again.labels
    for one, other in zip(
        fresh.predictor.model.parameters(), again.predictor.model.parameters(), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("moves", range(12))
def test_setting_aside_can_be_cut_off_anywhere_and_is_repeated(place, monkeypatch, moves):
    run, source = place / "pets", read(place / "pets.csv", target="answer")
    before = contents(run)
    write_csv(place / "more.csv", "row,label\n30,dog\n")
    take_corrections(labelgrad.load(run), place / "more.csv")
    whole, left = type(run).replace, moves

    def failing(self, target):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return whole(self, target)

    monkeypatch.setattr(type(run), "replace", failing)
    cut_off = False
    try:
        restart_if_corrected(run, load_plan(run, source), source)
    except KeyboardInterrupt:
        cut_off = True
    monkeypatch.undo()
    if moves < 3:
        assert cut_off
        assert moves == 0 or not (run / "config.json").exists(), "the old model is not in use"
    restart_if_corrected(run, load_plan(run, source), source)
    after = contents(run)
    for name in RESULT:
        assert after[f"{BEFORE}/{name}"] == before[name]
        assert name not in after
    assert after[f"{BEFORE}/plan.json"] == before["plan.json"]
    assert not (run / "checkpoint").exists()
    assert not (run / HALF).exists()


def test_a_second_round_replaces_the_result_before(place):
    for row, label in ((30, "dog"), (31, "cat")):
        write_csv(place / "more.csv", f"row,label\n{row},{label}\n")
        last = labelgrad.load(place / "pets")
        take_corrections(last, place / "more.csv")
        again = labelgrad.fit(place / "pets.csv", target="answer", out=place / "pets", resume=True)
    assert again.summary.counts.labeled == 26
    assert labelgrad.load(place / "pets" / BEFORE).summary.counts.labeled == 25
    assert not (place / "pets" / BEFORE / BEFORE).exists()


def test_when_everything_is_labeled_the_supervised_model_is_left(place):
    rows = "".join(f"{row},{'dog' if row % 2 else 'cat'}\n" for row in range(25, 61))
    write_csv(place / "more.csv", "row,label\n" + rows)
    take_corrections(labelgrad.load(place / "pets"), place / "more.csv")
    again = labelgrad.fit(place / "pets.csv", target="answer", out=place / "pets", resume=True)
    assert again.labels == []
    assert "no unlabeled data" in again.verdict
    assert review_queue(again) == []


@pytest.mark.slow
def test_killed_during_the_second_fit_it_goes_on_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "pets.csv")
    order = {"data": "pets.csv", "target": "answer"}
    result = labelgrad.fit(**order, steps=75, out=tmp_path / "run")
    take_corrections(result, write_csv(tmp_path / "more.csv", "row,label\n30,dog\n31,cat\n"))
    shutil.copytree(tmp_path / "run", tmp_path / "undisturbed")
    labelgrad.fit(**order, out=tmp_path / "undisturbed", resume=True)
    arguments = ("fit", "pets.csv", "--target", "answer", "--out", "run", "--resume")
    process = start_and_wait_midway(*arguments, cwd=tmp_path)
    assert not (tmp_path / "run" / "config.json").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert gone(process.pid)
    assert "no finished run" in labelgrad_here("labels", "run").stderr
    again = labelgrad.fit(**order, out=tmp_path / "run", resume=True)
    assert again.summary.counts.labeled == 26
    one, other = contents(tmp_path / "run"), contents(tmp_path / "undisturbed")
    for name in (*RESULT, f"{BEFORE}/labels.csv", f"{BEFORE}/model.safetensors"):
        assert one[name] == other[name], name


# Bad input


@pytest.mark.parametrize(
    ("run", "text", "said"),
    [
        ("pets", "row,label\n30,dgo\n", "did you mean 'dog'?"),
        ("pets", "row,label\n30,Dog\n", "did you mean 'dog'?"),
        ("pets", "row,label\n30,zebra\n", "the classes are 'cat', 'dog'"),
        ("pets", "row,label\n30,dog\n30,cat\n", "two labels: 'dog', and 'cat' on line 3"),
        (
            "pets",
            "row,label\n" + "".join(f"{n},dog\n" for n in range(61, 70)),
            "9 examples that are not in the data: '61', '62', '63', '64', '65' and 4 more",
        ),
        ("pets", "file,label\n30,dog\n", "must have the columns row and label, got 'file'"),
        ("pets", "", "is empty: it must have the columns row and label"),
        ("pets", "row,label\n30,dog,3\n", "broken on line 2"),
        ("pets", 'row,label\n"30', "broken"),
        ("pets", "row,label\n30,\0\n", "zero byte"),
        ("weights", "row,label\n30,heavy\n", "finite numbers as labels, got 'heavy'"),
        ("weights", "row,label\n30,inf\n", "finite numbers as labels, got 'inf'"),
        ("weights", "row,label\n30,nan\n", "finite numbers as labels, got 'nan'"),
    ],
)
def test_a_bad_correction_is_one_sentence_and_none_is_kept(finished, tmp_path, run, text, said):
    more = write_csv(tmp_path / "more.csv", text)
    with pytest.raises(ValueError, match=re.escape(said)):
        take_corrections(labelgrad.load(finished / run), more)
    assert not (finished / run / FILE).exists()


@settings(max_examples=300)
@given(st.binary(max_size=12), st.integers(0, 26), st.integers(0, 26))
def test_damaged_bytes_are_an_error_of_one_line_or_corrections(tmp_path_factory, put, start, end):
    whole = b"file,label\na.png,cat\nb,dog\n"
    path = tmp_path_factory.getbasetemp() / "damaged.csv"
    path.write_bytes(whole[:start] + put + whole[end:])
    said, found = "", {}
    try:
        found = read_corrections(path, Known("file", {"a.png", "b"}, ("cat", "dog")))
    except ValueError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1
    assert found.keys() <= {"a.png", "b"}
    assert set(found.values()) <= {"cat", "dog"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["labels", "nowhere"], "no run folder"),
        (["labels", "."], "no finished run"),
        (["labels", "pets", "--above", "2", "--out", "sure.csv"], "from 0 to 1, got 2"),
        (["labels", "weights", "--out", "sure.csv"], "Values have no probability"),
        (["labels", "pets", "--corrections", "no.csv"], "no file of corrections no.csv"),
        (["labels", "pets", "--out", "weights"], "could not be written"),
    ],
)
def test_bad_input_is_one_sentence(finished, arguments, said):
    assert said in one_sentence(labelgrad_here(*arguments, cwd=finished))
    assert not (finished / "sure.csv").exists()


def test_corrections_that_leave_one_class_or_do_not_fit_the_data_are_refused(place):
    rows = "".join(f"{row},dog\n" for row in range(1, 25))
    write_csv(place / "pets" / FILE, "row,label\n" + rows)
    before = contents(place / "pets")
    with pytest.raises(ValueError, match="every label is the same"):
        labelgrad.fit(place / "pets.csv", target="answer", out=place / "pets", resume=True)
    write_csv(place / "pets" / FILE, "row,label\n99,dog\n")
    said = command(
        *("fit", "pets.csv", "--target", "answer", "--out", "pets", "--resume"), cwd=place
    )
    assert "1 examples that are not in the data" in one_sentence(said)
    (place / "pets" / FILE).unlink()
    before.pop(FILE)
    assert contents(place / "pets") == before


def test_a_file_that_is_missing_is_said_and_comes_back_with_the_next_fit(place):
    (place / "pets" / "examples.csv").unlink()
    with pytest.raises(ValueError, match=r"examples.csv cannot be read .*fit again"):
        labelgrad.load(place / "pets")
    again = labelgrad.fit(place / "pets.csv", target="answer", out=place / "pets", resume=True)
    assert review_queue(again)
    assert not (place / "pets" / BEFORE).exists()


def test_help_fits_a_screen_and_shows_an_example(tmp_path):
    for name in ("labels", "fit"):
        said = labelgrad_here(name, "--help", cwd=tmp_path)
        assert f"Example: labelgrad {name}" in said.stdout
        assert len(said.stdout.splitlines()) < 60
