"""The files that a newcomer meets first agree with each other."""

import re
import tomllib

import pytest
import yaml

import labelgrad
from tests.system.snippets import README, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = [
    ".pre-commit-config.yaml",
    ".github/workflows/tests.yml",
    ".github/ISSUE_TEMPLATE/bug_report.yml",
    ".github/ISSUE_TEMPLATE/feature_request.yml",
    "CITATION.cff",
]


def load(name):
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.parametrize("name", FILES)
def test_it_can_be_read(name):
    assert isinstance(load(name), dict)


def test_the_citation_is_of_this_version():
    assert load("CITATION.cff")["version"] == labelgrad.__version__


def test_the_workflow_runs_the_two_commands_of_the_readme():
    steps = load(".github/workflows/tests.yml")["jobs"]["two-commands"]["steps"]
    run = [step["run"] for step in steps if "run" in step]
    assert run == re.findall(r"^    (make \w+)", README.read_text(), re.MULTILINE)


def test_the_oldest_python_that_is_promised_is_tested():
    matrix = load(".github/workflows/tests.yml")["jobs"]["two-commands"]["strategy"]["matrix"]
    assert PROJECT["requires-python"] == f">={matrix['python-version'][0]}"


def test_a_commit_is_checked_by_the_lint_and_types_of_make_test():
    hooks = load(".pre-commit-config.yaml")["repos"][0]["hooks"]
    test = re.search(r"^test: ([\w ]*\w)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert [hook["entry"] for hook in hooks] == [f"make {name}" for name in test[1].split()]


def test_everything_that_is_asked_for_has_an_exact_version():
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    extras = PROJECT["optional-dependencies"].values()
    asked = [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    names = {re.match(r"[\w.-]+", one)[0].lower() for one in asked}
    assert names <= {name.lower() for name in pinned}


def test_the_readme_is_two_screens():
    assert len(README.read_text().splitlines()) <= 90
