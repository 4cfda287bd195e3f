"""Audits, guarantees, prevalence, label issues and the review list of runs that were made up."""

import numpy as np
import polars as pl
import pytest

from labelgrad.auto.annotations import Annotation, AnnotationLog, audit_of
from labelgrad.auto.audits import (
    audit_status,
    draw_audit,
    imputed_ids,
    repeat_draw,
    take_audit,
)
from labelgrad.auto.guarantee import (
    GuaranteeFinder,
    guarantee_table,
    guaranteed_labels,
)
from labelgrad.auto.label_issues import find_label_issues
from labelgrad.auto.prevalence import prevalence
from labelgrad.auto.queue import review_list
from tests.unit.auto.fake_runs import FILE, classification_run, regression_run


def truth_of(run, name):
    return (
        run.task.classes[run.truth[int(name) - 1]] if run.task.classes else run.truth[int(name) - 1]
    )


def answer(run, names, label=None):
    """Say in an audit what these are, or that all have a label; gives the log."""
    log = AnnotationLog(run.folder / FILE)
    labels = {name: label or truth_of(run, name) for name in names}
    log.add([Annotation(name, said, "audit", run.digest) for name, said in labels.items()])
    return log


def audited(run, n, seed=0):
    """Draw n audits by a seed, and answer them truthfully."""
    draw = repeat_draw(imputed_ids(run), n, seed, run.digest)
    AnnotationLog(run.folder / FILE).add([draw])
    answer(run, draw.ids)
    return draw


def wrong(run, labels):
    return [truth_of(run, name) != label for name, label in zip(*labels[:, :2], strict=True)]


# Audits


def test_a_draw_can_be_repeated_but_not_predicted(tmp_path):
    run = classification_run(folder=tmp_path)
    population = imputed_ids(run)
    first, second = draw_audit(run, 50), draw_audit(run, 50)
    assert first.seed != second.seed
    assert first == repeat_draw(population, 50, first.seed, run.digest)
    left = [name for name in population if name not in set(first.ids)]
    assert second == repeat_draw(left, 50, second.seed, run.digest)
    assert not set(first.ids) & set(second.ids)
    assert [draw.population for draw in AnnotationLog(tmp_path / FILE).draws] == [360, 310]


def test_draws_that_cannot_be_are_refused(tmp_path):
    run = classification_run(folder=tmp_path, n=50, labeled=40)
    with pytest.raises(ValueError, match="from 1 to 10"):
        draw_audit(run, 11)
    with pytest.raises(OSError, match="could not be written"):
        draw_audit(run, 10, path=tmp_path)  # a folder: nothing is drawn
    draw_audit(run, 10)
    with pytest.raises(ValueError, match="drawn for an audit already"):
        draw_audit(run, 1)
    with pytest.raises(ValueError, match="fit with `out`"):
        draw_audit(classification_run(), 5)


def test_a_filled_in_file_is_taken_and_gaps_are_told(tmp_path):
    run, file = classification_run(folder=tmp_path), tmp_path / "audit.csv"
    draw = draw_audit(run, 5, path=file)
    assert file.read_text().splitlines() == ["row,label", *(f"{name}," for name in draw.ids)]
    rows = [f"{draw.ids[0]},cow", f"{draw.ids[1]},", f"{draw.ids[2]},elk"]
    file.write_text("\n".join(["row,label", *rows]))
    with pytest.raises(ValueError, match="elk"):
        take_audit(run, file)
    assert take_audit(run, file, new_classes=True).startswith("2 new labels.")
    assert take_audit(run, file, new_classes=True).startswith("0 new labels.")
    audit = audit_of(AnnotationLog(tmp_path / FILE), run.digest)
    assert audit.gaps == [draw.ids[1]]
    assert "1 were left out" in audit_status(run)
    assert AnnotationLog(tmp_path / FILE).training_labels() == {}


def test_labels_of_examples_that_were_not_drawn_are_no_audit(tmp_path):
    run, file = classification_run(folder=tmp_path), tmp_path / "audit.csv"
    draw = draw_audit(run, 5)
    other = next(name for name in imputed_ids(run) if name not in draw.ids)
    file.write_text(f"row,label\n{other},cow\n")
    with pytest.raises(ValueError, match="not drawn"):
        take_audit(run, file)


# Guarantees


def test_selected_labels_are_the_most_confident_and_audits_are_corrected(tmp_path):
    run = classification_run(2000, folder=tmp_path, skill=2.5)
    draw = audited(run, 300)
    found = guaranteed_labels(run, 0.05)
    assert found.imputed > 300
    table = found.labels
    assert set(table.filter(pl.col("source") == "audit")["row"]) == set(draw.ids)
    imputed = table.filter(pl.col("source") == "imputed")
    least = imputed["confidence"].min()
    left_out = run.labels.filter(
        (pl.col("source") == "imputed") & ~pl.col("row").is_in(table["row"].to_list())
    )
    assert left_out["confidence"].max() <= least
    assert np.mean(wrong(run, table)) <= 0.05
    assert guaranteed_labels(run, 0.05, rest_by_hand=True).imputed >= found.imputed


def test_guarantees_hold(tmp_path_factory):
    broken = 0
    for seed in range(40):
        folder = tmp_path_factory.mktemp("run")
        run = classification_run(1000, folder=folder, seed=seed)
        audited(run, 150, seed)
        labels = guaranteed_labels(run, 0.05).labels
        broken += len(labels) > 0 and np.mean(wrong(run, labels)) > 0.05
    assert broken <= 5  # of 40; 2 are expected at most


def test_too_few_audits_say_how_many_more(tmp_path):
    run = classification_run(2000, folder=tmp_path)
    audited(run, 20)
    found = guaranteed_labels(run, 0.02)
    assert not len(found.labels)
    assert found.more_audits > 50
    assert f"{found.more_audits} more audits" in found.summary


def test_audits_of_an_earlier_model_do_not_count(tmp_path):
    run = classification_run(1000, folder=tmp_path)
    audited(run, 200)
    assert guaranteed_labels(run, 0.1).imputed
    later = classification_run(1000, folder=tmp_path, digest="model-2")
    with pytest.raises(ValueError, match="200 audits drawn before the last training no longer"):
        guaranteed_labels(later, 0.1)
    audited(later, 150)  # examples that were audited before may be drawn again
    found = guaranteed_labels(later, 0.1)
    assert len(found.evidence.audited) == 150
    assert "no longer count" in found.summary


def test_asking_again_with_the_same_audits_is_the_same_look(tmp_path):
    run = classification_run(1000, folder=tmp_path)
    audited(run, 200)
    first, again = guaranteed_labels(run, 0.1), guaranteed_labels(run, 0.1)
    assert again.labels.equals(first.labels)
    assert GuaranteeFinder(run, look=False).looks == [200]


def test_a_look_soon_after_another_shows_what_that_one_selected(tmp_path):
    run = classification_run(2000, folder=tmp_path)
    audited(run, 200)
    first = guaranteed_labels(run, 0.1)
    more = draw_audit(run, 20)
    log = answer(run, more.ids)
    again = guaranteed_labels(run, 0.1)
    assert again.rests_on == 200
    assert "first 200 of the random labels" in again.summary
    selected = set(first.labels["row"])
    assert selected <= set(again.labels["row"]) <= selected | set(more.ids)
    assert log.refresh() == AnnotationLog(tmp_path / FILE).lines
    assert GuaranteeFinder(run, look=False).looks == [200, 220]


def test_after_a_look_in_vain_more_audits_are_needed_than_without_one(tmp_path_factory):
    found = []
    for looks in (True, False):
        run = classification_run(2000, folder=tmp_path_factory.mktemp("run"), skill=1.0)
        audited(run, 100)
        finder = GuaranteeFinder(run, look=looks)
        assert not len(finder.select(0.05)[0])
        found.append(finder.more_audits(0.05))
    assert found[0] > found[1] > 0


def test_random_labels_count_until_other_labels_are_added():
    run = classification_run(1000, 200, source="random")
    found = guaranteed_labels(run, 0.1)
    assert found.imputed > 100
    assert len(found.evidence.random) == 200
    source = run.labels["source"].cast(pl.String).to_list()
    source[source.index("imputed")] = "accepted"
    run.labels = run.labels.with_columns(
        pl.Series("source", source).cast(run.labels["source"].dtype)
    )
    with pytest.raises(ValueError, match="no longer represent"):
        guaranteed_labels(run, 0.1)


def test_random_labels_do_not_vouch_for_another_model():
    run = classification_run(1000, 200, source="random")
    run.about.learned_from = 500
    with pytest.raises(ValueError, match="beyond the 500 that were learned from"):
        guaranteed_labels(run, 0.1)


def test_chosen_labels_give_no_guarantee():
    with pytest.raises(ValueError, match=r"40 given.*labelgrad audit"):
        guaranteed_labels(classification_run(), 0.05)
    assert "labelgrad audit" in guarantee_table(classification_run()).sentence


def test_a_gap_counts_as_a_mistake(tmp_path):
    run = classification_run(folder=tmp_path, skill=9.0)
    answer(run, draw_audit(run, 10).ids[2:])
    found = guaranteed_labels(run, 0.1)
    assert (found.mistakes, found.evidence.gaps) == (2, 2)


def test_when_everything_is_audited_everything_is_selected(tmp_path):
    run = classification_run(60, 20, folder=tmp_path, skill=1.0)
    audited(run, 40)
    found = guaranteed_labels(run, 0.01)
    assert len(found.labels) == 40
    assert not found.imputed
    assert not any(wrong(run, found.labels))


def test_the_table_for_the_report(tmp_path):
    run = classification_run(1000, folder=tmp_path)
    audited(run, 200)
    rows = guarantee_table(run).rows
    assert [row["max_error_rate"] for row in rows] == [0.1, 0.05, 0.02]
    assert [row["selected"] for row in rows] == [
        guaranteed_labels(run, r).imputed for r in (0.1, 0.05, 0.02)
    ]
    assert rows[-1]["selected"] or rows[-1]["more"]


def test_values_have_no_guarantee():
    with pytest.raises(ValueError, match="never exactly right"):
        guaranteed_labels(regression_run(), 0.05)


# Prevalence


@pytest.mark.parametrize("source", ["given", "random"])
def test_prevalences_are_covered(tmp_path_factory, source):
    covered, narrower = [], []
    for seed in range(30):
        folder = tmp_path_factory.mktemp("run")
        run = classification_run(800, 120, source=source, folder=folder, seed=seed)
        if source == "given":
            audited(run, 100, seed)
        found = prevalence(run)
        assert found.labels == (100 if source == "given" else 120)
        for code, each in enumerate(found.table.rows(named=True)):
            share = (run.truth == code).mean()
            covered.append(each["low"] <= share <= each["high"])
            width = each["high_by_labels"] - each["low_by_labels"]
            narrower.append(each["high"] - each["low"] < width)
    assert np.mean(covered) > 0.9
    assert np.mean(narrower) > 0.9


def test_the_mean_of_values_is_covered(tmp_path_factory):
    covered = []
    for seed in range(30):
        folder = tmp_path_factory.mktemp("run")
        run = regression_run(folder=folder, seed=seed)
        audited(run, 40, seed)
        found = prevalence(run).table.row(0, named=True)
        assert found["name"] == "mean"
        assert found["low_by_labels"] < found["value_by_labels"] < found["high_by_labels"]
        covered.append(found["low"] <= run.truth.mean() <= found["high"])
    assert np.mean(covered) > 0.8


def test_a_class_that_only_audits_have_gets_a_prevalence(tmp_path):
    run = classification_run(folder=tmp_path)
    draw = draw_audit(run, 30)
    answer(run, draw.ids[:10], "elk")
    answer(run, draw.ids[10:])
    table = prevalence(run).table
    elk = table.filter(pl.col("name") == "elk").row(0, named=True)
    assert 0 < elk["low"] < elk["value"] < elk["high"] < 1


def test_audits_and_random_labels_count_together(tmp_path):
    run = classification_run(800, 100, source="random", folder=tmp_path)
    answer(run, audited(run, 60).ids[:1], "elk")
    found = prevalence(run)
    assert found.labels == 160
    for code, each in enumerate(found.table.head(3).rows(named=True)):
        assert each["low"] <= (run.truth == code).mean() + 0.01
        assert each["high"] >= (run.truth == code).mean() - 0.01


def test_gaps_make_intervals_wider(tmp_path):
    run = classification_run(folder=tmp_path)
    draw = draw_audit(run, 60)
    answer(run, draw.ids[5:])
    with_gaps = prevalence(run).table.select(pl.col("high") - pl.col("low")).item(0, 0)
    answer(run, draw.ids[:5])
    without = prevalence(run).table.select(pl.col("high") - pl.col("low")).item(0, 0)
    assert without < with_gaps


def test_no_random_labels_no_interval():
    with pytest.raises(ValueError, match=r"sampled at random, and this run has none \("):
        prevalence(classification_run())


def test_one_random_label_gives_no_interval(tmp_path):
    run = classification_run(folder=tmp_path)
    answer(run, draw_audit(run, 5).ids[:1])
    with pytest.raises(ValueError, match=r"this run has only 1 \("):
        prevalence(run)


# Label issues, review


def test_swapped_labels_are_found():
    run = classification_run(600, 200, skill=6.0)
    swapped = np.array([3, 50, 120])
    run.held_out.y = run.held_out.y.copy()
    run.held_out.y[swapped] = (run.held_out.y[swapped] + 1) % 3
    found = find_label_issues(run, 5)
    assert set(found["row"][:3]) == {str(row + 1) for row in run.held_out.rows[swapped]}
    assert found["is_issue"][0]
    assert "base models differ" in found["reason"][0]


def test_values_far_from_their_prediction_are_found():
    run = regression_run()
    run.held_out.y = run.held_out.y.copy()
    run.held_out.y[7] += 5
    found = find_label_issues(run, 3)
    assert found["row"][0] == "8"
    assert found["is_issue"][0]
    assert found["given"][0] == pytest.approx(run.task.mean + run.task.scale * run.held_out.y[7])


def test_the_review_list_has_doubtful_labels_first_and_annotated_ones_not(tmp_path):
    run = classification_run(folder=tmp_path, skill=1.5)
    listed = review_list(run, 30)
    is_wrong = wrong(run, listed)
    everywhere = run.labels.filter(pl.col("source") == "imputed")
    assert np.mean(is_wrong) > np.mean(wrong(run, everywhere)) + 0.1
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation(listed["row"][0], "cow", "choose")])
    assert review_list(run, 29)["row"].to_list() == listed["row"][1:].to_list()


def test_review_lists_of_values():
    listed = review_list(regression_run(), 10)
    assert len(listed) == 10
