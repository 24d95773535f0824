"""Models as ONNX: one file that predicts without Python, with preprocessing, boundary and probabilities.

    to_onnx       the model as an `onnx.ModelProto`
    export_onnx   the same in a file
    check_onnx    whether onnxruntime predicts what the model predicts
    onnx_inputs   rows as the arrays that onnxruntime takes

What can be exported: `LinearSVM`, `KernelSVM` (but not with a precomputed kernel or a
function), `ZAdjustedClassifier` around these or scikit-learn's `SVC` and `NuSVC`,
`EvenMarginClassifier`, and pipelines of steps that skl2onnx knows (and
`StratifiedNystroem`) that end in one of them. Importing this module also registers
converters with skl2onnx, so that ``skl2onnx.to_onnx(pipeline, X)`` works.

Inputs. A model that was fitted on an array has one input ``X`` of shape (n, d), float if
it was fitted on float32, else double. A model that was fitted on a frame has an input of
shape (n, 1) for each column, with its name. Numbers are double, and NaN if they are
missing; booleans are the numbers 0 and 1; dates are days since 1970-01-01 and spans of time
are days; categories are strings, and the empty string stands for a missing value (or
"(missing)", if the training rows had the empty string as a category). `onnx_inputs` makes
these arrays.

Outputs. ``label`` (n,), ``probabilities`` (n, k) where the model has them, and ``scores``
as `decision_function` gives them: (n,) for two classes, (n, k) for more. If a column has
the name of an output, the output is ``label_out`` and so on.

Precision. The graph computes in double. It differs from a model that predicts in double by
1e-8 of the largest score or less, and from one that predicts in float32 by the rounding
of that model: `BOUND` of the largest score for the machines, `COMMITTEE_BOUND` for
`EvenMarginClassifier` (for rows that it was fitted on; a tenth of that for new rows). Labels
may differ only for rows that are this close to the boundary.

A graph does not refuse bad rows: for infinite or missing values, for which `predict` raises
an error, it returns some score.
"""

from __future__ import annotations

from importlib.util import find_spec

from ._check import BOUND, COMMITTEE_BOUND, PROBABILITY_BOUND, Check, check_onnx
from ._convert import export_onnx, onnx_inputs, to_onnx
from ._register import register

__all__ = [
    "BOUND",
    "COMMITTEE_BOUND",
    "PROBABILITY_BOUND",
    "Check",
    "check_onnx",
    "export_onnx",
    "onnx_inputs",
    "to_onnx",
]

if find_spec("skl2onnx") is not None:
    register()
