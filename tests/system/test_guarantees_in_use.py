"""People use guarantees: they audit, correct, accept easy pages, train anew and ask again."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import labelgrad
from labelgrad.auto.annotations import Annotation, log_of, take_corrections
from labelgrad.auto.audits import draw_audit
from labelgrad.auto.guarantee import guaranteed_labels
from labelgrad.auto.server.session import ReviewSession

SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]


def wrong_share(labels: pl.DataFrame, truth: np.ndarray) -> float:
    """The share of labels that are wrong."""
    rows = labels["row"].cast(pl.Int64).to_numpy() - 1
    return float((labels["label"].cast(pl.String).cast(pl.Int64).to_numpy() != truth[rows]).mean())


def is_kept(result, rate: float, truth: np.ndarray) -> bool:
    """Whether a guarantee is true, or none is given."""
    try:
        labels = guaranteed_labels(result, rate).labels
    except ValueError:  # nothing is given
        return True
    return not len(labels) or wrong_share(labels, truth) <= rate


@pytest.mark.parametrize("seed", SEEDS)
def test_an_audit_does_not_count_after_a_training_that_learned_from_it(tmp_path, seed):
    """Rows like the mistakes that an audit showed are labeled, and no audited row is."""
    rng = np.random.default_rng(1000 + seed)
    groups = 140
    centre = 2 * rng.normal(size=(groups, 4))
    rule = (centre[:, 0] > 0).astype(int)
    kind = np.where(rng.random(groups) < 0.22, 1 - rule, rule)
    group = rng.permutation(np.arange(groups).repeat(5))
    x, y = centre[group] + 0.05 * rng.normal(size=(len(group), 4)), kind[group]
    given = np.full(len(y), -1)
    drawn = rng.permutation(len(y))[:50]
    given[drawn] = y[drawn]
    options = {"out": tmp_path / "run", "steps": 30, "base_models": "neighbours,extra trees"}
    result = labelgrad.fit(x, given, **options)
    audit = draw_audit(result, 80)
    log_of(result).add(
        [Annotation(n, str(y[int(n) - 1]), "audit", result.digest) for n in audit.ids]
    )
    assert is_kept(result, 0.05, y)
    labeled, audited = set(np.flatnonzero(given >= 0).tolist()), {int(n) - 1 for n in audit.ids}
    for _ in range(3):
        label = result.labels["label"].cast(pl.String).cast(pl.Int64).to_numpy()
        mistakes = [row for row in audited if label[row] != y[row]]
        near = [np.argsort(((x - x[row]) ** 2).sum(1))[1:5].tolist() for row in mistakes]
        like = {row for rows in near for row in rows} - audited - labeled
        if not like:
            break
        labeled |= like
        rows = np.array(sorted(like))
        pl.DataFrame({"row": rows + 1, "label": y[rows]}).write_csv(tmp_path / "c.csv")
        take_corrections(result, tmp_path / "c.csv")
        result = labelgrad.fit(x, given, out=tmp_path / "run", resume=True)
        assert is_kept(result, 0.05, y)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_labels_do_not_count_for_the_hard_rows_that_are_left(tmp_path, seed):
    """The most confident pages are accepted, and what is left is not what was sampled."""
    n, rng = 470, np.random.default_rng(500 + seed)
    x = rng.normal(size=(n, 3))
    x[:, 0] = np.sign(x[:, 0]) * (abs(x[:, 0]) + 0.8)
    hard = rng.random(n) < 0.10
    x[hard, 0] = rng.uniform(-0.5, 0.5, hard.sum())
    y = (x[:, 0] > 0).astype(int)
    y[hard] = rng.integers(0, 2, hard.sum())
    given = np.full(n, -1)
    drawn = rng.permutation(n)[:120]
    given[drawn] = y[drawn]
    out, options = tmp_path / "run", {"steps": 30, "base_models": "linear"}
    result = labelgrad.fit(x, given, out=out, label_sampling="random", **options)
    assert is_kept(result, 0.1, y)
    session = ReviewSession(out)
    order = result.labels.with_row_index("place").filter(pl.col("source") == "imputed")
    easy = order.sort("confidence", descending=True)["place"][:250].to_list()
    codes = result.labels["label"].to_physical().to_list()
    for start in (0, 125):
        entries = [
            {"row": row, "label": result.labels["label"][row], "seen": 0}
            for row in easy[start : start + 125]
            if codes[row] == y[row]
        ]
        session.annotate(entries, how="page", by="me")
    result = labelgrad.fit(x, given, out=out, resume=True)
    assert is_kept(result, 0.1, y)
    with pytest.raises(ValueError, match="no longer represent the unlabeled examples"):
        guaranteed_labels(result, 0.1)
