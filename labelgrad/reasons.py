"""What the error of another library says, as a part of a sentence of ours."""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    r"""The first line of an error without its end, or its kind where it says nothing.

    >>> reason_of(ValueError("no such layer.\nin line 3")), reason_of(KeyError())
    ('no such layer', 'KeyError')
    """
    return next(iter(str(error).splitlines()), "").rstrip(":. ") or type(error).__name__
