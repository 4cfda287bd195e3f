"""A fit that trains its encoder, too: the network it trains, at which rate, and by which slope."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import nn

from labelgrad.encoders.fine_tuned import FineTuned, parameter_groups
from labelgrad.fitting.plan import (
    FILE,
    FINE_TUNED,
    Plan,
    check_encoder_rate,
    check_fits,
    kept_encoder_rate,
    outputs_for,
)
from labelgrad.inputs.base import Dataset, Encoding
from labelgrad.inputs.raw import raw_scale, with_raw
from labelgrad.labels.alignment import usable_slope
from labelgrad.training.trainer import Groups

ENCODER_RATE = 0.01  # its learning rate, as a part of the head's
TRAININGS = 10  # two methods, on four folds and on all labels
COPIES = 5  # of the weights in a training: they, Adam's two averages, and LGA's two


def asked_encoder_rate(fine_tune: bool | float, model: object, folder: Path | None) -> float:
    """The learning rate of the encoder as a part of the head's; 0 where it is not trained."""
    share = ENCODER_RATE if fine_tune is True else fine_tune or 0.0
    check_encoder_rate(share)
    if not share and folder is not None and (folder / FILE).exists():
        share = kept_encoder_rate(folder)
    if share and model is not None:
        raise ValueError(
            "`fine_tune` trains the encoder with a linear head, so there is no other `model`; "
            "leave one of them out."
        )
    return share


def for_fine_tuning(dataset: Dataset, encoding: Encoding) -> tuple[Dataset, FineTuned, str]:
    """The data with what the encoder's network takes, that network, and the slope it allows."""
    found, network = with_raw(dataset, encoding, outputs_for(dataset))
    name = next(iter(found.encoders))
    check_memory_for(network, name)
    assert found.raw is not None
    slope = usable_slope(network, raw_scale(found.preprocessing)(found.raw[:2]))
    shown = "tokens" if found.raw.ndim == 2 else "pixels"
    notes = [f"The encoder {name} is trained, too: networks see {shown} in place of features."]
    if slope != Plan.slope:
        notes.append(
            f"{name} has no derivative in forward mode, as attention has only where it is eager "
            f"(attn_implementation): where LGA needs it, it is a finite difference."
        )
    return replace(found, notes=[*found.notes, *notes]), network, slope


def check_memory_for(network: nn.Module, name: str) -> None:
    """Refuse an encoder whose trainings this machine's memory does not hold."""
    weights = sum(each.nbytes for each in network.parameters())
    check_fits(f"Fine-tuning {name}", "weights and averages", COPIES * TRAININGS * weights)


def groups(plan: Plan) -> Groups | None:
    """The optimizer's groups: none, or a fine-tuned encoder beside its head."""
    if plan.network != FINE_TUNED:
        return None
    return partial(parameter_groups, rate=plan.learning_rate, share=plan.encoder_rate)
