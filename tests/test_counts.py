"""Shares of classes with intervals, suspect labels, what more labels would buy: on made runs."""

import csv
from dataclasses import replace
from functools import partial
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

import labelgrad.cli.promises as cli
from labelgrad.cli.labels import run_labels
from labelgrad.cli.promises import draw_curve
from labelgrad.fitting.audits import Audits, draw_audit, save_audit, take_audit
from labelgrad.fitting.count import count
from labelgrad.fitting.more import more_labels, save_labeled, smaller_trainings
from labelgrad.fitting.provenance import RANDOM
from labelgrad.fitting.suspects import suspects
from labelgrad.guarantees.ppi import powered
from labelgrad.witnesses.hearing import Case
from tests.made_runs import CLASSES, made_run


def audited(tmp_path, rows, *, leave_out=(), **options):
    """A made run with so many rows audited, and the truth; some places of the draw are left out."""
    run, known = made_run(tmp_path, **options)
    drawn = draw_audit(run, rows).names
    answers = {name: str(known[name]) for place, name in enumerate(drawn) if place not in leave_out}
    Audits(tmp_path).answer(answers)
    return run, known


def shares(known):
    return {name: np.mean([label == name for label in known.values()]) for name in CLASSES}


def test_a_count_is_what_all_rows_are_predicted_to_be_and_how_far_that_is_off(tmp_path):
    """Beside the formula, written down for one class."""
    run, known = audited(tmp_path, 120)
    found = {each.of: each for each in count(run).each}
    rows, unlabeled = len(known), len(run.labels)
    given = [example.given for example in run.examples if example.given is not None]
    commonness = np.array([np.mean([row.label == name for row in run.labels]) for name in CLASSES])

    def said(row, name):
        if row.label == name:
            return row.label_probability
        others = 1 - commonness[CLASSES.index(row.label)]
        return (1 - row.label_probability) * commonness[CLASSES.index(name)] / others

    by_name = {row.name: row for row in run.labels}
    for name in CLASSES:
        mean = np.mean([said(row, name) for row in run.labels])
        off = [(known[n] == name) - said(by_name[n], name) for n in Audits(tmp_path).answers]
        estimate = (given.count(name) + unlabeled * (mean + np.mean(off))) / rows
        assert found[name].powered.value == pytest.approx(estimate)
        assert found[name].by_labels.value == pytest.approx(
            np.mean([known[n] == name for n in Audits(tmp_path).answers])
        )


def test_counts_cover_the_truth_and_are_narrower_than_the_labels_alone(tmp_path):
    run, known = audited(tmp_path, 120, right=0.95)
    found = count(run)
    truth = shares(known)
    assert [each.of for each in found.each] == list(CLASSES)
    assert all(each.powered.low <= truth[each.of] <= each.powered.high for each in found.each)
    assert all(each.narrower < 0.7 for each in found.each)
    assert sum(each.powered.value for each in found.each) == pytest.approx(1, abs=0.01)
    found.save(tmp_path / "shares.csv")
    with open(tmp_path / "shares.csv", newline="") as file:
        assert [row["of"] for row in csv.DictReader(file)] == list(CLASSES)


def test_labels_drawn_at_random_count_by_the_pools_of_their_folds(tmp_path):
    run, known = made_run(tmp_path, labels=200, origin=RANDOM)
    found, truth = count(run), shares(known)
    assert found.labels == 200
    assert all(each.powered.low <= truth[each.of] <= each.powered.high for each in found.each)
    # A fold's pool that says nonsense of all rows says the same nonsense of the hidden label.
    shifted = dict(run.held_out)
    shifted["means by fold"] = run.held_out["means by fold"] * 0 + [1.0, 0.0, 0.0]
    shifted["said by pool"] = np.log(np.tile([1.0 - 2e-12, 1e-12, 1e-12], (200, 1)))
    blind = count(replace(run, held_out=shifted))
    for each in blind.each:
        assert each.powered.value == pytest.approx(each.by_labels.value, abs=1e-6)


def test_audits_and_random_labels_count_together(tmp_path):
    run, known = audited(tmp_path, 100, labels=100, origin=RANDOM)
    both = count(run)
    alone = count(replace(run, folder=None))
    truth = shares(known)
    assert (both.labels, alone.labels) == (200, 100)
    for one, other in zip(both.each, alone.each, strict=True):
        assert one.powered.width < other.powered.width
        assert one.powered.low <= truth[one.of] <= one.powered.high


def test_gaps_make_an_interval_wider(tmp_path):
    whole, known = audited(tmp_path / "whole", 100)
    gaps, _ = audited(tmp_path / "gaps", 100, leave_out=range(10, 20))
    for one, other in zip(count(whole).each, count(gaps).each, strict=True):
        assert other.powered.low < one.powered.low
        assert other.powered.high > one.powered.high
        truth = shares(known)[one.of]
        assert other.powered.low <= truth <= other.powered.high


def test_the_mean_of_values_with_an_interval(tmp_path):
    run, known = audited(tmp_path, 80, task="regression")
    (found,) = count(run).each
    truth = np.mean(list(known.values()))
    assert found.of == "mean"
    assert found.powered.low <= truth <= found.powered.high
    assert found.narrower < 0.6
    gaps, _ = audited(tmp_path / "gaps", 80, leave_out=[3], task="regression")
    with pytest.raises(ValueError, match="some were left out; fill them in"):
        count(gaps)


def test_a_count_without_random_labels_is_refused(tmp_path):
    run, _ = made_run(tmp_path)
    with pytest.raises(ValueError, match=r"an interval needs labels drawn at random.*80 unknown"):
        count(run)


def test_a_class_that_only_the_audit_knows_is_counted(tmp_path):
    run, known = made_run(tmp_path)
    drawn = draw_audit(run, 100).names
    write(tmp_path / "a.csv", {n: "yak" if i < 9 else known[n] for i, n in enumerate(drawn)})
    with pytest.raises(ValueError, match=r"1 labels that are no class.*'yak'; --new-classes takes"):
        take_audit(run, tmp_path / "a.csv")
    assert Audits(tmp_path).answers == {}
    assert take_audit(run, tmp_path / "a.csv", new_classes=True).new_classes == ["yak"]
    yak = {each.of: each for each in count(run).each}["yak"]
    assert yak.by_labels.value == 0.09
    assert yak.powered.low < 0.09 * 920 / 1000 < yak.powered.high


def write(path, labels, key="file"):
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow([key, "label"])
        table.writerows(labels.items())


def test_an_audit_goes_out_without_what_is_thought_and_comes_back(tmp_path):
    run, known = made_run(tmp_path)
    drawn = draw_audit(run, 60, seed=7)
    save_audit(drawn, "file", tmp_path / "audit.csv")
    content = (tmp_path / "audit.csv").read_text().splitlines()
    assert content[0] == "file,label"
    assert content[1:] == [f"{name}," for name in drawn.names]
    half = {name: known[name] for name in drawn.names[:30]}
    write(tmp_path / "half.csv", half | dict.fromkeys(drawn.names[30:], ""))
    taken = take_audit(run, tmp_path / "half.csv")
    assert (taken.new, taken.looked_at, taken.gaps, taken.open) == (30, 30, 0, 30)
    assert take_audit(run, tmp_path / "half.csv").new == 0


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"9999.png": "cat"}, r"1 rows that were not drawn.*they are not in the data"),
        (
            {"0001.png": "cat"},
            r"not drawn.* '0001\.png'; labels of rows somebody chose",
        ),
        ({}, "has no label filled in"),
    ],
    ids=["unknown", "chosen", "empty"],
)
def test_an_audit_that_cannot_be_is_refused_and_nothing_is_kept(labels, message, tmp_path):
    run, _ = made_run(tmp_path)
    draw_audit(run, 20)
    write(tmp_path / "a.csv", labels)
    with pytest.raises(ValueError, match=message):
        take_audit(run, tmp_path / "a.csv")
    assert Audits(tmp_path).answers == {}


def test_awkward_audit_files_are_refused_in_one_sentence(tmp_path):
    run, _ = made_run(tmp_path)
    drawn = draw_audit(run, 20).names
    (tmp_path / "none.csv").write_text("")
    with pytest.raises(ValueError, match=r"none\.csv is empty"):
        take_audit(run, tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match="There is no audit"):
        take_audit(run, tmp_path / "missing.csv")
    (tmp_path / "two.csv").write_text(f"file,label\n{drawn[0]},cat\n{drawn[0]},dog\n")
    with pytest.raises(ValueError, match="two labels: 'cat', and 'dog' on line 3"):
        take_audit(run, tmp_path / "two.csv")
    values, _ = made_run(tmp_path / "values", task="regression")
    name = draw_audit(values, 5).names[0]
    write(tmp_path / "v.csv", {name: "heavy"})
    with pytest.raises(ValueError, match="finite numbers as labels, got 'heavy'"):
        take_audit(values, tmp_path / "v.csv")
    with pytest.raises(ValueError, match="needs a run folder to be kept in"):
        draw_audit(replace(run, folder=None), 5)


def test_suspects_are_the_labels_that_were_flipped(tmp_path):
    run, _ = made_run(tmp_path, labels=300, right=0.97)
    rng, y = np.random.default_rng(0), run.held_out["y"].copy()
    flipped = rng.permutation(300)[:15]
    y[flipped] = (y[flipped] + 1) % 3
    examples = list(run.examples)
    for row in flipped:
        examples[row] = replace(examples[row], given=CLASSES[y[row]])
    wrong = replace(run, held_out=run.held_out | {"y": y}, examples=examples)
    found = suspects(wrong, 20)
    names = {run.examples[row].name for row in flipped}
    assert sum(each.name in names for each in found) >= 12
    for each in found[:5]:
        assert each.suspect
        assert each.given == CLASSES[y[int(each.name[:4])]]
        assert each.other_probability > each.given_probability
        assert each.reason == "1 of 1 witnesses say otherwise"
    assert suspects(wrong, 0) == []


def test_values_far_from_what_all_say_are_suspect(tmp_path):
    run, _ = made_run(tmp_path, task="regression")
    y = run.held_out["y"].copy()
    y[7] += 20
    first, second = suspects(replace(run, held_out=run.held_out | {"y": y}), 2)
    assert (first.name, first.suspect, second.suspect) == ("0007.png", True, False)
    assert "typical errors away" in first.reason


def learnable(rows=80, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    return Case(rng.normal(size=(rows, 4)) + 1.5 * np.eye(4)[y], y, [], 3, seed)


def test_smaller_trainings_err_more_often():
    errors = smaller_trainings(learnable(), [6, 20, 60], witnesses=["neighbours"], series=3)
    assert errors.shape == (3, 3)
    assert errors.mean(0)[0] > errors.mean(0)[2]
    assert ((errors > 0) & (errors < 1)).all()


def test_what_more_labels_would_buy_from_what_the_run_keeps(tmp_path, monkeypatch):
    run, _ = made_run(tmp_path)
    save_labeled(tmp_path, learnable())
    quick = partial(smaller_trainings, witnesses=["neighbours"], series=3)
    monkeypatch.setattr("labelgrad.fitting.more.smaller_trainings", quick)
    found = more_labels(run, [20, 80])
    assert [each.labels for each in found.ahead] == [80, 100, 160]
    assert [labels for labels, _ in found.tried] == [20, 40, 60]
    errors = [each.error.value for each in found.ahead]
    assert errors == sorted(errors, reverse=True)
    pictures = draw_curve(found, "classification", tmp_path / "more")
    assert all(path.is_file() for path in pictures)
    (tmp_path / "labeled.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"labeled\.safetensors is damaged"):
        more_labels(run)


def test_what_more_labels_would_buy_is_refused_where_nothing_was_kept(tmp_path):
    run, _ = made_run(tmp_path)
    with pytest.raises(ValueError, match="features of labeled rows, and this run has none kept"):
        more_labels(run)
    with pytest.raises(ValueError, match="numbers of labels above 0"):
        more_labels(run, [0])


@pytest.fixture
def said(monkeypatch):
    """What a command prints, of the run that it is given."""

    def listen(run, call, *arguments, **options):
        console = Console(file=StringIO(), width=100)
        for module in (cli, "labelgrad.cli.labels"):
            name = module if isinstance(module, str) else module.__name__
            monkeypatch.setattr(f"{name}.load", lambda _: run)
            monkeypatch.setattr(f"{name}.Terminal", lambda: console)
        call(*arguments, **options)
        return console.file.getvalue()

    return listen


def test_commands_say_it_and_write_it(tmp_path, said):
    run, known = made_run(tmp_path, right=0.95)
    nothing = {"rows": None, "out": None, "seed": None, "filled": None, "new_classes": False}
    text = said(run, cli.run_audit, tmp_path, **nothing | {"rows": 200, "out": tmp_path / "a.csv"})
    assert "200 of 920 rows, drawn at random (seed 0)" in text
    write(tmp_path / "a.csv", {name: known[name] for name in Audits(tmp_path).drawn})
    text = said(run, cli.run_audit, tmp_path, **nothing | {"filled": tmp_path / "a.csv"})
    assert "200 new answers; 200 rows looked at in 1 draws" in text
    labels = {"above": 0.95, "look": None, "look_out": None, "corrections": None}
    promise = {"confidence": 0.95, "on_average": False, "rest_by_hand": False}
    text = said(
        run,
        run_labels,
        tmp_path,
        **labels,
        out=tmp_path / "l.csv",
        promise=promise | {"wrong_at_most": 0.05},
    )
    assert "at most 5 % of them are wrong, with 95 % confidence (200 random audits" in text
    assert (tmp_path / "l.csv").read_text().startswith("file,label,probability,origin\n")
    promise |= {"wrong_at_most": 0.005}
    with pytest.raises(ValueError, match=r"Nothing can be handed back with at most 0\.5 % wrong"):
        said(run, run_labels, tmp_path, **labels, out=None, promise=promise)
    text = said(run, cli.run_count, tmp_path, confidence=0.95, out=None)
    assert "by labels alone" in text
    text = said(run, cli.run_suspects, tmp_path, most=5, out=tmp_path / "s.csv")
    assert "80 given labels were judged" in text
    assert (tmp_path / "s.csv").read_text().startswith("file,label,given,other,given_probability,")


def test_powered_intervals_of_several_columns_are_those_of_each():
    rng = np.random.default_rng(0)
    predicted, off = rng.random(3), rng.normal(size=(3, 40))
    together = powered(predicted, off, 500, one_more=1.0)
    for place in range(3):
        alone = powered(predicted[place], off[place], 500, one_more=1.0)
        assert [end[place] for end in together] == pytest.approx([float(end) for end in alone])
