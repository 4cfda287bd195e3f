"""The notebook runs from top to bottom, and shows what it shows now."""

import json

from tests.system.snippets import ROOT

NOTEBOOK = ROOT / "examples" / "first-steps.ipynb"


def test_the_notebook_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    names: dict = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] or not cell["source"]
            exec("".join(cell["source"]), names)
    share = names["wrong"].mean()
    assert len(names["wrong"]) > 1000 and share <= 0.05
    assert "guaranteed labels are wrong" in capsys.readouterr().out
