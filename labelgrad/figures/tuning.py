"""How near to the paper's curves each setting comes, and how low its test loss."""

from __future__ import annotations

from pathlib import Path

from labelgrad.experiments.results import Line
from labelgrad.experiments.tuning import HOPELESS, SPACE
from labelgrad.figures.canvas import GREY, OURS, THEIRS, canvas, save

TITLES = {
    "learning_rate": "learning rate α_θ",
    "label_rate": "label rate α_w",
    "gradient_decay": "decay of EMA(g_ℓ)",
    "moment_decay": "decay of EMA(v⁴)",
    "epsilon": "ε_norm",
    "labeled_weight": "weight T of the labeled gradient",
}


def draw_tuning(lines: list[Line], out: Path) -> list[Path]:
    """One panel a setting: the sweep of it alone as lines, the whole search as faint points."""
    figure, panels = canvas(2, 3, (11, 6))
    for panel, (name, title) in zip(panels, TITLES.items(), strict=True):
        _search(panel, name, lines)
        _sweep(panel, name, lines)
        if not SPACE[name].values:
            panel.set_xscale("log")
        panel.set(title=title, ylim=(0, 0.9))
    panels[0].legend(frameon=False, fontsize=8)
    return save(figure, out / "tuning")


def _search(panel: object, name: str, lines: list[Line]) -> None:
    chosen = [line for line in lines if line["stage"] == "search"]
    where = [line["settings"][name] for line in chosen]
    kept = [line["accuracy_distance"] <= HOPELESS or line["last_step"] > 200 for line in chosen]
    colors = [GREY if k else "none" for k in kept]
    panel.scatter(  # type: ignore[attr-defined]
        where,
        [line["distance"] for line in chosen],
        s=16,
        facecolors=colors,
        edgecolors=GREY,
        alpha=0.6,
        label="search: distance (hollow: given up)",
    )


def _sweep(panel: object, name: str, lines: list[Line]) -> None:
    chosen = [line for line in lines if line["stage"] == "sweep"]
    chosen = [line for line in chosen if line["moved"] in (name, "centre")]
    chosen.sort(key=lambda line: float(line["settings"][name]))
    where = [line["settings"][name] for line in chosen]
    for key, color, label in (
        ("distance", OURS, "this setting alone: distance"),
        ("lowest_loss", THEIRS, "this setting alone: lowest test loss"),
    ):
        heights = [line[key] for line in chosen]
        panel.plot(where, heights, "o-", color=color, label=label)  # type: ignore[attr-defined]
