"""Features of texts and images, for folders and for columns of texts in tables.

Each text or image passes through an encoder once; its features are stored in the cache by its
content. Rows of features are scaled to unit length, centered, and divided by one number so that the
mean variance of a column is 1: encoders tell things apart by direction, and how their axes are
stretched is part of what they learned. A missing row is all zeros, which is the mean.

Beside the features of an encoder stand plain ones, which tell apart what it was not trained on:
pixels averaged to 16×16, or TF-IDF and a truncated SVD, fitted on all texts, with labels or
without. Without an encoder texts have the plain ones alone. What was learned is a dictionary that
JSON can hold.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from labelgrad.auto.config import FitConfig
from labelgrad.auto.encoders.find import choose_encoder, encoder_again
from labelgrad.auto.encoders.pixels import decode_batch
from labelgrad.auto.encoders.pretrained import IMAGES, TEXTS, Encoder, pixel_encoder
from labelgrad.auto.events import SILENT, Events
from labelgrad.auto.store import Computed, RowStore, allocate, cache_folder, content_key
from labelgrad.auto.task import Array
from labelgrad.files import digest_of, json_bytes

MEAN_TOKEN = 4  # letters
BATCH = 64  # texts or images that pass through an encoder at once
CHUNK = 4096  # rows that are computed at once
MIN_SPREAD = 1e-3  # of rows of unit length in float32: below, all rows are the same
TFIDF = "tf-idf"
MAX_TERMS = 5000
COMPONENTS = 128
MAX_LETTERS = 100_000  # of a text that are read
MAX_WORD = 12  # letters between two spaces on average, where spaces separate words
WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": (1, 2), "sublinear_tf": True}
CHARACTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3), "sublinear_tf": True}
State = dict[str, Any]  # encoder, mean, scale, perhaps plain, a state; as JSON can hold it


class NothingToLearnError(ValueError):
    """All features are the same; the message is a reason.

    For example: "the texts have no words".
    """


@dataclass(frozen=True, eq=False)
class EncodedBlock:
    """Features of one column or folder."""

    features: Array  # (n, width) float32 of mean variance 1, zeros where missing; perhaps mapped
    state: State  # all that `encode_again` needs
    notes: Sequence[str] = ()
    failed: Mapping[int, str] = field(default_factory=dict)  # position of an image, reason


def encode_texts(
    texts: Sequence[str | None], config: FitConfig, events: Events = SILENT
) -> EncodedBlock:
    """Features of texts, by the encoder of the configuration or else by TF-IDF.

    Parameters
    ----------
    texts
        None or an empty text is missing.
    config
        Its `encoder`, `download`, `cache` and `device` matter.
    events
        Is told of progress.

    Returns
    -------
    EncodedBlock

    Raises
    ------
    NothingToLearnError
        If the texts have no words or are all the same.

    Examples
    --------
    >>> config = FitConfig(encoder="none")
    >>> block = encode_texts(["a good film", "a bad film", None, "good food"], config)
    >>> block.features.shape, block.state["encoder"]["name"]
    ((4, 2), 'tf-idf')
    >>> again = encode_again(block.state, ["a good film"], config)
    >>> np.allclose(again.features, block.features[:1])
    True
    """
    encoder, notes = choose_encoder(config, TEXTS)
    limit = MEAN_TOKEN * (encoder.settings["tokens"] or 0) if encoder else 0
    longer = sum(len(text or "") > limit for text in texts) if limit else 0
    if encoder and longer:
        notes.append(
            f"{encoder.name} reads about the first {limit:,} letters of a text; {longer} texts are "
            f"longer."
        )
    return replace(encode_with(encoder, texts, config, events), notes=notes)


def encode_again(
    state: State, items: Sequence[Any], config: FitConfig, events: Events = SILENT
) -> EncodedBlock:
    """Features of new texts or image files, as those that `state` was fitted on.

    Parameters
    ----------
    state
        Of an `EncodedBlock`.
    items
        Texts or paths; None where missing.
    config
        Its `encoder` may say where the encoder is now; another one raises ValueError.
    events
        Is told of progress.

    Returns
    -------
    EncodedBlock
        With the images that cannot be read.
    """
    description = state["encoder"]
    encoder = description if description["name"] == TFIDF else encoder_again(description, config)
    features, failed = _raw_features(encoder, items, config, events)
    features = _scale(features, state)
    if "plain" in state:
        plain = encode_again(state["plain"], items, config, events).features
        features = _side_by_side(features, plain, config)
    return EncodedBlock(features, state, (), failed)


def encoder_names(states: Sequence[State]) -> dict[str, str]:
    """The name of each encoder, and a digest of its weights and settings."""
    found = {}
    for description in (state["encoder"] for state in states):
        same = {key: value for key, value in sorted(description.items()) if key != "name"}
        found[str(description["name"])] = digest_of(json_bytes(same))[:16]
    return found


def check_state(state: Any) -> State:
    """The state of an `EncodedBlock` out of a file; ValueError if it cannot be one."""
    try:
        mean, encoder = np.asarray(state["mean"], float), state["encoder"]
        has_settings = encoder["kind"] in (IMAGES, TEXTS) and isinstance(encoder["settings"], dict)
        has_mean = mean.shape == (encoder["width"],) and np.isfinite(mean).all()
        if not (has_settings and has_mean and state["scale"] > 0):
            raise ValueError("its numbers do not fit")
        if encoder["name"] == TFIDF:
            tfidf_features(encoder, [""])
        if "plain" in state:
            check_state(state["plain"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"The saved state of an encoder is damaged ({error}).") from None
    return dict(state)


def _raw_features(
    encoder: Encoder | State, items: Sequence[Any], config: FitConfig, events: Events
) -> Computed:
    """What an encoder or fitted TF-IDF gives, zeros where missing; and why files are unreadable."""
    if isinstance(encoder, dict):
        return tfidf_features(encoder, items, config.cache), {}
    about = encoder.describe()
    del about["name"]
    folder = cache_folder(config.cache) / "features"
    store = RowStore(folder, about, (encoder.width,), "float32")

    def compute(batches: list[list[int]]) -> Iterator[Computed]:
        return (_encode_batch(encoder, [items[place] for place in batch]) for batch in batches)

    keys, stage = [_item_key(item) if item else b"" for item in items], f"encoding {encoder.kind}"
    places, failed = store.complete(keys, compute, BATCH, stage, events)
    rows = allocate((len(items), encoder.width), "float32", config.cache)
    found = np.flatnonzero(places >= 0)
    for some in (found[part] for part in _chunks(len(found))):
        rows[some] = store.rows(places[some])
    return rows, failed


def _fit(
    encoder: Encoder | None, items: Sequence[Any], config: FitConfig, events: Events
) -> EncodedBlock:
    """Features of an encoder, or of TF-IDF, scaled by what is fitted here."""
    from sklearn.preprocessing import normalize

    description = encoder.describe() if encoder else fit_tfidf([text for text in items if text])
    features, failed = _raw_features(encoder or description, items, config, events)
    if failed and not features.any():
        position, reason = next(iter(failed.items()))
        raise NothingToLearnError(
            f"none of the {len(failed)} images can be read; {items[position]}: {reason}"
        )
    total, known = np.zeros(features.shape[1]), 0
    for part in _chunks(len(features)):
        units = normalize(features[part])
        total += units.sum(0, dtype=np.float64)
        known += int(units.any(1).sum())
    mean = total / max(known, 1)
    # The mean squared distance of rows of unit length from their mean is 1 - |mean|².
    spread = math.sqrt(max(1 - float(mean @ mean), 0.0)) if known else 0.0
    if spread <= MIN_SPREAD:
        raise NothingToLearnError(
            f"{description['name']} gives all {known} {description['kind']} the same features"
        )
    scale = spread / math.sqrt(len(mean))
    state = {"encoder": description, "mean": mean.tolist(), "scale": scale}
    return EncodedBlock(_scale(features, state), state, failed=failed)


def encode_with(
    encoder: Encoder | None, items: Sequence[Any], config: FitConfig, events: Events
) -> EncodedBlock:
    """Features by an encoder and plain ones beside them, or plain ones alone if it is None."""
    block = _fit(encoder, items, config, events)
    if encoder is None or config.fine_tune:
        return block
    pixels = None if encoder.kind == TEXTS else pixel_encoder(encoder.settings["size"])
    with suppress(NothingToLearnError):
        plain = _fit(pixels, items, config, events)
        features = _side_by_side(block.features, plain.features, config)
        return replace(block, features=features, state={**block.state, "plain": plain.state})
    return block


def _side_by_side(left: Array, right: Array, config: FitConfig) -> Array:
    rows = allocate((len(left), left.shape[1] + right.shape[1]), "float32", config.cache)
    for part in _chunks(len(rows)):
        rows[part] = np.hstack([left[part], right[part]])
    return rows


def _encode_batch(encoder: Encoder, items: Sequence[Any]) -> Computed:
    failed: dict[int, str] = {}
    if encoder.kind == IMAGES:
        pixels, failed = decode_batch(items, encoder.settings["size"])
        items = list(pixels)
    if not items:
        return np.zeros((0, encoder.width), np.float32), failed
    rows = encoder.encode(items).numpy()
    if not np.isfinite(rows).all():
        raise ValueError(
            f"The encoder {encoder.name!r} returned features that are not finite; choose another."
        )
    return rows, failed


def _item_key(item: Any) -> bytes:
    if isinstance(item, str):
        return content_key(item.encode("utf-8", "replace"))
    try:
        return content_key(item.read_bytes())
    except OSError:  # loading it raises the same again
        return content_key(os.fsencode(item))


def _scale(features: Array, state: State) -> Array:
    """Scale rows in place; rows of zeros stay as they are."""
    from sklearn.preprocessing import normalize

    mean, scale = np.asarray(state["mean"], np.float32), np.float32(state["scale"])
    for part in _chunks(len(features)):
        known = features[part].any(1, keepdims=True)
        features[part] = np.where(known, (normalize(features[part]) - mean) / scale, 0)
    return features


def _chunks(count: int) -> Iterator[slice]:
    return (slice(start, start + CHUNK) for start in range(0, count, CHUNK))


def fit_tfidf(texts: Sequence[str]) -> dict[str, Any]:
    """Fit the weights of terms, and an SVD where terms are many.

    Parameters
    ----------
    texts
        None of them is empty.

    Returns
    -------
    dict
        What every description of an encoder has, with terms and weights. A NothingToLearnError
        says that the texts have no words.

    Examples
    --------
    >>> saved = fit_tfidf(["a good film", "a bad film", "good food", "bad food"] * 3)
    >>> saved["terms"][:3], tfidf_features(saved, ["good film", "what"]).shape
    (['bad', 'bad film', 'bad food'], (2, 8))
    """
    from sklearn.decomposition import TruncatedSVD

    vectorizer, counts = _fit_vectorizer([text[:MAX_LETTERS] for text in texts])
    terms, packed = vectorizer.get_feature_names_out().tolist(), None
    width = len(terms)
    if width > COMPONENTS:
        width = max(min(COMPONENTS, len(texts) - 1), 1)
        components = TruncatedSVD(width, random_state=0).fit(counts).components_
        packed = base64.b64encode(components.astype(np.float16).tobytes()).decode()
    return {
        "name": TFIDF,
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
    for part in _chunks(len(texts)):
        counts = vectorizer.transform([(text or "")[:MAX_LETTERS] for text in texts[part]])
        rows[part] = counts.toarray() if components is None else counts @ components.T
    return rows


def _fit_vectorizer(texts: Sequence[str]) -> tuple[Any, Any]:
    """A fitted vectorizer and the weighted counts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    letters, spaces = sum(map(len, texts)), sum(text.count(" ") + 1 for text in texts)
    kinds = (WORDS, CHARACTERS) if letters <= MAX_WORD * spaces else (CHARACTERS,)
    for settings in kinds if any(map(str.strip, texts)) else ():
        for min_df in (2, 1):  # a term of one text alone says nothing about others
            vectorizer = TfidfVectorizer(**settings, max_features=MAX_TERMS, min_df=min_df)
            with suppress(ValueError):  # an empty vocabulary
                return vectorizer, vectorizer.fit_transform(texts)
    raise NothingToLearnError("the texts have no words")
