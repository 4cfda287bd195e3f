"""LGA beside what people use: the same rows for all, one rule to judge by, and who is ahead."""

import json
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy.stats import gmean, rankdata

import labelgrad as package
from labelgrad import compare
from labelgrad.bench.peer_trial import (
    CONTENDERS,
    OURS,
    TITLES,
    PeerTrial,
    contenders_for,
    judged,
    partly,
    said_by,
)
from labelgrad.bench.sets import SETS, Rows
from labelgrad.bench.splits import VALUES, Draw, Places, set_names, split
from labelgrad.bench.standing import (
    clearly_behind,
    means,
    of_task,
    over_sets,
    ranks,
    ratios,
    sets_in,
    standings,
    sure_shares,
    won_and_lost,
)
from labelgrad.bench.standing_figure import draw_standing
from labelgrad.bench.standing_page import standing_page
from labelgrad.cli.peers import standing_table
from labelgrad.estimators import LGAClassifier
from labelgrad.fitting.compare import trial_plans
from labelgrad.fitting.cross_validation import CrossValidation
from labelgrad.fitting.peer_folds import PeerFolds, PeerPlan
from labelgrad.inputs.kinds import read
from labelgrad.peers import LEAST, PEERS, clipped, peers_for, probabilities, values
from tests.command import labelgrad_here, one_sentence


def blobs(*, rows=60, columns=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % classes
    return rng.normal(size=(rows, columns)) + 3 * np.eye(classes, columns)[y], y


def tables(folder):
    """Two tables: one of classes with texts and gaps, one of values."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    pets = ["weight,fur,target"]
    for row in range(80):
        weight = "" if row % 9 == 0 else f"{rng.normal(5 + 5 * (row % 2)):.2f}"
        pets.append(
            f"{weight},{'long' if rng.random() < 0.5 else 'short'},{['cat', 'dog'][row % 2]}"
        )
    x = rng.normal(size=(120, 3)) * [1, 10, 100]
    houses = ["size,age,far,target", *(f"{a:.3f},{b:.3f},{c:.3f},{a - b:.3f}" for a, b, c in x)]
    (folder / "pets.csv").write_text("\n".join(pets))
    (folder / "houses.csv").write_text("\n".join(houses))
    return Places(tables=folder)


# The peers


@pytest.mark.parametrize("name", peers_for("classification"))
@pytest.mark.parametrize("fewest", [1, 8])
def test_a_peer_of_classes_learns_what_is_easy(name, fewest):
    x, y = blobs(rows=150)
    known = np.arange(150) < 24
    if fewest == 1:
        known &= (y != 2) | (np.arange(150) < 3)
    (said,) = probabilities(name, x, np.where(known, y, -1), [x], classes=4, seed=0)
    assert said.shape == (150, 4)
    np.testing.assert_allclose(said.sum(1), 1)
    assert (said[:, 3] == 0).all(), "a class without a label"
    assert np.mean(said.argmax(1) == y) > (0.8 if fewest > 1 else 0.5)


@pytest.mark.parametrize("name", peers_for("regression"))
def test_a_peer_of_values_does_not_mind_their_unit(name):
    x = np.random.default_rng(0).normal(size=(80, 2))
    y = np.where(np.arange(80) < 40, x.sum(1), np.nan)
    plain, moved = (values(name, x, labels, [x], seed=0)[0] for labels in (y, 1024 * y))
    assert np.mean((plain - x.sum(1)) ** 2) < 0.3 * x.sum(1).var()
    np.testing.assert_allclose(moved, 1024 * plain)  # a power of 2, which rounds alike


def test_label_spreading_says_the_frequencies_of_what_is_far_from_everything():
    x, y = blobs()
    partly = np.where(np.arange(60) < 6, y, -1)
    (said,) = probabilities("label-spreading-rbf", x, partly, [x[:1] + 1e4], classes=3, seed=0)
    np.testing.assert_allclose(said[0], [1 / 3] * 3)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=5))
def test_no_probability_is_clipped_below_the_least_and_the_order_stays(rows):
    said = clipped(np.array(rows))
    np.testing.assert_allclose(said.sum(1), 1)
    assert (said >= LEAST / (3 + 2 * LEAST)).all()
    for before, after in zip(rows, said, strict=True):
        assert after[int(np.argmax(before))] == after.max()


# The splits


@pytest.mark.parametrize("name", ["wine", "iris", "digits-30", "digits-100", "diabetes"])
@pytest.mark.parametrize("at_random", [False, True])
def test_a_split_has_the_labels_that_were_asked_for(name, at_random):
    found = [split(name, Places(), Draw(5, at_random), seed) for seed in (0, 0, 1)]
    for array in ("x", "y", "given", "x_test", "y_test"):
        assert (getattr(found[0], array) == getattr(found[1], array)).all(), "same seed, same split"
    assert (found[0].given != found[2].given).any()
    rows = found[0]
    own = SETS[name].labels if name.startswith("digits") else None
    wanted = VALUES if rows.classes is None else own or 5 * rows.classes
    assert rows.given.sum() == wanted
    assert len(rows.y_test) == pytest.approx(0.25 * (len(rows.y) + len(rows.y_test)), abs=3)
    if rows.classes and not at_random:
        assert len(set(np.bincount(rows.y[rows.given]))) == 1, "even by class"
    if rows.classes:
        assert len(np.unique(rows.y[rows.given])) > 1


def test_a_table_is_one_more_set_with_columns_of_unit_variance(tmp_path):
    places = tables(tmp_path / "mine")
    assert set_names(places)[-2:] == ("houses", "pets")
    houses, pets = (split(name, places, Draw(4), seed=0) for name in ("houses", "pets"))
    assert (houses.classes, houses.given.sum()) == (None, 50)
    assert (pets.classes, pets.given.sum()) == (2, 8)
    np.testing.assert_allclose(np.concatenate([houses.x, houses.x_test]).std(0), 1, rtol=1e-5)
    as_values = Places(tables=places.tables, regressions=("pets",))
    with pytest.raises(ValueError, match="must hold numbers for regression"):
        split("pets", as_values, Draw(), seed=0)


def test_a_number_of_labels_is_drawn_at_random():
    assert split("wine", Places(), Draw(labels=17), seed=0).given.sum() == 17


# The trials


def lines_of(contender, data="wine", places=None, draw=None):
    trial = PeerTrial(data, contender, seed=0, draw=draw or Draw(), places=places or Places())
    assert [record["step"] for record in trial] == [0, 1]
    return trial.history


def test_a_trial_is_the_same_again_and_judged_as_by_hand():
    (line,), (again,) = lines_of("random-forest"), lines_of("random-forest")
    assert line | {"seconds": 0} == again | {"seconds": 0}
    rows = split("wine", Places(), Draw(), 0)
    wanted = [rows.x_test, rows.x[~rows.given]]
    found = probabilities("random-forest", rows.x, partly(rows), wanted, classes=3, seed=0)
    test, others = (np.maximum(part, 1e-4) for part in found)
    losses = [-np.log(p[y] / p.sum()) for p, y in zip(test, rows.y_test, strict=True)]
    assert line["loss"] == pytest.approx(np.mean(losses), abs=1e-5)
    sure = [
        (p.argmax(), y)
        for p, y in zip(others, rows.y[~rows.given], strict=True)
        if p.max() / p.sum() > 0.9
    ]
    assert (line["sure"], line["sure_right"]) == (len(sure), sum(a == b for a, b in sure))
    assert line["test_rows"] == len(rows.y_test)


def test_the_error_of_values_is_in_standard_deviations():
    x, y = np.zeros((4, 1)), np.array([0.0, 2.0, 4.0, 6.0])
    rows = Rows(x, y, np.array([True, True, False, False]), x, y)
    said = SimpleNamespace(test=np.full(4, y.mean()), others=None, more=None)
    assert judged(said, rows) == {"error": 1.0}


@pytest.mark.parametrize("data", ["wine", "diabetes"])
def test_ours_are_judged_too(data, monkeypatch):
    monkeypatch.setitem(LGAClassifier.__init__.__kwdefaults__, "steps", 5)
    for contender in ("lga", "supervised-network"):
        (line,) = lines_of(contender, data)
        assert line["method"] == contender
        assert "why" not in line
        assert line["error"] < 3


class Pooled:
    """As the pool will be: one fit, a student, and the pool without a witness."""

    def __init__(self, random_state, standardize):
        self.model = LGAClassifier(steps=3, random_state=random_state)

    def fit(self, X, y):
        self.model.fit(X, y)
        self.classes_, self.student_ = self.model.classes_, self.model
        self.label_distributions_ = self.model.label_distributions_
        self.weights_ = {"lga": 0.25, "forest": 0.75}
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)

    def without(self, witness):
        assert witness == "lga"
        return SimpleNamespace(predict_proba=self.predict_proba)


def test_one_fit_of_the_pool_gives_three_lines(monkeypatch):
    monkeypatch.setattr(package, "PooledClassifier", Pooled, raising=False)
    assert "pool" in contenders_for("classification")
    lines = lines_of("pool")
    assert [line["method"] for line in lines] == ["pool", "student", "pool-without-lga"]
    assert lines[0]["weights"] == {"lga": 0.25, "forest": 0.75}
    assert len({line["error"] for line in lines}) == 1


def test_a_class_that_has_no_label_has_a_column():
    x, y = blobs()
    rows = Rows(x, y, (np.arange(60) < 9) & (y != 1), x, y)
    model = LGAClassifier(steps=2, random_state=0).fit(x, partly(rows))
    said = said_by("lga", model, rows)
    assert said.test.shape == (60, 3)
    assert (said.test[:, 1] == 0).all()


def test_a_method_that_fails_keeps_a_line_that_says_why(monkeypatch):
    def refuse(rows, seed):
        raise ValueError("too few labels\nand more")

    broken = CONTENDERS["svm"].__class__("svm", {"svm": "svm"}, refuse)
    monkeypatch.setitem(CONTENDERS, "svm", broken)
    (line,) = lines_of("svm")
    assert line["why"] == "too few labels"
    assert "error" not in line


# The standing


def made_up(*, failing=("svm", "b"), methods=("svm", "ridge-like", "self-training", "lga")):
    rng = np.random.default_rng(0)
    names = {"ridge-like": "random-forest"}
    lines = []
    for data in "abcd":
        for method in (names.get(name, name) for name in methods):
            for seed in range(3):
                line = {"data": data, "method": method, "seed": seed, "task": "classification"}
                line |= {"test_rows": 50, "labels": 30, "classes": 3, "seconds": 1.0}
                if (method, data) == failing and seed == 1:
                    lines.append(line | {"why": "it could not"})
                    continue
                line |= {"error": round(rng.random(), 2), "loss": rng.random() + 0.01}
                lines.append(line | {"sure": 30, "sure_right": int(rng.integers(20, 31))})
    return lines


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.4]), min_size=1, max_size=6))
def test_ranks_are_those_of_scipy(numbers):
    named = {str(place): number for place, number in enumerate(numbers)}
    assert list(ranks(named, list(named)).values()) == rankdata(numbers).tolist()


def test_the_standing_is_that_of_a_slow_computation():
    lines = made_up()
    methods = ["random-forest", "svm", "self-training", "lga"]
    found = {standing.method: standing for standing in standings(lines)}
    assert list(found) == sorted(found, key=lambda name: found[name].order)
    losses = np.full((4, 4), np.inf)
    errors = np.full((4, 4), np.inf)
    for i, data in enumerate("abcd"):
        for j, method in enumerate(methods):
            mine = [x for x in lines if x["data"] == data and x["method"] == method]
            if not any("why" in x for x in mine):
                losses[i, j] = np.mean([x["loss"] for x in mine])
                errors[i, j] = np.mean([x["error"] for x in mine])
    places = np.mean([rankdata(row) for row in losses], axis=0)
    assert [found[method].loss_rank for method in methods] == pytest.approx(places.tolist())
    level = losses[:, :3].min(1, keepdims=True)
    for j, method in enumerate(methods):
        finite = np.isfinite(losses[:, j])
        assert found[method].loss_ratio == pytest.approx(gmean((losses / level)[finite, j]))
        shifted = (errors + 0.01) / (errors[:, :3].min(1, keepdims=True) + 0.01)
        assert found[method].error_ratio == pytest.approx(gmean(shifted[finite, j]))
        assert found[method].failed == (~finite).sum()
        labels_only = losses[:, :2].min(1)
        behind = (losses[:, j] > 1.05 * labels_only) & finite
        assert found[method].clearly_behind == behind.sum()
    mine = [x for x in lines if (x["data"], x["method"]) == ("a", "lga")]
    share = sum(x["sure_right"] for x in mine) / sum(x["sure"] for x in mine)
    assert sure_shares(lines, "lga")["a"] == share


def test_who_wins_loses_nothing_and_ties_are_neither():
    table = means(made_up(), "loss")
    won, lost = won_and_lost(table, "lga", "svm")
    assert won_and_lost(table, "svm", "lga") == (lost, won)
    assert won + lost == 4
    assert won_and_lost(table, "lga", "lga") == (0, 0)


def test_a_set_counts_once_every_method_was_tried_on_it():
    lines = made_up()
    without = [x for x in lines if (x["data"], x["method"]) != ("c", "lga")]
    assert sets_in(without) == ["a", "b", "d"]
    late = [x for x in lines if (x["method"], x["seed"]) != ("lga", 2)]
    by_two = [x for x in lines if x["seed"] < 2]
    assert means(late, "loss") == means(by_two, "loss"), "the seeds that all have"


def test_the_best_peer_has_the_ratio_one_and_no_peer_less():
    shown = ratios(means(made_up(), "loss"), list(TITLES))
    for found in shown.values():
        assert min(ratio for method, ratio in found.items() if method not in OURS) == 1
    assert over_sets(shown, "svm") >= 1
    assert clearly_behind({"a": {"svm": 1.0, "lga": 1.04}}, "lga") == 0


def test_the_table_fits_in_eighty_columns_and_the_page_has_every_set(tmp_path):
    methods = [name for name in TITLES if name not in PEERS or PEERS[name].classes]
    lines = made_up(methods=methods)
    console = Console(width=80, file=StringIO())
    console.print(standing_table(standings(lines), "classification"))
    assert "…" not in console.file.getvalue()
    assert "* LGA" in console.file.getvalue()
    page = standing_page(lines, "labelgrad bench peers --seeds 3")
    assert "    labelgrad bench peers --seeds 3\n" in page
    assert page.count("\n| b | 30 |") == 2
    assert "- b, support vectors, seed 1: it could not" in page
    drawn = draw_standing(of_task(lines, "classification"), tmp_path)
    assert {path.name for path in drawn} == {
        f"standing-{what}.{kind}" for what in ("loss", "error") for kind in ("png", "svg")
    }


# The command


def test_the_command_goes_on_where_it_was_and_refuses_another_draw(tmp_path):
    tables(tmp_path / "mine")
    command = ["bench", "peers", "--sets", "wine,pets,houses", "--tables", "mine"]
    command += ["--methods", "logistic-regression,svm,ridge", "--workers", "1", "--out", "here"]
    said = labelgrad_here(*command, "--seeds", 1, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert "support vectors" in said.stdout
    lines = [json.loads(x) for x in (tmp_path / "here/results.jsonl").read_text().splitlines()]
    found = {(line["data"], line["method"]) for line in lines}
    assert found == {
        *((data, name) for data in ("wine", "pets") for name in ("logistic-regression", "svm")),
        ("houses", "ridge"),
        ("houses", "svm"),
    }
    assert (tmp_path / "here/standing.md").exists()
    again = labelgrad_here(*command, "--seeds", 1, cwd=tmp_path)  # which fits nothing
    assert "done" not in again.stdout
    other = labelgrad_here(*command, "--labels-per-class", 5, cwd=tmp_path)
    assert "holds results with per_class = 10" in one_sentence(other)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sets", "whine"], "did you mean 'wine'?"),
        (["--methods", "random-forrest"], "did you mean 'random-forest'?"),
        (["--tables", "nowhere"], "must be a folder of CSV files"),
        (["--regression", "wine"], "must name tables of the folder"),
    ],
)
def test_bad_input_is_one_sentence(arguments, said, tmp_path):
    assert said in one_sentence(labelgrad_here("bench", "peers", *arguments, cwd=tmp_path))


def test_help_shows_an_example():
    said = labelgrad_here("bench", "peers", "--help").stdout
    assert "Example: labelgrad bench peers" in said
    assert "peers" in labelgrad_here("bench", "--help").stdout


# Peers in a comparison


@pytest.mark.parametrize("of_values", [False, True])
def test_a_peer_is_judged_by_the_same_labels_as_a_method(of_values):
    x, y = blobs()
    labels = np.where(np.arange(60) < 24, x.sum(1) if of_values else y, np.nan if of_values else -1)
    data = read(x, labels if of_values else labels.astype(int))
    for seed in (0, 1):
        peer = PeerFolds(data, PeerPlan("svm", seed))
        list(peer)
        plan = trial_plans(data, ["supervised", "lga"], seed + 1, steps=2)[-1]
        network = CrossValidation(data, plan, only="lga")
        assert peer.history[0]["rows"] == network.held_out().rows.tolist()
        assert peer.spread == network.spread


def test_held_out_labels_have_no_part_in_what_is_said_of_them():
    x, y = blobs()
    labels = np.where(np.arange(60) < 24, y, -1)
    trial = PeerFolds(read(x, labels), PeerPlan("label-spreading-knn"))
    list(trial)
    fold, said = trial.folds[0], trial._said[0]
    rest = np.setdiff1d(np.arange(60), fold)
    (slow,) = probabilities(
        "label-spreading-knn", trial.x[rest], labels[rest], [trial.x[fold]], classes=3, seed=0
    )
    np.testing.assert_allclose(said, clipped(slow))
    losses = -np.log(said[np.arange(len(fold)), y[fold]])
    np.testing.assert_allclose(trial._losses(fold, said), losses)


def test_peers_stand_in_the_ranking_and_are_kept(tmp_path):
    x, y = blobs()
    labels = np.where(np.arange(60) < 24, y, -1)
    options = {"methods": ["supervised", "logistic-regression", "svm"], "seeds": 2, "steps": 2}
    found = compare(x, labels, out=tmp_path, **options)
    assert [scored.method for scored in found.methods] == options["methods"]
    assert found == compare(x, labels, out=tmp_path, **options)
    alone = compare(x, labels, methods=["logistic-regression", "svm"], seeds=2)
    assert [scored.error for scored in alone.methods] == [s.error for s in found.methods[1:]]


@pytest.mark.parametrize(
    ("methods", "said"),
    [
        (["supervised", "random-forrest"], "did you mean 'random-forest'"),
        (["supervised", "ridge"], "ridge is for regression"),
        (["svm", "svm"], "each once"),
    ],
)
def test_a_peer_that_can_not_be_compared_is_refused(methods, said):
    x, y = blobs()
    with pytest.raises(ValueError, match=said):
        compare(x, np.where(np.arange(60) < 24, y, -1), methods=methods)
