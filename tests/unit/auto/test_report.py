"""The report: what comes from the data is escaped, nothing is loaded, all models are there."""

import re

import numpy as np
import polars as pl
import pytest

import labelgrad

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    names = np.where(x[:, 0] > 0, HOSTILE, "a & b")
    table = {HOSTILE: x[:, 0], "second": x[:, 1], "kind": [*names[:30], *[None] * 50]}
    result = labelgrad.fit(pl.DataFrame(table), target="kind", base_models="linear", steps=20)
    return result.page


def test_names_from_the_data_are_text_and_never_markup(page):
    assert HOSTILE not in page
    assert "&lt;script&gt;alert(" in page
    assert "a &amp; b" in page


def test_one_script_runs_and_nothing_is_loaded(page):
    assert len(re.findall(r"<script", page)) == 1
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    assert "default-src &#39;none&#39;" in page


@pytest.mark.parametrize("part", ["leaderboard", "guarantees", "data", "mistakes", "map", "labels"])
def test_the_page_has_its_parts(page, part):
    assert f'<section id="{part}">' in page
    assert f'href="#{part}"' in page


def test_all_models_are_on_the_leaderboard(page):
    for name in ("linear", "ensemble", "student"):
        assert f"<bdi>{name}</bdi>" in page
