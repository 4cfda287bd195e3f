"""The image experiments: what a trial does and keeps, the search, and the commands."""

import json
from dataclasses import asdict, replace

import pytest
import torch

from experiments.datasets.image_sets import ImageSet, load
from experiments.paper import image_task, image_trial
from experiments.paper.image_results import paper_score, score
from experiments.paper.image_task import SIZES, VIEWS, Task, examples, sized
from experiments.paper.image_trial import training, tuning_trial
from experiments.paper.settings import TUNED, Hyperparameters, choice
from labelgrad import evaluate
from labelgrad.methods import every_method
from tests.experiments.command import experiment, one_sentence
from tests.experiments.test_reproduce import lines

SMALL = ["--scale", "tiny", "--labels", 50, "--workers", 1]


def finished(task, **options):
    (line,) = image_trial.image_trial(task, scale="tiny", **options)
    return line


def prepared(task, scale="tiny", steps=None):
    """A trial's run before its first step, and its examples."""
    parts = examples(task, sized(scale, steps))
    chosen = choice(task.method, scale, task.data)
    return training(task, sized(scale, steps), chosen, parts), parts


def test_reported_is_the_step_of_the_best_validation_error():
    line = finished(Task("digits", "lga", labels=50, seed=1))
    assert {"experiment", "data", "labels", "seed", "imputed_accuracy", "split"} <= line.keys()
    curve = line["curve"]
    best = min(range(2), key=lambda i: (curve["validation_error"][i], curve["validation_loss"][i]))
    assert line["step"] == curve["step"][best]


def test_test_images_are_evaluated_twice_after_the_training(monkeypatch):
    task = Task("digits", "supervised", labels=50, seed=1)
    run, parts = prepared(task)
    by_step = {r["step"]: evaluate(run.trainer.evaluated, *parts.test) for r in run}
    seen = []

    def remembered(model, x, y):
        seen.append(len(x))
        return evaluate(model, x, y)

    monkeypatch.setattr(image_trial, "evaluate", remembered)
    line = finished(task)
    assert seen == [len(parts.test[0])] * 2
    for which, step in (("test", line["step"]), ("last_test", line["last_step"])):
        assert line[f"{which}_error"] == round(by_step[step]["error"], 5)
        assert line[f"{which}_loss"] == round(by_step[step]["loss"], 5)


def test_methods_of_a_seed_start_from_the_same_network_and_split():
    names = ("supervised", "lga+fixmatch")
    ours, theirs = (prepared(Task("digits", name, 50, seed=2))[0].trainer for name in names)
    for one, other in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(ours.labeled.examples.x, theirs.labeled.examples.x)
    assert torch.equal(ours.unlabeled.examples.x, theirs.unlabeled.examples.x)


def test_no_test_image_is_trained_on_or_validated_with():
    _, parts = prepared(Task("digits", "lga", labels=50, seed=0), "laptop")
    test = {image.numpy().tobytes() for image in parts.test[0]}
    for x, _ in (parts.labeled, parts.unlabeled, parts.validation):
        assert not test & {image.numpy().tobytes() for image in x}
    assert len(test) == 297


def test_a_training_of_another_length_has_its_schedules_over_all_of_it():
    task = Task("digits", "vat", labels=50, seed=0)
    rate = prepared(task, steps=10)[0].trainer.learning_rate
    assert rate(8) == pytest.approx(0.2 * rate(7))
    assert finished(task, steps=10)["curve"]["step"] == [2, 4, 6, 8, 10]


def test_a_trial_continues_from_its_checkpoint_and_leaves_nothing_behind(tmp_path):
    task, size = Task("digits", "lga", labels=50, seed=0), SIZES["tiny"]
    whole, chosen = finished(task), choice("lga", "tiny", "digits")
    begun = iter(training(task, size, chosen, examples(task, size), tmp_path / "trial"))
    for _ in range(3):
        next(begun)
    line = finished(task, unfinished=tmp_path / "trial")
    assert line | {"seconds": 0} == whole | {"seconds": 0}
    assert not (tmp_path / "trial").exists()


def test_a_search_has_the_same_trials_interrupted_or_not(tmp_path):
    for name, counts in (("calm", [3]), ("interrupted", [1, 2, 3])):
        for trials in counts:
            order = ["tune", "digits", "--methods", "lga", *SMALL, "--trials", trials]
            said = experiment(*order, "--out", tmp_path / name)
            assert said.returncode == 0, said.stderr
    calm, interrupted = (
        [(line["number"], line["settings"]) for line in lines(tmp_path / name)]
        for name in ("calm", "interrupted")
    )
    assert calm == interrupted
    assert calm[0][1]["terms"]["lga"] == {"speed": 0.4}
    assert len({settings["learning_rate"] for _, settings in calm}) == 3
    assert "The best trial of each method" in said.stdout


def test_a_sum_is_tuned_as_a_sum_with_as_many_trials_as_its_terms(tmp_path):
    """It begins with usual values, then with its terms' own at the highest of their rates."""
    order = ["tune", "digits", "--methods", "vat,lga+vat", *SMALL, "--trials", 1]
    experiment(*order, "--out", tmp_path)
    found = lines(tmp_path)
    assert sorted(line["method"] for line in found) == ["lga+vat", "lga+vat", "vat"]
    first, second = (line["settings"] for line in found if line["method"] == "lga+vat")
    usual = {"lga": {"speed": 0.4}, "supervised": {"weight": 1.0}, "vat": {"eps": 2.0}}
    assert first == {"learning_rate": 1e-3, "terms": usual}
    terms = [TUNED[name] for name in ("lga", "vat")]
    assert second["learning_rate"] == max(term.learning_rate for term in terms)
    assert second["terms"] == {**terms[0].terms, **terms[1].terms}


def test_what_a_search_found_is_what_reproduce_trains_with(tmp_path):
    search, out = tmp_path / "search", tmp_path / "out"
    experiment("tune", "digits", "--methods", "vat", "--trials", 2, *SMALL, "--out", search)
    asked = ["reproduce", "digits", "--seeds", 1, *SMALL, "--tuned", search, "--out", out]
    said = experiment(*asked, "--methods", "vat")
    assert said.returncode == 0, said.stderr
    best = min(lines(search), key=lambda line: line["validation_error"])["settings"]
    assert lines(out, "commands.jsonl")[0]["settings"]["vat"] == best
    assert best != asdict(choice("vat", "tiny", "digits"))
    line = finished(Task("digits", "vat", 50, 0), settings=Hyperparameters(**best))
    assert lines(out)[0]["curve"] == line["curve"]
    for missing in (["--methods", "vat,lga"], ["--methods", "vat", "--scale", "laptop"]):
        assert "--tuned needs a search of" in one_sentence(experiment(*asked, *missing))


def test_tuning_never_uses_a_test_image_and_survives_divergence(monkeypatch):
    monkeypatch.setattr(image_trial, "evaluate", None)
    task = Task("digits", "supervised", labels=50, seed=1000)
    (calm,) = tuning_trial(task, settings=Hyperparameters(1e-3), scale="tiny", extra={})
    assert not [name for name in calm if "test" in name]
    (wild,) = tuning_trial(task, settings=Hyperparameters(1e30), scale="tiny", extra={})
    assert wild["validation_error"] == 1.0
    assert wild["diverged"]


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
    assert ours.shown(100, 1) == "30.0 ± 14.1"
    assert score(found, "test_error", method="lga", labels=500) is None
    paper = paper_score("cifar10", "error", method="pi-model", labels=4000)
    assert paper[0] == pytest.approx(0.15804)


def test_the_command_trains_draws_and_does_not_train_again(tmp_path):
    order = ["reproduce", "digits", *SMALL, "--seeds", 2, "--out", tmp_path]
    order += ["--methods", "supervised,lga+fixmatch"]
    said = experiment(*order)
    assert said.returncode == 0, said.stderr
    assert "lga+fixmatch" in said.stdout
    assert "4 steps" in said.stdout
    assert len(lines(tmp_path)) == 4
    assert (tmp_path / "digits-methods.png").stat().st_size > 10_000
    assert not (tmp_path / "unfinished").exists()
    before = (tmp_path / "results.jsonl").read_bytes()
    assert experiment(*order).returncode == 0
    assert (tmp_path / "results.jsonl").read_bytes() == before
    assert len(lines(tmp_path, "commands.jsonl")) == 1


@pytest.mark.parametrize("question", ["label-weights", "sum-radius"])
def test_variants_are_trained_on_the_tuning_split(question, tmp_path):
    order = ["variants", question, "--set", "digits", *SMALL, "--out", tmp_path]
    assert experiment(*order).returncode == 0
    found = lines(tmp_path)
    assert {line["seed"] for line in found} == {1000}
    assert len(found) == (4 if question == "sum-radius" else 11)
    assert not any(name.startswith("test") for line in found for name in line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "digits", "--labels", "55"], "55 labels can not be 10 classes of one size"),
        (["reproduce", "digits", "--labels", "5000"], "the split needs 500 labels of each class"),
        (["tune", "digits", "--labels", "7"], "7 labels can not be 10 classes"),
        (["reproduce", "digits", "--labels", "many"], "--labels must be whole numbers"),
        (["reproduce", "digits", "--methods", "lag"], "there is no method 'lag'; did you mean"),
        (["reproduce", "digits", "--scale", "huge"], "--scale must be one of laptop, paper, tiny"),
        (["reproduce", "cifar-10"], "did you mean 'cifar10'?"),
        (["tune", "fashion_mnist"], "did you mean 'fashion-mnist'?"),
        (["reproduce", "synthetic", "--steps", "9"], "--steps and --tuned are for images"),
        (["reproduce", "digits", "--tuned", "none"], "--tuned needs a search of supervised at"),
        (["reproduce", "digits", "--device", "cuda:99"], "--device must be one PyTorch has"),
        (["tune", "digits", "--device", "cuda:99"], "--device must be one PyTorch has"),
        (["reproduce"], "NAME must be one of"),
        (["reproduce", "table-9"], "NAME must be one of learning-speeds"),
        (["reproduce", "synthetic", "--scale", "huge"], "--scale must be one of paper, tiny"),
        (["reproduce", "synthetic", "--methods", "magic"], "--methods must be one of supervised"),
        (["tune", "magic"], "EXPERIMENT must be one of synthetic"),
        (["tune", "synthetic", "--scale", "laptop"], "--scale must be one of paper, tiny"),
    ],
)
def test_a_wrong_word_is_one_line(arguments, message, tmp_path):
    assert message in one_sentence(experiment(*arguments, cwd=tmp_path))
    assert not list(tmp_path.iterdir())


def test_all_image_sets_have_their_views_and_validation():
    for size in SIZES.values():
        assert set(VIEWS) == set(size.validation)
    assert load("digits").train[0].dtype == torch.uint8
    assert json.dumps(vars(Task("digits", "lga", 50, 0)))


def fake_images(name, folder=None, rebuilt=False):
    generator = torch.Generator().manual_seed(0)
    parts = [
        (
            torch.randint(256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8),
            torch.arange(count) % 10,
        )
        for count in (400, 100)
    ]
    return ImageSet(name, tuple("abcdefghij"), *parts)


def test_whitened_at_the_papers_scale_unless_views_are_strong(tmp_path, monkeypatch):
    monkeypatch.setattr(image_task, "load", fake_images)
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
