"""Imports point one way, as `[tool.importlinter]` says, and the map shows every room."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS = TOOLS["importlinter"]["contracts"]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path, contract: str) -> subprocess.CompletedProcess:
    """Judge the package in a folder by one contract of that folder's pyproject.toml."""
    command = [sys.executable, "-c", LINT, "--no-cache", "--no-logo", "--contract", contract]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("contract", [contract["id"] for contract in CONTRACTS])
def test_the_contract_holds(contract):
    found = lint(ROOT, contract)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("contract", "module", "line"),
    [
        ("layers", "training/run.py", "from labelgrad.cli import console"),
        ("layers", "labels/alignment.py", "def late():\n    from labelgrad.objectives import lga"),
        ("layers", "inputs/read.py", "from labelgrad.report import page"),
        ("layers", "attic/__init__.py", ""),
        ("paper", "cli/app.py", "import labelgrad.paper.numbers"),
    ],
    ids=["upwards", "inside-a-function", "sideways", "a-room-without-a-place", "the-paper"],
)
def test_a_breach_is_found(contract, module, line, tmp_path):
    """The same contracts, on copies of the module names alone."""
    for path in (ROOT / "labelgrad").rglob("*.py"):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    # An import that the contract ignores must be there to be ignored.
    (tmp_path / "labelgrad/__init__.py").write_text("import labelgrad.step\n")
    assert lint(tmp_path, contract).returncode == 0
    guilty = tmp_path / "labelgrad" / module
    guilty.parent.mkdir(exist_ok=True)
    guilty.write_text(line + "\n")
    assert lint(tmp_path, contract).returncode == 1


def test_the_map_shows_every_room():
    shown = (ROOT / "CONTRIBUTING.md").read_text()
    (layers,) = (contract["layers"] for contract in CONTRACTS if "layers" in contract)
    rooms = re.findall(r"\w+", " ".join(layers))
    missing = [room for room in rooms if not re.search(rf"\b{room}(/|\.py)", shown)]
    assert missing == []
