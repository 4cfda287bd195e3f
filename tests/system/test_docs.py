"""Every page is a story that runs from top to bottom, and the site has all it needs in itself."""

import importlib
import inspect
import re
import subprocess
import sys
from dataclasses import fields

import click
import pytest
import torch

import labelgrad
from experiments.paper.settings import choice
from labelgrad import FitConfig, methods
from labelgrad.auto.base_models.registry import BASE_MODELS
from labelgrad.auto.cli.app import app
from labelgrad.methods import every_method
from tests.conftest import WIDTH, make_step
from tests.system.snippets import (
    PAGES,
    README,
    ROOT,
    all_commands,
    blocks,
    check_command,
    commands,
    make_quick,
    run_command,
    run_python,
)
from tests.unit import test_contract as contract

# In a page, `python` and `sh` are run; `text`, indented lines and the README's are only shown.
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
STORIES = [
    page for page in PAGES if any(block.language in ("python", "sh") for block in blocks(page))
]
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//"
)


@pytest.mark.slow
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
def test_every_snippet_of_a_page_runs_after_those_before_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_quick(monkeypatch)
    names = {"__name__": page.stem}
    for language, code in blocks(page):
        if language == "python":
            run_python(code, names)
        elif language == "sh":
            for arguments in commands(code):
                run_command(arguments)


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_runs(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_python(file.read_text(), {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) >= 2


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_every_command_of_a_page_is_one_that_labelgrad_knows(page):
    for arguments in all_commands(page):
        check_command(arguments)


def test_the_pages_have_their_commands():
    assert len(all_commands(README)) >= 3
    assert ["fit", "pets.csv", "--target", "kind", "--out", "runs/pets"] in all_commands(README)
    assert sum(len(all_commands(page)) for page in PAGES) >= 15


@pytest.mark.parametrize("line", ["fti pets.csv", "fit pets.csv --taget kind", "methods lga"])
def test_a_command_that_labelgrad_does_not_know_is_found(line):
    with pytest.raises(click.UsageError, match=r"No such|unexpected"):
        check_command(line.split())


def test_the_page_on_comparing_has_every_method_with_its_cost():
    page = (ROOT / "docs" / "comparing.md").read_text()
    listed = dict(re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) \|$", page, re.MULTILINE))
    gradient = 3  # forward passes of a labeled batch
    costs = {name: str(gradient + method.passes) for name, method in every_method().items()}
    assert listed == {"supervised": str(gradient)} | costs


def test_the_page_on_base_models_has_every_one():
    page = (ROOT / "docs" / "base-models.md").read_text()
    assert [name for name in BASE_MODELS if f"`{name}`" not in page] == []


def test_the_glossary_is_in_order():
    page = (ROOT / "docs" / "glossary.md").read_text()
    terms = re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)
    assert len(terms) >= 25
    assert terms == sorted(terms, key=str.lower)


def test_the_reference_has_every_public_name():
    page = (ROOT / "docs" / "reference.md").read_text()
    named = set(re.findall(r"`(\w+)`", page)) & set(labelgrad.__all__)
    drawn = set(re.findall(r"^::: [\w.]+\.(\w+)$", page, re.MULTILINE))
    everything = set(labelgrad.__all__) - {"__version__"}
    assert named == everything
    assert everything - {"FitConfig"} <= drawn  # its fields are a table


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_links_lead_to_something_where_the_repository_is_read(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.slow
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("mkdocs", reason="the site needs pip install 'labelgrad[docs]'")
    pytest.importorskip("mkdocstrings", reason="the site needs pip install 'labelgrad[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in tmp_path.rglob("*.html"):
        assert LOADED.findall(page.read_text()) == [], page
    for sheet in tmp_path.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(?:https?:)?//", sheet.read_text()), sheet
    assert (tmp_path / "results/synthetic/synthetic.png").exists()
    reference = (tmp_path / "reference.html").read_text()
    for option in fields(FitConfig):
        assert f"<code>{option.name}</code>" in reference
    assert "&gt;&gt;&gt;" in reference  # examples are code, not quotations
    assert "<blockquote>" not in reference


@pytest.fixture
def mixmatch(tmp_path, monkeypatch):
    """The file of the page that adds a method, laid where it belongs."""
    make_quick(monkeypatch)
    page = blocks(ROOT / "docs" / "add-a-method.md")
    code = next(code for _, code in page if code.startswith('"""MixMatch'))
    (tmp_path / "mixmatch.py").write_text(code)
    folder = importlib.import_module("labelgrad.objectives")
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    methods._read_files.cache_clear()
    yield importlib.import_module("labelgrad.objectives.mixmatch").MixMatch
    sys.modules.pop("labelgrad.objectives.mixmatch")


def test_the_method_that_the_page_adds_is_known_by_its_file_alone(mixmatch, capsys):
    app(args=["methods"], standalone_mode=False)
    assert "mixmatch" in capsys.readouterr().out
    assert methods.every_method()["mixmatch"].paper == "Berthelot et al., 2019"
    problem = methods.Problem(rows=20, width=4, batch_size=5, steps=100)
    alone, both = (methods.method(name, problem) for name in ("mixmatch", "lga+mixmatch"))
    assert [type(leaf) for leaf in alone.leaves()] == [mixmatch]  # it has the labeled loss in it
    assert {leaf.name for leaf in both.leaves()} == {"lga", "mixmatch"}
    assert choice("mixmatch", "laptop", "cifar10").terms == {"mixmatch": {"weight": 75.0}}


def test_the_method_that_the_page_adds_keeps_the_contract(mixmatch, tmp_path):
    held = {name: test for name, test in vars(contract).items() if name.startswith("test_")}
    assert len(held) >= 12
    for name, test in held.items():
        known = {"network": "conv", "tmp_path": tmp_path / name}
        needed = set(inspect.signature(test).parameters) - {"make"}
        if name != "test_a_batch_in_two_halves_moves_the_model_as_the_whole_one_does":  # it draws
            test(lambda: mixmatch(WIDTH, weight=1.0), **{each: known[each] for each in needed})


def test_the_method_that_the_page_adds_is_its_equations(mixmatch):
    step = make_step("mlp", labeled=3, unlabeled=2)
    term = mixmatch(WIDTH, weight=2.0)
    share, order = term.draw(step, 7)
    value = term(make_step("mlp", labeled=3, unlabeled=2))
    u, model = step.unlabeled.x, step.model
    guess = [p**2 / sum(p**2) for p in model(u).softmax(-1).detach()]
    labels = [*torch.eye(WIDTH)[step.labeled.y], *guess, *guess]
    heap = list(zip([*step.labeled.x, *u, *u], labels, strict=True))
    total = 0
    for place, other in enumerate(order.tolist()):
        (x, y), (x2, y2) = heap[place], heap[other]
        p = model((share * x + (1 - share) * x2)[None]).softmax(-1)[0]
        wanted = share * y + (1 - share) * y2
        total += -(wanted * p.log()).sum() / 3 if place < 3 else 2 * ((p - wanted) ** 2).mean() / 4
    assert value.item() == pytest.approx(total.item())
