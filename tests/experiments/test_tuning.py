"""The search for settings: seeded, inside its space, one setting at a time, honest scores."""

from dataclasses import asdict

import pytest

from experiments.paper.numbers import paper_curves
from experiments.paper.synthetic import Settings
from experiments.paper.synthetic_tuning import (
    HOPELESS,
    SPACE,
    distance,
    hopeless,
    neighbours,
    spread,
    tuning_trial,
)


def test_the_search_begins_where_we_are_and_stays_inside_the_space():
    found = spread(40, seed=1)
    assert found[0] == Settings()
    assert found == spread(40, seed=1) != spread(40, seed=2)
    for settings in found[1:]:
        for name, value in asdict(settings).items():
            where = SPACE[name]
            assert value in where.values or where.low <= value <= where.high


def test_more_trials_begin_with_the_same_ones():
    assert spread(20)[:10] == spread(10)


def test_neighbours_differ_in_the_one_setting_they_name():
    (moved, first), *others = neighbours(Settings())
    assert (moved, first) == ("centre", Settings())
    assert {name for name, _ in others} == set(SPACE)
    for name, settings in others:
        changed = [key for key, value in asdict(settings).items() if value != getattr(first, key)]
        assert changed == [name]


def test_the_paper_is_at_no_distance_from_itself():
    curve = paper_curves("synthetic_loss")["lga"]
    lines = [{"step": s, "loss": m} for s, m in zip(curve.x, curve.mean, strict=True)]
    assert distance(lines, "loss") == 0
    lines = [line | {"loss": line["loss"] + (-1) ** i} for i, line in enumerate(lines)]
    assert distance(lines, "loss") == 1


@pytest.mark.parametrize(("shift", "given_up"), [(-0.2, True), (0.2, False), (-0.1, False)])
def test_only_a_trial_far_behind_is_given_up(shift, given_up):
    curve = paper_curves("synthetic_accuracy")["lga"]
    points = zip(curve.x[:9], curve.mean, strict=False)
    lines = [{"step": step, "accuracy": mean + shift} for step, mean in points]
    assert abs(shift) > HOPELESS or not given_up
    assert hopeless(lines) == given_up
    assert not hopeless(lines[:-1])


def test_a_trial_is_one_line_with_its_score_and_curves():
    (line,) = tuning_trial(
        stage="search", moved="all", settings=Settings(), seed=1000, scale="tiny"
    )
    assert line["settings"] == asdict(Settings())
    assert line["curve"]["step"] == [0, 10, 20]
    assert line["lowest_loss"] == min(line["curve"]["loss"])
    both = (line["accuracy_distance"] + line["loss_distance"]) / 2
    assert line["distance"] == pytest.approx(both)
