"""Semi-supervised learning: label gradient alignment and its kin, and `labelgrad.auto`.

The public names stand in `__init__.pyi`, for type checkers and for this file. They are loaded when
first used, so that importing the package, or asking the command for help, does not wait for
PyTorch.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.2.0.dev0"

_IMPORTS = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
_MODULES = {
    name.name: str(each.module)
    for each in _IMPORTS
    if isinstance(each, ast.ImportFrom)
    for name in each.names
}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'labelgrad' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
