"""Figures of results/ on the site, under the links that also work where the repository is read.

A page says `../results/synthetic/synthetic.png`. The site has no folder above its own, so the
figures are copied into it and the links are shortened. A folder has no page, and is only named.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]


def on_files(files: Files, config: Any) -> Files:
    """Add every figure of results/ to the files of the site."""
    for figure in sorted(ROOT.glob("results/*/*.png")):
        name = figure.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to figures lead to the copies, and those to folders be their names alone."""
    markdown = re.sub(r"\]\(\.\./(results/[^)]+\.png)\)", r"](\1)", markdown)
    return re.sub(r"\[([^]]+)\]\(\.\./results/[^).]+\)", r"`\1`", markdown)
