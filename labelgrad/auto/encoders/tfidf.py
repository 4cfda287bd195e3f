"""TF-IDF and a truncated SVD of texts, fitted on all texts, labeled or not.

It needs nothing but scikit-learn, and what it learned is a dictionary that JSON can hold.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.auto.encoders.encoder import TEXTS
from labelgrad.auto.store import allocate
from labelgrad.auto.task import Array

NAME = "tf-idf"
MAX_TERMS = 5000
COMPONENTS = 128
MAX_LETTERS = 100_000  # of a text that are read
MAX_WORD = 12  # letters between two spaces on average, where spaces separate words
CHUNK = 4096  # texts
WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": (1, 2), "sublinear_tf": True}
CHARACTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3), "sublinear_tf": True}


def fit_tfidf(texts: Sequence[str]) -> dict[str, Any] | None:
    """Fit the weights of terms, and an SVD where terms are many.

    Parameters
    ----------
    texts
        None of them is empty.

    Returns
    -------
    dict or None
        What every description of an encoder has, with terms and weights; None if the texts have no
        words.

    Examples
    --------
    >>> saved = fit_tfidf(["a good film", "a bad film", "good food", "bad food"] * 3)
    >>> saved["terms"][:3], tfidf_features(saved, ["good film", "what"]).shape
    (['bad', 'bad film', 'bad food'], (2, 8))
    """
    from sklearn.decomposition import TruncatedSVD

    found = _fit_vectorizer([text[:MAX_LETTERS] for text in texts])
    if found is None:
        return None
    vectorizer, counts = found
    terms, packed = vectorizer.get_feature_names_out().tolist(), None
    width = len(terms)
    if width > COMPONENTS:
        width = max(min(COMPONENTS, len(texts) - 1), 1)
        components = TruncatedSVD(width, random_state=0).fit(counts).components_
        packed = base64.b64encode(components.astype(np.float16).tobytes()).decode()
    return {
        "name": NAME,
        "kind": TEXTS,
        "settings": {"by_character": vectorizer.analyzer == "char"},
        "width": width,
        "terms": terms,
        "idf": vectorizer.idf_.tolist(),
        "components": packed,
    }


def tfidf_features(
    saved: Mapping[str, Any], texts: Sequence[str | None], cache: str | Path | None = None
) -> Array:
    """Features (n, width); zeros for a text that is missing or has no known term.

    Parameters
    ----------
    saved
        What `fit_tfidf` returned; ValueError if it is damaged.
    texts
        None where missing.
    cache
        The folder of a large array.

    Returns
    -------
    Array
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    terms, idf = saved["terms"], np.array(saved["idf"], float)
    components = None
    if saved["components"] is not None:
        flat = np.frombuffer(base64.b64decode(saved["components"]), np.float16)
        components = flat.astype(np.float32).reshape(saved["width"], len(terms))
    if not np.isfinite(idf).all() or not (components is None or np.isfinite(components).all()):
        raise ValueError("weights of TF-IDF must be finite")
    settings = CHARACTERS if saved["settings"]["by_character"] else WORDS
    vectorizer = TfidfVectorizer(**settings, vocabulary=terms)  # which checks that terms differ
    vectorizer.idf_ = idf  # which checks their number
    rows = allocate((len(texts), saved["width"]), "float32", cache)
    for start in range(0, len(texts), CHUNK):
        some = [(text or "")[:MAX_LETTERS] for text in texts[start : start + CHUNK]]
        counts = vectorizer.transform(some)
        dense = counts.toarray() if components is None else counts @ components.T
        rows[start : start + CHUNK] = dense
    return rows


def _fit_vectorizer(texts: Sequence[str]) -> tuple[Any, Any] | None:
    """A fitted vectorizer and the weighted counts; None where there is nothing to count."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in texts):
        return None
    letters, spaces = sum(map(len, texts)), sum(text.count(" ") + 1 for text in texts)
    has_words = letters <= MAX_WORD * spaces
    for settings in (WORDS, CHARACTERS) if has_words else (CHARACTERS,):
        for min_df in (2, 1):  # a term of one text alone says nothing about others
            vectorizer = TfidfVectorizer(**settings, max_features=MAX_TERMS, min_df=min_df)
            try:
                return vectorizer, vectorizer.fit_transform(texts)
            except ValueError:  # an empty vocabulary
                continue
    return None
