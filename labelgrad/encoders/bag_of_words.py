"""Texts as bags of words: TF-IDF and a truncated SVD, learned from all texts, labeled or not.

It needs nothing but scikit-learn, and all that was learned can be kept as JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelgrad.encoders.base import TEXT, Record

NAME = "tf-idf"
MOST_WORDS = 5000  # words and pairs of words, the commonest
WIDTH = 128  # directions that are kept of them
MOST_LETTERS = 100_000  # of a text that are read
SPACED = 12  # letters between two spaces on average at most, where spaces part words
WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": (1, 2)}
LETTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3)}
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class BagOfWords:
    """Which words are counted, how much each counts, and the directions that are kept.

    >>> bag = BagOfWords.fit(["a good film", "a bad film", "good food", "bad food"] * 3)
    >>> bag.words[:3], bag.encode(["good film", "what"]).shape
    (('bad', 'bad film', 'bad food'), (2, 8))
    >>> again = BagOfWords.of(bag.record)
    >>> np.array_equal(again.encode(["a film"]), bag.encode(["a film"]))
    True
    """

    words: tuple[str, ...]
    by_letters: bool  # where words are not parted by spaces
    idf: NDArray[np.float64]  # (words,)
    directions: Rows | None  # (width, words); None where words are few

    @classmethod
    def fit(cls, texts: Sequence[str]) -> BagOfWords | None:
        """What these texts have; None if they have no words."""
        from sklearn.decomposition import TruncatedSVD

        if not any(text.strip() for text in texts):
            return None
        letters, spaces = sum(map(len, texts)), sum(text.count(" ") + 1 for text in texts)
        by_letters = letters > SPACED * spaces
        found = _counted(texts, by_letters) or _counted(texts, True)
        if found is None:
            return None
        vectorizer, counts = found
        words = tuple(vectorizer.get_feature_names_out().tolist())
        directions = None
        if len(words) > WIDTH:
            width = min(WIDTH, len(texts) - 1)
            svd = TruncatedSVD(max(width, 1), random_state=0).fit(counts)
            directions = svd.components_.astype(np.float16).astype(np.float32)  # as it is kept
        return cls(words, vectorizer.analyzer == "char", vectorizer.idf_, directions)

    @classmethod
    def of(cls, record: Record) -> BagOfWords:
        """The bag that a record describes."""
        words, packed = tuple(record["words"]), record["directions"]
        directions = None
        if packed is not None:
            flat = np.frombuffer(base64.b64decode(packed), np.float16)
            directions = flat.reshape(-1, len(words)).astype(np.float32)
        by_letters = record["settings"]["by_letters"]
        return cls(words, by_letters, np.array(record["idf"]), directions)

    @property
    def record(self) -> dict[str, Any]:
        """All of it, as plain values."""
        packed = None
        if self.directions is not None:
            packed = base64.b64encode(self.directions.astype(np.float16).tobytes()).decode()
        return {
            "name": NAME,
            "kind": TEXT,
            "settings": {"by_letters": self.by_letters},
            "width": self.width,
            "words": list(self.words),
            "idf": self.idf.tolist(),
            "directions": packed,
        }

    @property
    def width(self) -> int:
        """Numbers for each text."""
        return len(self.words) if self.directions is None else len(self.directions)

    def encode(self, texts: Sequence[str]) -> Rows:
        """(n, width); a text without a known word has zeros."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        settings = LETTERS if self.by_letters else WORDS
        vectorizer = TfidfVectorizer(**settings, vocabulary=self.words, sublinear_tf=True)
        vectorizer.idf_ = self.idf
        counts = vectorizer.transform([text[:MOST_LETTERS] for text in texts])
        rows = counts.toarray() if self.directions is None else counts @ self.directions.T
        return np.asarray(rows, dtype=np.float32)


def _counted(texts: Sequence[str], by_letters: bool) -> tuple[Any, Any] | None:
    """A fitted vectorizer and the counts; None where there is nothing to count."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    settings = LETTERS if by_letters else WORDS
    for least in (2, 1):  # a word of one text alone says nothing about others
        vectorizer = TfidfVectorizer(
            **settings, max_features=MOST_WORDS, min_df=least, sublinear_tf=True
        )
        try:
            return vectorizer, vectorizer.fit_transform([text[:MOST_LETTERS] for text in texts])
        except ValueError:  # an empty vocabulary
            continue
    return None
