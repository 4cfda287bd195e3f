"""The library called with anything: what is refused is refused by an error of its own kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import labelgrad
from labelgrad import LGA, MLP, VAT, LabelTable, Recipe, Supervised, TensorBatches
from labelgrad.schedules import Drop
from tests.adversarial.cases import Finding, Part

EXAMPLES, FEW = 30, 3  # of one case, and of one that trains
TRAIN = ("fit", "options", "estimator")
OURS = (ValueError, TypeError, RuntimeError, OSError, ImportError)
SMALL = st.integers(-2, 5)
NUMBERS = st.one_of(
    SMALL, st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([10**9, -(10**9), 1e300])
)
ANYTHING = st.one_of(
    st.none(), st.booleans(), NUMBERS, st.text(max_size=5), st.lists(NUMBERS, max_size=3)
)


def _tensor(shape: list[int], kind: str) -> torch.Tensor:
    made = torch.arange(int(np.prod(shape)) if shape else 1).reshape(shape)
    return made.to(getattr(torch, kind)) % 3


TENSORS = st.builds(
    _tensor,
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(["float32", "float64", "int64", "int32", "uint8", "float16"]),
)
ARRAYS = st.one_of(
    TENSORS.map(lambda t: t.numpy()),
    st.lists(st.one_of(st.none(), SMALL, st.text(max_size=2)), max_size=8).map(
        lambda cells: np.array(cells, dtype=object)
    ),
    st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=8),
)
X, Y = torch.randn(12, 3), torch.arange(12) % 2


def _batches(y: torch.Tensor | None = Y) -> TensorBatches:
    return TensorBatches(X, y, batch_size=4)


CALLS: dict[str, Any] = {
    "LabelTable": lambda draw: LabelTable(draw(SMALL), draw(SMALL)).draw(draw(TENSORS)),
    "TensorBatches": lambda draw: TensorBatches(
        draw(TENSORS), draw(st.none() | TENSORS), batch_size=draw(SMALL)
    ).batch(draw(SMALL)),
    "MLP": lambda draw: MLP(draw(SMALL), draw(st.lists(SMALL, max_size=3)), draw(SMALL)),
    "Recipe": lambda draw: (
        Recipe(
            MLP(3, (4,), 2),
            Supervised() + LGA(draw(SMALL), draw(SMALL)),
            _batches(),
            _batches(None),
            steps=draw(SMALL),
            learning_rate=draw(NUMBERS),
        )
        .run()
        .finish()
    ),
    "settings": lambda draw: Recipe(
        MLP(3, (4,), 2),
        Supervised(),
        _batches(),
        steps=1,
        clip_norm=draw(NUMBERS),
        accumulate=draw(SMALL),
        weight_average=draw(NUMBERS),
        seed=draw(SMALL),
    ).trainer(),
    "run": lambda draw: Recipe(MLP(3, (4,), 2), Supervised(), _batches(), steps=2).run(
        evaluate_every=draw(SMALL), checkpoint_every=draw(SMALL), best_by=draw(st.text(max_size=3))
    ),
    "VAT": lambda draw: draw(NUMBERS) * VAT(eps=draw(NUMBERS)) + Supervised(),
    "Drop": lambda draw: Drop(draw(NUMBERS), at=draw(NUMBERS))(draw(SMALL)),
    "read": lambda draw: labelgrad.fitting.fit.read(draw(ARRAYS), draw(ARRAYS)),  # type: ignore[attr-defined]
    "fit": lambda draw: labelgrad.fit(
        draw(ARRAYS), draw(ARRAYS), steps=draw(SMALL), witnesses="", seed=draw(SMALL)
    ),
    "options": lambda draw: labelgrad.fit(
        X.numpy(),
        np.where(np.arange(12) < 8, Y.numpy(), -1),
        **{
            "steps": 1,
            "witnesses": "",
            draw(
                st.sampled_from(["method", "model", "device", "witnesses", "task", "shares"])
            ): draw(ANYTHING),
        },
    ),
    "predict": lambda draw: _fitted().predict(draw(ARRAYS)),
    "estimator": lambda draw: labelgrad.LGAClassifier(steps=draw(SMALL)).fit(
        draw(ARRAYS), draw(ARRAYS)
    ),
}
_once: list[Any] = []


def _fitted() -> Any:
    if not _once:
        y = np.where(np.arange(12) < 8, Y.numpy(), -1)
        _once.append(labelgrad.fit(X.numpy(), y, steps=1, witnesses=""))
    return _once[0]


def check(name: str, draw: Any) -> None:
    """One call with whatever is drawn."""
    try:
        CALLS[name](draw)
    except OURS as error:
        if "\n" in str(error).strip() and not isinstance(error, TypeError):
            raise Finding(f"{name}: many lines: {error}") from error


def prepare(place: Path) -> None:
    """What is asked again and again; hypothesis looks at all of the code once, too."""
    _fitted()
    _called("MLP", 0)


def case(seed: int, draw: random.Random, place: Path) -> str:
    """Some calls of one kind, found and made small by hypothesis."""
    name = draw.choice(list(CALLS))
    _called(name, seed)
    return name


def _called(name: str, seed: int) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=FEW if name in TRAIN else EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(st.data())
    def calls(data: Any) -> None:
        check(name, data.draw)

    calls()


PART = Part("misuse", prepare, case, batch=20, share=0.5)
