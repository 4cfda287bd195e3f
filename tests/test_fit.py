"""From data to a run folder: what is compared, what is kept, and what it takes to go on."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import chdir
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import labelgrad
from labelgrad import files as whole_file
from labelgrad.augment.views import Noise
from labelgrad.fitting.cross_validation import ENOUGH, CrossValidation, held_out_folds
from labelgrad.fitting.plan import Plan, learning_rate, make_plan, views
from labelgrad.fitting.verdict import Answers, judge, temperature
from labelgrad.inputs.kinds import read
from labelgrad.schedules import Drop
from labelgrad.training.evaluation import calibration_error
from tests.command import labelgrad as command
from tests.command import labelgrad_here, one_sentence, start_and_wait_midway


def table(path, *, rows=80, labeled=24, values=False):
    """Two numbers and a word; the label is the sign of their sum, or the sum."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    total = x.sum(1) + 0.1 * rng.normal(size=rows)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["first", "second", "word", "answer"])
        for row, (a, b) in enumerate(x):
            answer = 100 + 10 * total[row] if values else ("dog" if total[row] > 0 else "cat")
            writer.writerow([a, b, "even" if row % 2 else "odd", answer if row < labeled else ""])
    return path


def album(folder, *, labeled=6, unlabeled=12):
    """Pictures that are bright on the left or on the right."""
    rng = np.random.default_rng(0)
    for kind, half in (("left", slice(0, 4)), ("right", slice(4, 8))):
        for number in range(labeled + unlabeled):
            pixels = rng.integers(0, 100, size=(8, 8))
            pixels[:, half] += 120
            place = folder / (kind if number < labeled else "unlabeled")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype("uint8")).save(place / f"{kind}-{number}.png")
    return folder


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# What is held out


def test_every_label_is_held_out_once_and_every_class_stays_in_training():
    y = torch.tensor([0] * 9 + [1] * 2 + [2] * 5 + [3])
    folds = held_out_folds(y, seed=1)
    assert sorted(torch.cat(folds).tolist()) == list(range(16)), "all but the only label of class 3"
    for fold in folds:
        rest = np.delete(y.numpy(), fold.numpy())
        assert set(rest.tolist()) == {0, 1, 2, 3}
    assert [len(fold) for fold in folds] == [4, 4, 4, 4]


def test_folds_of_values_have_about_the_same_mean():
    y = torch.arange(40.0)
    assert all(abs(y[fold].mean() - y.mean()) < 2 for fold in held_out_folds(y, seed=0))


def test_many_labels_need_one_fold_only():
    y = torch.arange(ENOUGH) % 2
    (fold,) = held_out_folds(y, seed=0)
    assert len(fold) == ENOUGH // 4


def test_classes_of_one_label_each_leave_nothing_to_hold_out():
    assert held_out_folds(torch.tensor([0, 1, 2]), seed=0) == []


# What is found


def test_a_difference_that_is_there_is_found_and_one_that_is_not_is_called_chance():
    rng = np.random.default_rng(0)
    bad, good = (rng.random(400) < 0.3).astype(float), (rng.random(400) < 0.1).astype(float)
    found = judged(linear=bad, pool=good)
    assert found.beside == "linear"
    assert 0 < found.difference.low < found.difference.value < found.difference.high
    assert "helped:" in found.sentence
    chance = judged(linear=np.append(bad[:9], 1), pool=np.append(bad[:9], 0))
    assert "chance" in chance.sentence


def judged(**wrong):
    """A verdict on witnesses that are wrong about these labels; the first saw labels alone."""
    role = dict(zip(wrong, ("labels", "unlabeled"), strict=False)) | {"pool": "pool"}
    y = torch.zeros(len(next(iter(wrong.values()))), dtype=torch.long)
    answers = [
        Answers(name, role[name], 2.0 * torch.nn.functional.one_hot(torch.tensor(mine).long(), 2))
        for name, mine in wrong.items()
    ]
    helped = Answers("neighbours", "unlabeled", answers[0].outputs)
    if "pool" not in wrong:
        answers.append(replace(answers[0], name="pool", role="pool"))
    return judge("classification", y, [*answers, helped], kept=answers[-1].name)


def test_unlabeled_data_that_do_not_help_are_said_not_to():
    found = judged(linear=np.array([0.0, 0, 1, 0]), pool=np.array([1.0, 0, 1, 0]))
    assert "made no difference that shows" in found.sentence
    harm = judged(linear=np.zeros(100), pool=np.array([1.0] * 30 + [0.0] * 70))
    assert "did harm" in harm.sentence


def test_no_error_at_all_is_not_called_certain():
    estimate = judged(linear=np.zeros(30)).row("linear").error
    assert (estimate.value, estimate.low) == (0, 0)
    assert 0.05 < estimate.high < 0.15  # three in thirty, by the rule of three


def test_the_interval_of_an_error_is_about_the_binomial_one():
    estimate = judged(linear=np.array([1.0] * 20 + [0.0] * 80)).row("linear").error
    half = 1.96 * (0.2 * 0.8 / 100) ** 0.5
    assert estimate.low == pytest.approx(0.2 - half, abs=0.015)
    assert estimate.high == pytest.approx(0.2 + half, abs=0.015)


def test_the_temperature_undoes_a_known_one():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4000, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    found = temperature(3 * logits, labels)
    assert found == pytest.approx(3, rel=0.1)
    before = calibration_error((3 * logits).softmax(-1), labels)
    assert calibration_error((3 * logits / found).softmax(-1), labels) < before / 3


# Whole fits, from each kind of data


def test_a_table_gives_a_folder_and_predictions_of_it_are_those_in_labels_csv(tmp_path):
    data = table(tmp_path / "pets.csv")
    said = command("fit", data, "--target", "answer", "--steps", 60, "--out", "run", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "24 labeled, 56 unlabeled" in said.stdout
    assert "held-out labels" in said.stdout
    run = tmp_path / "run"
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "model.safetensors", "labels.csv", "metrics.jsonl", "checkpoint"} < names
    labels = read_csv(run / "labels.csv")
    assert [row["row"] for row in labels] == [str(number) for number in range(25, 81)]
    said = command("predict", run, data, "--out", "p.csv", "--all-classes", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    predicted = {row["row"]: row for row in read_csv(tmp_path / "p.csv")}
    assert len(predicted) == 80
    for row in labels:
        other = predicted[row["row"]]
        assert row["prediction"] == other["prediction"]
        assert float(row["prediction_probability"]) == pytest.approx(
            float(other["probability"]), abs=1e-6
        )
        assert float(other["cat"]) + float(other["dog"]) == pytest.approx(1, abs=2e-6)
    again = labelgrad.load(run)
    inside = again.predict(data)
    assert inside.columns(all_classes=True) == {
        name: [row[name] for row in predicted.values()] for name in predicted["1"]
    }
    assert [row.label for row in again.labels] == [row["label"] for row in labels]


def test_pictures_gray_and_small(tmp_path):
    folder = album(tmp_path / "album")
    result = labelgrad.fit(folder, steps=8, out=tmp_path / "run")
    assert result.predictor.config.network == "wrn-10-1"
    assert {row.name.split("/")[0] for row in result.labels} == {"unlabeled"}
    assert len(result.labels) == 24
    again = labelgrad.load(tmp_path / "run").predict(folder)
    assert again.columns() == result.predict(folder).columns()
    assert result.predictor.config.method == "student"
    assert {row.visits is not None for row in result.labels} == {True}


def test_values_come_back_in_their_own_units(tmp_path):
    data = table(tmp_path / "weights.csv", values=True)
    truth = [100 + 10 * (float(row["first"]) + float(row["second"])) for row in read_csv(data)]
    result = labelgrad.fit(data, target="answer", steps=150, out=tmp_path / "run")
    assert result.summary.task == "regression"
    wrong = np.array(result.predict(data).labels) - truth
    assert np.sqrt((wrong**2).mean()) < np.std(truth) / 2
    held_out = result.summary.verdict.row(result.predictor.config.method).error.value
    assert held_out < np.std(truth) / 2
    columns = labelgrad.load(tmp_path / "run").predict(data).columns()
    assert list(columns) == ["row", "prediction", "low", "high"]
    assert isinstance(labelgrad.load(tmp_path / "run").labels[0].label, float)


def test_an_npz_file_and_the_arrays_in_it_give_the_same_model(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.where(np.arange(60) < 16, x[:, 0] > 0, -1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    from_file = labelgrad.fit(tmp_path / "data.npz", steps=20)
    from_arrays = labelgrad.fit(x, y, steps=20)
    for one, other in zip(
        from_file.predictor.model.parameters(),
        from_arrays.predictor.model.parameters(),
        strict=True,
    ):
        assert torch.equal(one, other)
    assert from_arrays.predict(x).labels == from_file.predict(tmp_path / "data.npz").labels


def test_an_own_network_is_given_again_to_be_loaded(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = np.where(np.arange(40) < 16, x[:, 0] > 0, -1)
    own = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    before = [p.clone() for p in own.parameters()]
    result = labelgrad.fit(x, y, model=own, steps=10, out=tmp_path / "run")
    assert all(torch.equal(a, b) for a, b in zip(before, own.parameters(), strict=True))
    with pytest.raises(ValueError, match="network of your own"):
        labelgrad.load(tmp_path / "run")
    again = labelgrad.load(tmp_path / "run", model=own)
    assert torch.equal(again.predict(x).values, result.predict(x).values)


def test_the_baseline_starts_from_the_same_weights_and_all_labels_are_learned(tmp_path):
    data = table(tmp_path / "pets.csv")
    result = labelgrad.fit(data, target="answer", steps=40)
    summary = result.summary
    assert summary.verdict.examples == 24
    assert summary.folds == 4
    networks = {"network by supervised", "network by lga-evidence"}
    assert networks < {row.name for row in summary.verdict.rows}
    points = [point for point in summary.curves if point.step == 40]
    assert [point.method for point in points] == ["supervised", "lga-evidence"]
    for point in points:
        value = summary.verdict.row(f"network by {point.method}").error.value
        assert point.error == pytest.approx(value), "the curve ends where the verdict is"
    assert [point.gap is None or point.cosine is None for point in points] == [True, False]


def test_without_unlabeled_rows_the_supervised_model_is_the_only_one(tmp_path):
    data = table(tmp_path / "pets.csv", rows=24)
    result = labelgrad.fit(data, target="answer", steps=10)
    assert result.labels == []
    assert "no unlabeled data" in result.verdict
    assert result.predictor.config.method == "network by supervised"


def test_one_label_of_each_class_is_enough_to_train_and_nothing_is_claimed(tmp_path):
    result = labelgrad.fit(np.eye(8), np.array([0, 1, -1, -1, -1, -1, -1, -1]), steps=5)
    assert "nothing was compared" in result.verdict
    assert result.predictor.config.temperature == 1


def test_the_notebook_table_cannot_be_injected():
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = np.array(["<b>a", "c"] * 8 + [""] * 14)
    result = labelgrad.fit(x, y, steps=5)
    rows = result.summary.verdict.rows
    rows = [*rows, replace(rows[-1], name="<script>")]
    verdict = replace(result.summary.verdict, rows=rows, kept="<script>")
    result = replace(result, summary=replace(result.summary, verdict=verdict))
    assert "<script>" in result.verdict
    assert "<script>" not in result._repr_html_()
    assert {row.label for row in result.labels} <= {"<b>a", "c"}


def test_a_time_budget_finds_the_steps(tmp_path):
    data = table(tmp_path / "pets.csv")
    began = time.monotonic()
    result = labelgrad.fit(data, target="answer", time_budget=0.05)
    assert result.summary.plan.steps > 1
    assert time.monotonic() - began < 30


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(tmp_path):
    data = table(tmp_path / "pets.csv")
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        labelgrad.fit(data, target="answer", steps=10, seed=seed, out=tmp_path / name)
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b != c


def small_arrays(*, values=False):
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    truth, hidden = (x.sum(1), np.nan) if values else (x.sum(1) > 0, -1)
    return x, np.where(np.arange(60) < 20, truth, hidden)


def test_only_methods_that_compare_views_see_noisy_rows_and_their_rate_never_drops():
    dataset = read(*small_arrays())
    plan = make_plan(dataset, steps=10)
    for method in ("supervised", "lga", "lga-evidence", "lga-evidence+vat"):
        assert views(method, plan, dataset) is None
    for method in ("pi-model", "mean-teacher", "lga+fixmatch", "softmatch"):
        assert isinstance(views(method, plan, dataset), Noise)
    assert learning_rate(plan, dataset) == 1e-3
    pictures = read(np.zeros((8, 8, 8), dtype=np.uint8), np.array([0, 1] * 3 + [-1] * 2))
    assert views("supervised", plan, pictures) is not None
    assert isinstance(learning_rate(plan, pictures), Drop)


def test_a_person_is_told_of_the_data_of_the_progress_and_of_every_step():
    told, progress, records = [], [], []
    labelgrad.fit(
        *small_arrays(),
        steps=6,
        on_data=told.append,
        on_progress=lambda *said: progress.append(said),
        on_record=records.append,
    )
    assert [dataset.summary["labeled"] for dataset in told] == [20]
    last = {name: (done, total) for name, done, total, _ in progress}
    assert last["training"] == (60, 60), "two methods, on four folds and on all labels"
    assert last["student"] == (30, 30), "on four folds and on all labels"
    assert last["witnesses"][0] == last["witnesses"][1] > 0
    steps = [(record["part"], record["method"], record["step"]) for record in records]
    assert len(set(steps)) == 60
    assert {method for _, method, _ in steps} == {"supervised", "lga-evidence"}
    assert all("lga/gap" in record for record in records if record["method"] == "lga-evidence")


def test_several_processes_give_the_same_result_without_a_folder():
    x, y = small_arrays()
    heard = set()
    alone = labelgrad.fit(x, y, steps=10)
    together = labelgrad.fit(
        x, y, steps=10, workers=2, on_progress=lambda name, *_: heard.add(name)
    )
    assert heard == {"training 1/2", "training 2/2", "witnesses", "student"}
    assert together.labels == alone.labels
    assert together.verdict == alone.verdict
    with pytest.raises(ValueError, match="`on_record` needs the training in this process"):
        labelgrad.fit(x, y, steps=10, workers=2, on_record=print)
    with pytest.raises(ValueError, match="`workers` must be at least 1"):
        labelgrad.fit(x, y, steps=10, workers=0)


@pytest.mark.parametrize("values", [False, True])
def test_a_summary_comes_back_as_it_was_written(tmp_path, values):
    result = labelgrad.fit(*small_arrays(values=values), steps=10, out=tmp_path / "run")
    again = labelgrad.load(tmp_path / "run")
    assert again.summary == result.summary
    assert [row.name for row in again.labels] == [row.name for row in result.labels]
    assert again.summary.to_json() == json.loads((tmp_path / "run" / "result.json").read_text())


def test_labels_go_into_a_table_as_they_are():
    pandas = pytest.importorskip("pandas")
    result = labelgrad.fit(*small_arrays(), steps=5)
    frame = pandas.DataFrame(result.labels)
    assert list(frame.columns[:3]) == ["name", "label", "label_probability"]
    assert len(frame) == 40


# Stopping and going on


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of 75 steps that nobody stopped, with the data it was made from."""
    folder = tmp_path_factory.mktemp("undisturbed")
    table(folder / "pets.csv")
    with chdir(folder):
        labelgrad.fit("pets.csv", target="answer", steps=75, out="run")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_or_stopped_it_goes_on_to_the_same_bytes(tmp_path, undisturbed, how):
    shutil.copy(undisturbed / "pets.csv", tmp_path)
    order = ("fit", "pets.csv", "--target", "answer", "--steps", 75, "--out", "run")
    process = start_and_wait_midway(*order, cwd=tmp_path)
    process.send_signal(how)
    said, _ = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert b"Stopped at step" in said
        stopped = labelgrad.load(tmp_path / "run")
        assert 0 < stopped.summary.step < 75
        assert len(stopped.predict(tmp_path / "pets.csv")) == 80
    else:
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "run" / "model.safetensors").exists()
    assert "holds a run already" in labelgrad_here(*order, cwd=tmp_path).stderr
    if how == signal.SIGINT:  # by the library, and so in one process
        labelgrad.fit(
            tmp_path / "pets.csv", target="answer", steps=75, out=tmp_path / "run", resume=True
        )
    else:
        again = command(*order, "--resume", cwd=tmp_path)
        assert again.returncode == 0, again.stderr
    for name in ("model.safetensors", "config.json", "labels.csv", "metrics.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (
            undisturbed / "run" / name
        ).read_bytes(), name


def test_a_run_goes_on_only_with_what_it_was_begun_with(tmp_path):
    data = table(tmp_path / "pets.csv")
    labelgrad.fit(data, target="answer", steps=10, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"begun with seed 0, got 1"):
        labelgrad.fit(data, target="answer", seed=1, out=tmp_path / "run", resume=True)
    table(data, labeled=25)
    with pytest.raises(ValueError, match=r"24 labeled and 56 unlabeled examples, got 25 labeled"):
        labelgrad.fit(data, target="answer", out=tmp_path / "run", resume=True)


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    whole_file.write_whole(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(whole_file.os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*kept"):
        whole_file.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


# Bad input


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run that tests may copy."""
    folder = tmp_path_factory.mktemp("fit")
    data = table(folder / "pets.csv")
    labelgrad.fit(data, target="answer", steps=5, out=folder / "run")
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "nowhere", "--out", "new"], "no file or folder nowhere"),
        (["fit", "empty", "--out", "new"], "holds no pictures"),
        (["fit", "pets.csv", "--target", "answr", "--out", "new"], "did you mean 'answer'?"),
        (["fit", "pets.csv", "--target", "answer", "--method", "lgaa", "--out", "new"], "'lga'"),
        (["fit", "pets.csv", "--target", "answer", "--model", "vgg", "--out", "new"], "wrn-10-1"),
        (
            ["fit", "pets.csv", "--target", "answer", "--model", "wrn-10-1", "--out", "new"],
            "for pictures",
        ),
        (["fit", "pets.csv", "--target", "answer", "--out", "run"], "--resume"),
        (["fit", "pets.csv", "--target", "answer", "--out", "pets.csv"], "is a file"),
        (["fit", "pets.csv", "--target", "answer", "--out", "other"], "holds no run"),
        (
            ["fit", "pets.csv", "--target", "answer", "--time-budget", "0", "--out", "new"],
            "more than 0 minutes",
        ),
        (["fit", "pets.csv", "--target", "answer", "--device", "tpu", "--out", "new"], "device"),
        (
            ["fit", "values.csv", "--target", "answer", "--method", "vat", "--out", "new"],
            "needs classes",
        ),
        (["predict", "nowhere", "pets.csv"], "no run folder"),
        (["predict", "empty", "pets.csv"], "no finished run"),
        (["predict", "run", "empty"], "holds pictures"),
        (["predict", "run", "values_only.csv"], "lacks columns"),
        (["predict", "run", "pets.csv", "--out", "empty"], "could not be written"),
    ],
)
def test_bad_input_is_one_sentence(run, arguments, said):
    (run / "empty").mkdir(exist_ok=True)
    (run / "other").mkdir(exist_ok=True)
    (run / "other" / "letter.txt").write_text("mine")
    table(run / "values.csv", values=True)
    (run / "values_only.csv").write_text("first\n1\n")
    assert said in one_sentence(labelgrad_here(*arguments, cwd=run))
    assert not (run / "new").exists()


@pytest.mark.parametrize("name", ["fit", "predict"])
def test_help_fits_a_screen_and_shows_an_example(name, tmp_path):
    said = labelgrad_here(name, "--help", cwd=tmp_path)
    assert f"Example: labelgrad {name}" in said.stdout
    assert len(said.stdout.splitlines()) < 60


def test_the_same_call_goes_on_whatever_the_method_was_made_of_it(tmp_path):
    x, y = small_arrays()
    for method in ("LGA_evidence", "lga-evidence"):
        labelgrad.fit(x, y, method=method, steps=5, out=tmp_path / "run", resume=True)
    known = np.arange(60) % 2
    for _ in range(2):
        labelgrad.fit(x, known, method="lga", steps=5, out=tmp_path / "known", resume=True)


def test_a_dataset_has_its_labels_in_it():
    x, y = small_arrays()
    with pytest.raises(ValueError, match="A `Dataset` has its labels in it"):
        labelgrad.fit(read(x, y), y, steps=2)


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_of_it(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy as np, labelgrad\n"
        "x = np.random.default_rng(0).normal(size=(40, 3))\n"
        "y = np.where(np.arange(40) < 16, x[:, 0] > 0, -1)\n"
        "labelgrad.fit(x, y, steps=5, workers=2)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode
    assert "__name__ == '__main__'" in done.stderr


def test_the_time_of_trainings_side_by_side_is_that_of_the_longest_share():
    x = np.random.default_rng(0).normal(size=(40, 2))
    dataset = read(x, np.where(np.arange(40) < 16, x[:, 0] > 0, -1))
    trained = CrossValidation(dataset, Plan("lga", "mlp", steps=3))
    for number, training in enumerate(trained.trainings):
        training.run.seconds = 2.0**number
    shares = [
        sum(
            each.run.seconds
            for each in trained.trainings
            if any(each.part == mine.part and each.method == mine.method for mine in share)
        )
        for share in (
            CrossValidation(dataset, trained.plan, share=(place, 3)).trainings for place in range(3)
        )
    ]
    assert trained.elapsed(3) == max(shares) < sum(shares) == trained.elapsed(1) == trained.seconds


def test_steps_that_do_not_come_by_every_row_are_told_before_the_first(tmp_path):
    data = table(tmp_path / "pets.csv", rows=175)  # 151 of them unlabeled
    heard = []
    result = labelgrad.fit(
        data,
        target="answer",
        steps=3,
        witnesses="",
        on_note=heard.append,
        on_progress=lambda *_: heard.append("a step"),
    )
    said = "3 steps of 50 come by 150 of the 151 unlabeled examples; for each to be seen once"
    assert heard[0].startswith(said)
    assert "--steps 4" in heard[0]
    assert heard[0] in result.summary.notes
    assert set(heard[1:]) == {"a step"}
    trained = CrossValidation(read(data, target="answer"), Plan("lga", "mlp", steps=4))
    batches = trained.unlabeled_batches()
    for steps, seen in ((3, 150), (4, 151)):
        places = torch.cat([batches.batch(step).rows for step in range(steps)])
        assert len(places.unique()) == seen
