"""What to beware of: figures that are rough, probabilities that cannot be trusted, and what the model says itself."""

from __future__ import annotations

import numpy as np

from ..display.calibration import CalibrationBins, calibration_bins
from ._evidence import Evidence
from ._words import plural, quoted

__all__ = ["cautions", "reliability", "trusted"]


_FEW = 30  # rows of the class below which figures are rough
_WIDE = 0.25  # of an interval


def reliability(evidence: Evidence) -> CalibrationBins | None:
    """None for a model without probabilities."""
    if evidence.probabilities is None:
        return None
    weight = evidence.weight
    rows = np.ones(weight.size)  # intervals go by rows, not by what they weigh
    return calibration_bins(evidence.probabilities, evidence.positive, weight, 10, 5.0 * float(weight.mean()), rows)


def trusted(bins: CalibrationBins, evidence: Evidence) -> bool:
    """Whether probabilities may be taken at their word: no worse than the base rate, and within most intervals."""
    base = evidence.share * (1.0 - evidence.share)
    outside = np.count_nonzero((bins.prob_pred < bins.lower) | (bins.prob_pred > bins.upper))
    far = bins.ece > 0.5 * base and outside >= max(2, bins.prob_pred.size // 3)
    return bool(bins.brier <= base and not far)


def cautions(evidence: Evidence, bins: CalibrationBins | None) -> list[str]:
    """Sentences, the weightiest first."""
    said, expected, label = [], evidence.expected, quoted(evidence.labels[0])
    count, recall, area = evidence.positives, expected["recall"], expected["roc_auc"]
    if count < _FEW:
        verb = plural(count, "row is", "rows are")
        said.append(f"Only {count} {verb} {label}: all figures are rough. Trust the ranges, not the values.")
    elif recall.high - recall.low > _WIDE:
        said.append(f"How many cases of {label} it finds is known only roughly: more rows of the class would help.")
    if area.low <= 0.5:
        said.append("It may be no better than guessing: the range of its ROC-AUC includes one half.")
    better = min(evidence.extremes, key=lambda group: evidence.extremes[group])
    if expected["cost"].value > evidence.extremes[better]:
        said.append(f"At these prices flagging {better} costs less than using the model at its present threshold.")
    if bins is not None and not trusted(bins, evidence):
        said.append("Its probabilities are badly calibrated: use them to rank rows, not as frequencies.")
    said += _of_the_model(evidence)
    if evidence.weighted:
        said.append("Rows are weighted: counts are sums of weights.")
    return said


def _of_the_model(evidence: Evidence) -> list[str]:
    """What the model itself has to say, and whether it predicts as its scores are cut here."""
    said, goal, chosen = [], evidence.objective, evidence.chosen
    if goal is not None and goal.has_floor and not goal.reached(*np.array(chosen[:3])[:, None])[0]:
        said.append(f"The {goal} that was asked for is not reached on these rows.")
    for title, text in getattr(getattr(evidence.model, "summary_", None), "lines", []):
        if title.strip() == "note" and text.startswith("time was short"):
            said.append(f"The fit ran out of time: {text.split(': ', 1)[-1]}.")
    differ = disagreements(evidence)
    if differ:
        said.append(
            f"The model's own predict puts {differ:,} {plural(differ, 'row', 'rows')} in the other class than its "
            "scores do here."
        )
    return said


def disagreements(evidence: Evidence) -> int:
    """Rows that `predict` puts in another class, as models do that do not go by their scores alone."""
    if evidence.training or hasattr(evidence.model, "oof_scores_") or not hasattr(evidence.model, "predict"):
        return 0
    called = np.asarray(evidence.model.predict(evidence.X)) == evidence.labels[0]
    return int(np.count_nonzero(called != evidence.flagged))
