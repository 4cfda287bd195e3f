"""Yes and no in the words that tables have for them."""

from __future__ import annotations

from collections.abc import Iterable

PAIRS = (("true", "false"), ("yes", "no"), ("on", "off"), ("y", "n"), ("t", "f"))
WORDS = {word: pair[0] == word for pair in PAIRS for word in pair}
TRUE, FALSE = "\0true", "\0false"  # no cell of a file holds a zero byte


def truth(text: str) -> str:
    """One sign for all words that mean yes, one for all that mean no, and nothing for others.

    >>> truth("Yes") == truth("TRUE") == truth("1"), truth("Yes") == truth("n"), truth("maybe")
    (True, False, '')
    """
    said = WORDS.get(text.casefold(), {"1": True, "0": False}.get(text))
    return "" if said is None else TRUE if said else FALSE


def are_truths(texts: Iterable[str]) -> bool:
    """Whether the texts are such words, both yes and no; single letters must belong together.

    >>> are_truths(["yes", "No", "TRUE"]), are_truths(["t", "n"]), are_truths(["yes", "maybe"])
    (True, False, False)
    """
    words = {text.casefold() for text in texts}
    if not words or not all(word in WORDS for word in words):
        return False
    if len({WORDS[word] for word in words}) < 2:
        return False
    return any(len(word) > 1 for word in words) or words in map(set, PAIRS)
