"""Clusters on this machine. The fixture `cluster` has one for all tests; what a test breaks it starts for itself."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from unittest.mock import patch


@contextmanager
def started(n_workers=2, **options):
    """A client of a new cluster, which nobody uses unasked."""
    from distributed import Client, LocalCluster

    # Workers have the environment of the moment they start: one thread of BLAS, and no warnings as errors.
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    plain = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",  # any free port; None would be a fixed one
        "silence_logs": logging.CRITICAL,
    }
    with patch.dict(os.environ, quiet):
        local = LocalCluster(n_workers=n_workers, **(plain | options))
    with local, Client(local, set_as_default=False) as client:
        yield client


@contextmanager
def left_as_it_was(client, seconds=30):
    """What runs within leaves no task behind; those of others, which dask may not have forgotten yet, are no matter."""
    before, until = _tasks(client), time.monotonic() + seconds
    yield
    while not _tasks(client) <= before and time.monotonic() < until:
        time.sleep(0.05)
    assert _tasks(client) <= before


def _tasks(client):
    return set(client.run_on_scheduler(lambda dask_scheduler: [str(key) for key in dask_scheduler.tasks]))
