"""The picture experiments: what a trial does and keeps, the search, and the commands."""

import json
import math
import signal
import subprocess
import time
from dataclasses import asdict, replace

import pytest
import torch

from labelgrad.datasets.picture_sets import PictureSet, load
from labelgrad.methods import every_method
from labelgrad.paper import picture_task, picture_trial
from labelgrad.paper.commands import tune_pictures
from labelgrad.paper.commands.options import Options
from labelgrad.paper.picture_results import paper_score, score
from labelgrad.paper.picture_task import SIZES, VIEWS, Task, examples
from labelgrad.paper.picture_trial import PictureTrial
from labelgrad.paper.picture_tuning import PictureTuningTrial, Search
from labelgrad.paper.settings import TUNED, Hyperparameters, choice
from labelgrad.training.evaluation import evaluate
from tests.command import COMMAND, labelgrad_here, one_sentence
from tests.test_cli import gone
from tests.test_reproduce import lines


def finished(task, **options):
    trial = PictureTrial(task, scale="tiny", **options)
    list(trial)
    (line,) = trial.history
    return line


def test_a_line_has_what_the_tables_need():
    line = finished(Task("digits", "lga", labels=50, seed=0))
    for name in ("experiment", "data", "method", "labels", "seed", "test_error", "test_loss"):
        assert name in line
    for name in ("validation_error", "step", "last_test_error", "imputed_accuracy", "split"):
        assert name in line


def test_reported_is_the_step_of_the_best_validation_error():
    line = finished(Task("digits", "supervised", labels=50, seed=1))
    curve = line["curve"]
    best = min(range(2), key=lambda i: (curve["validation_error"][i], curve["validation_loss"][i]))
    assert line["step"] == curve["step"][best]


def test_test_pictures_are_looked_at_once_training_has_ended(monkeypatch):
    trial = PictureTrial(Task("digits", "supervised", labels=50, seed=1), scale="tiny")
    x, y = trial.test
    by_step, seen = {}, []

    def remembered(model, x, y):
        seen.append(trial.run.trainer.index)
        return evaluate(model, x, y)

    monkeypatch.setattr(picture_trial, "evaluate", remembered)
    for record in trial:
        by_step[record["step"]] = evaluate(trial.run.trainer.evaluated, x, y)
    (line,) = trial.history
    assert seen == [trial.steps] * 2
    for which, step in (("test", line["step"]), ("last_test", trial.steps)):
        assert line[f"{which}_error"] == round(by_step[step]["error"], 5)
        assert line[f"{which}_loss"] == round(by_step[step]["loss"], 5)


def test_methods_of_a_seed_start_from_the_same_network_and_split():
    runs = [
        PictureTrial(Task("digits", name, labels=50, seed=2), scale="tiny").run.trainer
        for name in ("supervised", "lga+fixmatch")
    ]
    for ours, theirs in zip(*(run.model.parameters() for run in runs), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(runs[0].labeled.examples.x, runs[1].labeled.examples.x)
    assert torch.equal(runs[0].unlabeled.examples.x, runs[1].unlabeled.examples.x)


def test_no_test_picture_is_trained_on_or_validated_with():
    trial = PictureTrial(Task("digits", "lga", labels=50, seed=0), scale="laptop")
    run, test = trial.run, {picture.numpy().tobytes() for picture in trial.test[0]}
    streams = (run.trainer.labeled, run.trainer.unlabeled)
    for x in (*(stream.examples.x for stream in streams), run.examples["validation"][0]):
        assert not test & {picture.numpy().tobytes() for picture in x}
    assert len(test) == 297


def test_a_training_of_another_length_has_its_schedules_over_all_of_it(tmp_path):
    trial = PictureTrial(Task("digits", "vat", labels=50, seed=0), scale="tiny", steps=10)
    rate = trial.run.trainer.learning_rate
    assert rate(8) == pytest.approx(0.2 * rate(7))
    assert len(list(trial)) == 10
    (line,) = trial.history
    assert (line["last_step"], line["curve"]["step"]) == (10, [2, 4, 6, 8, 10])


def test_foreign_classes_are_unlabeled_only_and_the_known_are_counted_anew():
    trial = PictureTrial(Task("digits", "lga", labels=60, seed=0, foreign=0.5), scale="tiny")
    run = trial.run
    assert set(run.trainer.labeled.labels.tolist()) == set(range(6))
    assert set(trial.test[1].tolist()) <= set(range(6))
    assert (run.truth == -1).sum() == len(run.truth) / 2


def test_a_trial_goes_on_where_it_was_and_leaves_nothing_behind(tmp_path):
    task, whole = Task("digits", "lga", labels=50, seed=0), None
    whole = finished(task)
    begun = iter(PictureTrial(task, scale="tiny", unfinished=tmp_path / "trial"))
    for _ in range(3):
        next(begun)
    resumed = PictureTrial(task, scale="tiny", unfinished=tmp_path / "trial")
    assert len(list(resumed)) == 2  # from the checkpoint of step 2
    (line,) = resumed.history
    assert line | {"seconds": 0} == whole | {"seconds": 0}
    assert not (tmp_path / "trial").exists()


@pytest.mark.parametrize("method", ["lga", "lga+vat"])
def test_a_search_is_the_same_killed_or_not(tmp_path, method):
    def three(path, killed):
        search, found = Search(path, "digits", method, seed=1), []
        for value in (0.5, 0.3, 0.4):
            if killed:
                search.ask()  # its process dies
                search = Search(path, "digits", method, seed=1)
            number, settings = search.ask()
            assert number == len(found)
            search.tell(value)
            found.append(settings)
        return found, search.done

    calm, killed = (three(tmp_path / f"{k}.sqlite", k) for k in (False, True))
    assert calm == killed
    assert calm[1] == 3
    assert calm[0][0].learning_rate == 1e-3
    assert calm[0][0].terms["lga"] == {"speed": 0.4}
    assert len({settings.learning_rate for settings in calm[0]}) == 3


def test_a_sum_is_searched_for_as_a_sum(tmp_path):
    """It begins with usual values, then with its terms' own at the highest of their rates."""
    search, found = Search(tmp_path / "a.sqlite", "digits", "lga+vat", seed=1), []
    for value in (0.5, 0.3):
        found.append(search.ask()[1])
        search.tell(value)
    assert found[0] == Hyperparameters(
        1e-3, {"lga": {"speed": 0.4}, "supervised": {"weight": 1.0}, "vat": {"eps": 2.0}}
    )
    terms = [TUNED[name] for name in ("lga", "vat")]
    assert found[1].learning_rate == max(term.learning_rate for term in terms)
    assert found[1].terms == {**terms[0].terms, **terms[1].terms}


def test_a_sum_has_as_many_trials_as_its_terms_together(tmp_path):
    labelgrad_here(
        "tune", "digits", "--methods", "vat,lga+vat", "--labels", 50, "--trials", 1,
        "--workers", 1, "--scale", "tiny", "--out", tmp_path,
    )  # fmt: skip
    found = [line["method"] for line in lines(tmp_path)]
    assert sorted(found) == ["lga+vat", "lga+vat", "vat"]


def test_what_a_search_found_is_what_reproduce_trains_with(tmp_path):
    search, out = tmp_path / "search", tmp_path / "out"
    small = ["--scale", "tiny", "--labels", 50, "--workers", 1]
    labelgrad_here("tune", "digits", "--methods", "vat", "--trials", 2, *small, "--out", search)
    asked = ["reproduce", "digits", "--seeds", 1, *small, "--tuned", search, "--out", out]
    said = labelgrad_here(*asked, "--methods", "vat")
    assert said.returncode == 0, said.stderr
    best = min(lines(search), key=lambda line: line["validation_error"])["settings"]
    assert lines(out, "commands.jsonl")[0]["settings"]["vat"] == best
    assert best != asdict(choice("vat", "tiny", "digits"))
    settings = Hyperparameters(**best)
    trial = PictureTrial(Task("digits", "vat", 50, 0), scale="tiny", settings=settings)
    list(trial)
    assert lines(out)[0]["curve"] == trial.history[0]["curve"]
    for missing in (["--methods", "vat,lga"], ["--methods", "vat", "--scale", "laptop"]):
        assert "--tuned needs a search of" in one_sentence(labelgrad_here(*asked, *missing))


def test_a_search_goes_on_without_its_file(tmp_path):
    search, lines = Search(tmp_path / "a.sqlite", "digits", "lga", seed=1), []
    for value in (0.5, 0.3):
        number, settings = search.ask()
        search.tell(value)
        line = {"method": "lga", "number": number, "validation_error": value}
        lines.append(line | {"settings": asdict(settings)})
    again = Search(tmp_path / "b.sqlite", "digits", "lga", seed=1, finished=lines)
    assert again.done == 2
    assert again.ask() == search.ask()


def test_a_finished_trial_that_was_not_told_of_is_not_run_again(tmp_path):
    search = Search(tmp_path / "a.sqlite", "digits", "vat")
    number, _ = search.ask()
    line = {"method": "vat", "number": number, "validation_error": 0.25}
    assert Search(tmp_path / "a.sqlite", "digits", "vat", finished=[line]).done == 1


def test_tuning_never_looks_at_the_test_set_and_survives_divergence():
    task = Task("digits", "supervised", labels=50, seed=1000)
    calm = PictureTuningTrial(task=task, number=0, settings=Hyperparameters(1e-3), scale="tiny")
    list(calm)
    assert not [name for name in calm.history[0] if "test" in name]
    wild = PictureTuningTrial(task=task, number=1, settings=Hyperparameters(1e30), scale="tiny")
    list(wild)
    assert wild.history[0]["validation_error"] == 1.0
    assert wild.history[0]["diverged"]


def test_a_search_on_rebuilt_files_says_so_in_its_lines(tmp_path, monkeypatch):
    def seen(make, jobs, results, **how):
        (job,) = jobs.values()
        results.add([{**job["task"].line, "number": job["number"], "validation_error": 0.1}])

    monkeypatch.setattr(tune_pictures, "ready", lambda data, options: None)
    monkeypatch.setattr(tune_pictures, "add_missing", seen)
    monkeypatch.setattr(tune_pictures, "tuned_table", lambda lines: "")
    for rebuilt in (False, True):
        out = tmp_path / str(rebuilt)
        options = Options(1, 1, "tiny", out, "", ("vat",), labels=(50,), rebuilt=rebuilt)
        tune_pictures.tune_pictures("svhn", options, seed=0)
        (line,) = lines(out)
        assert line.get("rebuilt", False) is rebuilt


def test_every_method_can_be_tuned():
    assert all(method.search for method in every_method().values())


def test_a_sum_has_what_was_found_for_it_or_the_settings_of_its_terms():
    def settings(name):
        return choice(name, "laptop", "svhn")

    assert settings("lga+vat") == settings("vat+lga") == TUNED["lga+vat"]
    both = {**TUNED["fixmatch"].terms, **TUNED["vat"].terms}
    lower = min(TUNED["fixmatch"].learning_rate, TUNED["vat"].learning_rate)
    assert settings("fixmatch+vat") == Hyperparameters(lower, both)
    assert settings("flexmatch").learning_rate == TUNED["fixmatch"].learning_rate


def test_scores_are_over_seeds_and_the_papers_are_parts_of_one():
    found = [
        {"method": "lga", "labels": 250, "seed": seed, "test_error": value}
        for seed, value in enumerate((0.2, 0.4))
    ]
    ours = score(found, "test_error", method="lga", labels=250)
    assert ours.mean == pytest.approx(0.3)
    assert ours.std == pytest.approx(math.sqrt(0.02))
    assert score(found, "test_error", method="lga", labels=500) is None
    paper = paper_score("cifar10", "error", method="pi-model", labels=4000)
    assert paper[0] == pytest.approx(0.15804)


@pytest.mark.slow
def test_the_command_trains_draws_and_does_not_train_again(tmp_path):
    arguments = [
        "reproduce",
        "digits",
        "--scale",
        "tiny",
        "--seeds",
        "2",
        "--workers",
        "1",
        "--out",
        tmp_path,
    ]
    arguments += ["--methods", "supervised,lga+fixmatch"]
    said = labelgrad_here(*arguments)
    assert said.returncode == 0, said.stderr
    assert "lga+fixmatch" in said.stdout
    assert "4 steps" in said.stdout
    assert len(lines(tmp_path)) == 4
    assert (tmp_path / "digits-methods.png").stat().st_size > 10_000
    assert not (tmp_path / "unfinished").exists()
    before = (tmp_path / "results.jsonl").read_bytes()
    again = labelgrad_here(*arguments)
    assert again.returncode == 0
    assert (tmp_path / "results.jsonl").read_bytes() == before
    assert len(lines(tmp_path, "commands.jsonl")) == 1


@pytest.mark.slow
def test_a_killed_search_goes_on(tmp_path):
    arguments = [*COMMAND, "tune", "digits", "--scale", "tiny", "--labels", "50", "--trials", "2"]
    arguments += ["--methods", "supervised,lga", "--out", str(tmp_path)]
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(3000):
        time.sleep(0.02)
        if (tmp_path / "results.jsonl").exists() or process.poll() is not None:
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(process.pid)  # the worker that had nothing to do, too
    arguments += ["--workers", "1"]  # each takes seconds to begin, in each of two rounds
    said = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found = lines(tmp_path)
    assert sorted(line["method"] for line in found) == ["lga", "lga", "supervised", "supervised"]
    assert "The best trial of each method" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "digits", "--labels", "55"], "55 labels can not be 10 classes of one size"),
        (["reproduce", "digits", "--labels", "5000"], "the split needs 500 labels of class 0"),
        (["reproduce", "digits", "--foreign", "2", "--labels", "60"], "`foreign` is a part of"),
        (["tune", "digits", "--labels", "7"], "7 labels can not be 10 classes"),
        (["reproduce", "digits", "--labels", "many"], "--labels must be whole numbers"),
        (["reproduce", "digits", "--methods", "lag"], "there is no method 'lag'; did you mean"),
        (["reproduce", "digits", "--scale", "huge"], "--scale must be one of laptop, paper, tiny"),
        (["reproduce", "cifar-10"], "did you mean 'cifar10'?"),
        (["tune", "fashion_mnist"], "did you mean 'fashion-mnist'?"),
        (["reproduce", "synthetic", "--steps", "9"], "--steps is for pictures; synthetic has"),
        (["reproduce", "synthetic", "--tuned", "here"], "--tuned is for pictures; synthetic has"),
        (["reproduce", "digits", "--tuned", "none"], "--tuned needs a search of supervised at"),
        (["reproduce", "digits", "--device", "cuda:99"], "`device` must be one PyTorch has here"),
        (["tune", "digits", "--device", "cuda:99"], "`device` must be one PyTorch has here"),
        (["tune", "digits", "--scale", "huge"], "--scale must be one of laptop, paper, tiny"),
    ],
)
def test_a_wrong_word_is_one_line(arguments, message, tmp_path):
    said = labelgrad_here(*arguments, cwd=tmp_path)
    assert said.returncode == 1
    assert message in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_all_recipes_have_their_data_views_and_validation():
    for size in SIZES.values():
        assert set(VIEWS) == set(size.validation)
    assert load("digits").train[0].dtype == torch.uint8
    assert json.dumps(vars(Task("digits", "lga", 50, 0)))


def fake_pictures(name, folder=None, rebuilt=False):
    generator = torch.Generator().manual_seed(0)
    parts = [
        (
            torch.randint(256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8),
            torch.arange(count) % 10,
        )
        for count in (400, 100)
    ]
    return PictureSet(name, tuple("abcdefghij"), *parts)


def test_whitened_at_the_papers_scale_unless_views_are_strong(tmp_path, monkeypatch):
    monkeypatch.setattr(picture_task, "load", fake_pictures)
    size = replace(SIZES["tiny"], whiten=("cifar10",))
    found = {
        name: examples(Task("cifar10", name, labels=50, seed=0), size, tmp_path)
        for name in ("vat", "lga+fixmatch")
    }
    assert found["vat"].views.noise == 0.15
    assert found["lga+fixmatch"].views == VIEWS["cifar10"]
    assert found["vat"].test[0].mean().abs() < 0.1
    assert found["vat"].test[0].abs().max() > 1.5
    assert found["lga+fixmatch"].test[0].abs().max() <= 1
    assert len(list((tmp_path / "whitening").iterdir())) == 1
