"""Machines on dask arrays and frames: every worker computes on its own partitions, and only sums are sent.

Estimators take dask collections where they take arrays; this package does the work and is imported then. Nothing is
loaded into one memory: a fit goes over the partitions some ten times, and predictions are lazy arrays. Without a
`distributed.Client` the same graphs run on dask's threads, so a table on disk needs no cluster.

A fit gives up (`ClusterLost`) when for 30 seconds no worker has made progress or the scheduler has not answered, and
waits ten times as long for the first worker; ``dask.config.set({"evenmargin.patience": 120})`` changes the 30 seconds.

>>> import dask.array as da
>>> from sklearn.datasets import make_classification
>>> from evenmargin import LinearSVM
>>> X, y = make_classification(n_samples=1000, weights=[0.9], random_state=0)
>>> rows, labels = da.from_array(X, chunks=(300, 20)), da.from_array(y, chunks=300)
>>> svm = LinearSVM(class_weight="balanced", random_state=0).fit(rows, labels)
>>> svm.status_.value
'converged: the duality gap is within tol'
>>> svm.predict(rows)
dask.array<predict, shape=(1000,), dtype=int64, chunksize=(300,), chunktype=numpy.ndarray>
>>> bool(abs(svm.objective_ / LinearSVM(class_weight="balanced").fit(X, y).objective_ - 1) < 1e-5)
True
"""

from __future__ import annotations

try:
    from ._auto import assess_blocks, sample_table
    from ._blocks import over_blocks, score_blocks
    from ._density import fit_density
    from ._engine import ClusterLost
    from ._linear import fit_linear
    from ._nystroem import fit_nystroem, transform_nystroem
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("dask", "distributed", "pyarrow"):
        raise
    raise ModuleNotFoundError(
        f"Dask collections need {error.name}, which is not installed: pip install 'evenmargin[dask]'.", name=error.name
    ) from None

__all__ = [
    "ClusterLost", "assess_blocks", "fit_density", "fit_linear", "fit_nystroem", "over_blocks", "sample_table",
    "score_blocks", "transform_nystroem",
]  # fmt: skip
