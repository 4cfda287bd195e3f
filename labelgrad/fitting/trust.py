"""What can be promised of a run and said of all its rows, as the page shows it."""

from __future__ import annotations

from labelgrad.fitting.count import count
from labelgrad.fitting.promises import known_rows, promised_labels
from labelgrad.fitting.result import Result
from labelgrad.fitting.run_files import REPORT
from labelgrad.fitting.run_folder import write_files
from labelgrad.guarantees.ppi import Interval
from labelgrad.report.data import Estimate, Promised, Share, Trust
from labelgrad.report.page import with_promises

AT_MOST = (0.1, 0.05, 0.02)


def trust_of(result: Result) -> Trust:
    """Promises of 10, 5 and 2 %, shares with intervals, what they rest on, or why not."""
    is_value = result.summary.task == "regression"
    try:
        counted = count(result)
    except ValueError as error:  # no labels drawn at random, or too few
        return Trust(str(error), of_classes=not is_value)
    shares = [
        Share(each.of, _estimate(each.powered), _estimate(each.by_labels)) for each in counted.each
    ]
    if is_value or not result.labels:
        return Trust(counted.sentence, shares=shares, of_classes=not is_value)
    known = known_rows(result)
    promised = []
    for at_most in AT_MOST:
        plain = promised_labels(result, at_most)
        by_hand = promised_labels(result, at_most, rest_by_hand=True)
        promised.append(
            Promised(at_most, len(result.labels), plain.imputed, by_hand.imputed, plain.more)
        )
    said = f"By {known.drawn.sentence}, with 95 % confidence."
    return Trust(said, promised, shares)


def refresh_report(result: Result) -> None:
    """Write the page of a run folder anew with what can be promised now, such as after an audit."""
    if result.folder is not None:
        page = with_promises(result.page, trust_of(result), result.summary.task)
        write_files(result.folder, {REPORT: page.encode()})


def _estimate(found: Interval) -> Estimate:
    return Estimate(found.value, found.low, found.high)
