"""Audits, and labels handed back with a promise: what a run knows and says of its labels."""

import csv
import json

import numpy as np
import pytest

import labelgrad
from labelgrad.fitting.audits import FILE, Audits, draw_audit
from labelgrad.fitting.count import count
from labelgrad.fitting.promises import promised_labels
from labelgrad.fitting.provenance import BY_CLASS, RANDOM, UNKNOWN
from labelgrad.fitting.suspects import suspects
from labelgrad.fitting.trust import refresh_report
from tests.made_runs import made_run


def answer_all(folder, known, *, names=None):
    audits = Audits(folder)
    audits.answer({name: known[name] for name in (audits.open if names is None else names)})


def audited(tmp_path, rows, **options):
    """A made run with so many audits answered, and the truth."""
    run, known = made_run(tmp_path, **options)
    Audits(tmp_path).draw([row.name for row in run.labels], rows, seed=0)
    answer_all(tmp_path, known)
    return run, known


def test_no_row_is_ever_drawn_twice_and_the_seed_is_written_down(tmp_path):
    names = [str(row) for row in range(50)]
    for _ in range(5):
        Audits(tmp_path).draw(names, 9, seed=3)
    audits = Audits(tmp_path)
    assert len(set(audits.drawn)) == len(audits.drawn) == 45
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [(line["seed"], line["out_of"]) for line in lines] == [(3, 50 - 9 * k) for k in range(5)]
    with pytest.raises(ValueError, match=r"can draw from 1 to 5 rows.* got 6"):
        audits.draw(names, 6, seed=3)
    audits.draw(names, 5, seed=3)
    with pytest.raises(ValueError, match="no row left to audit, and 1 were asked for"):
        audits.draw(names, 1, seed=3)


def test_every_row_is_as_likely_to_be_drawn(tmp_path):
    names, counts = [str(row) for row in range(20)], np.zeros(20)
    for seed in range(100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        for name in Audits(folder).draw(names, 5, seed=seed).names:
            counts[int(name)] += 1
    assert ((counts - 25) ** 2 / 25).sum() < 44  # χ² of 19: one in a thousand


def test_what_was_written_is_only_added_to(tmp_path):
    drawn = Audits(tmp_path).draw(["1", "2", "3"], 3, seed=0).names
    before = (tmp_path / FILE).read_bytes()
    Audits(tmp_path).answer({drawn[0]: "cat"})
    Audits(tmp_path).answer({drawn[0]: "dog", drawn[2]: "cat"})
    assert (tmp_path / FILE).read_bytes().startswith(before)
    audits = Audits(tmp_path)
    assert audits.answers == {drawn[0]: "dog", drawn[2]: "cat"}
    assert audits.looked_at == {drawn[0]: "dog", drawn[1]: None, drawn[2]: "cat"}
    with pytest.raises(ValueError, match="'9' was not drawn for an audit"):
        audits.answer({"9": "cat"})
    (tmp_path / FILE).write_text("no json\n")
    with pytest.raises(ValueError, match=r"audits\.jsonl is damaged in line 1"):
        Audits(tmp_path)


def test_who_stops_has_looked_at_a_random_part_and_who_leaves_out_has_not(tmp_path):
    run, known = made_run(tmp_path, right=0.97)
    drawn = Audits(tmp_path).draw([row.name for row in run.labels], 100, seed=0).names
    answer_all(tmp_path, known, names=drawn[:60])
    half = promised_labels(run, 0.1)
    assert (half.drawn.audits, half.drawn.gaps) == (60, 0)
    answer_all(tmp_path, known, names=[*drawn[60:80], *drawn[85:]])
    gaps = promised_labels(run, 0.1)
    assert (gaps.drawn.audits, gaps.drawn.gaps) == (100, 5)
    said = {row.name: row.label for row in run.labels}
    wrong = sum(said[name] != known[name] for name in (*drawn[:80], *drawn[85:]))
    assert gaps.drawn.mistakes == wrong + 5
    assert "5 left out, which counts as a mistake" in gaps.sentence


def test_a_promise_hands_back_the_surest_and_the_audited_ones(tmp_path):
    run, known = audited(tmp_path, 200)
    found = promised_labels(run, 0.05)
    assert 0 < found.imputed < len(run.labels)
    sure = {row.name: row.label_probability for row in run.labels}
    taken = {row.name for row in found.labels}
    least = min(row.probability for row in found.labels if row.origin == "imputed")
    left = [sure[name] for name in sure.keys() - taken]
    assert max(left) <= least
    assert set(Audits(tmp_path).drawn) <= taken
    assert all(known[row.name] == row.label for row in found.labels if row.origin == "audit")
    wrong = sum(known[row.name] != row.label for row in found.labels)
    assert wrong <= 0.05 * len(found.labels)  # as it is with these seeds
    assert found.sentence == (
        f"{found.imputed} of 920 imputed labels, and 200 audited ones, can be handed back: at most "
        f"5 % of them are wrong, with 95 % confidence (200 random audits with "
        f"{found.drawn.mistakes} mistakes)."
    )
    found.save(tmp_path / "handed.csv", "file")
    with open(tmp_path / "handed.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == [row.name for row in found.labels]


def test_more_is_handed_back_with_the_rest_by_hand_and_on_average(tmp_path):
    run, _ = audited(tmp_path, 150, right=0.93)
    plain = promised_labels(run, 0.04)
    by_hand = promised_labels(run, 0.04, rest_by_hand=True)
    average = promised_labels(run, 0.04, on_average=True)
    assert plain.imputed < by_hand.imputed
    assert average.imputed > 0
    rest = len(run.labels) - len(by_hand.labels)
    assert f"once a person labels the other {rest}, at most 4 % of all 920" in by_hand.sentence
    assert "on average" in average.sentence
    with pytest.raises(ValueError, match="either `on_average` or with the `rest_by_hand`"):
        promised_labels(run, 0.04, on_average=True, rest_by_hand=True)


def test_what_cannot_be_promised_is_told_with_what_can_be_and_what_it_takes(tmp_path):
    run, _ = audited(tmp_path, 30, right=0.98)
    found = promised_labels(run, 0.02)
    assert found.labels == []
    assert 0.05 < found.bound < 0.25
    assert found.more > 60
    assert found.sentence.startswith("Nothing can be handed back with at most 2 % wrong: 30 random")
    assert f"at least {found.more} more audits, if they bring no mistake." in found.sentence


def test_where_every_row_was_looked_at_all_are_handed_back(tmp_path):
    run, known = audited(tmp_path, 120, labels=880, right=0.7)
    assert promised_labels(run, 0.01).drawn.mistakes > 10
    found = promised_labels(run, 0.01)
    assert (found.imputed, len(found.labels)) == (0, 120)
    assert all(known[row.name] == row.label for row in found.labels)


@pytest.mark.parametrize("origin", [UNKNOWN, BY_CLASS])
def test_labels_that_somebody_chose_allow_no_promise(origin, tmp_path):
    run, _ = made_run(tmp_path, origin=origin)
    with pytest.raises(
        ValueError, match=f"needs labels drawn at random.*80 {origin}.*--drawn random"
    ):
        promised_labels(run, 0.05)


def test_labels_drawn_at_random_stand_in_for_an_audit(tmp_path):
    run, _ = made_run(tmp_path, labels=300, origin=RANDOM)
    found = promised_labels(run, 0.1)
    assert (found.drawn.audits, found.drawn.random) == (0, 300)
    assert found.imputed > 0
    assert "300 labels drawn at random, hidden in turn, with" in found.sentence


def test_an_audited_row_that_was_trained_on_counts_by_what_was_said_while_it_was_hidden(tmp_path):
    run, known = made_run(tmp_path)
    audits = Audits(tmp_path)
    names = [example.name for example in run.examples]
    audits.draw(names, 200, seed=0)  # 80 of them are labels of the run by now
    answer_all(tmp_path, known)
    found = promised_labels(run, 0.2)
    trained = sum(int(name[:4]) < 80 for name in audits.drawn)
    assert (found.drawn.audits, found.drawn.random) == (200 - trained, trained)


def test_a_regression_is_refused_with_what_is_possible(tmp_path):
    run, _ = made_run(tmp_path, task="regression")
    with pytest.raises(ValueError, match="values are never quite right; `count` gives their mean"):
        promised_labels(run, 0.05)


@pytest.mark.slow
def test_a_run_knows_how_its_labels_came(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = np.where(np.arange(60) < 20, x[:, 0] > 0, -1)
    options = {"steps": 5, "witnesses": "linear", "out": tmp_path / "run"}
    labelgrad.fit(x, y, **options)
    run = labelgrad.load(tmp_path / "run")
    assert {example.origin for example in run.examples[:20]} == {UNKNOWN}
    assert {example.origin for example in run.examples[20:]} == {None}
    labelgrad.fit(x, y, **options, drawn="random", resume=True)
    again = labelgrad.load(tmp_path / "run")
    assert {example.origin for example in again.examples[:20]} == {RANDOM}
    assert promised_labels(again, 0.5).drawn.random == 20
    assert count(again).labels == 20
    assert len(suspects(again, 5)) == 5
    assert (tmp_path / "run" / "labeled.safetensors").is_file()
    assert "By 20 labels drawn at random, hidden in turn" in again.page
    draw_audit(again, 30)
    Audits(tmp_path / "run").answer(dict.fromkeys(Audits(tmp_path / "run").drawn, "0"))
    refresh_report(again)
    assert "By 30 random audits and 20 labels drawn" in labelgrad.load(tmp_path / "run").page
    with pytest.raises(ValueError, match="`drawn` must be one of random, by-class, unknown"):
        labelgrad.fit(x, y, drawn="somehow")
