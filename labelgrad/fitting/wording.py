"""Numbers as a person reads them, the same in tables, sentences and pages."""

from __future__ import annotations


def shown_error(error: float, task: str) -> str:
    """A share of mistakes in percent, or a distance in the units of the target.

    >>> shown_error(0.1, "classification"), shown_error(59.8642, "regression")
    ('10.0 %', '59.86')
    """
    return f"{100 * error:.1f} %" if task == "classification" else f"{error:.4g}"
