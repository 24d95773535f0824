"""What goes wrong on dask collections: one sentence that names the partition, and workers and schedulers that die."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest
from clusters import left_as_it_was, started
from conftest import imbalanced
from scipy.sparse import csr_matrix

from evenmargin import DensityWeights, EvenMarginClassifier, KernelSVM, LinearSVM
from evenmargin.losses import Blinex
from evenmargin.nystroem import StratifiedNystroem

dask = pytest.importorskip("dask", reason="the extra dask is not installed")
da = pytest.importorskip("dask.array", reason="the extra dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra dask is not installed")
pytest.importorskip("distributed", reason="the extra dask is not installed")

from evenmargin.distributed import ClusterLost  # noqa: E402
from evenmargin.distributed._engine import Engine, reduced  # noqa: E402
from evenmargin.distributed._partitions import partitions  # noqa: E402

NAMES = list("abcdef")
X, Y = imbalanced(1_200, 6, seed=3)


def chunked(X=X, y=Y, size=300):
    return da.from_array(X, chunks=(size, 6)), da.from_array(y, chunks=size)


def with_value(value, row=700, column=2):
    other = X.copy()
    other[row, column] = value
    return other


def frames(change):
    """A table in two partitions, the second of them changed."""
    frame = pd.DataFrame(X, columns=NAMES)
    pieces = [dask.delayed(frame[:600]), dask.delayed(change(frame[600:]))]
    labels = dd.from_pandas(pd.Series(Y, name="y"), npartitions=2)
    return dd.from_delayed(pieces, meta=frame[:0], verify_meta=False), labels


def broken_csr(block):
    rows = csr_matrix(block)
    rows.indices[:1] = 1_000
    return rows


# --- one sentence ---


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: chunked(with_value(np.nan)), "^Partition 2: Input X contains NaN"),
        (lambda: chunked(with_value(np.inf)), "^Partition 2: Input X contains infinity"),
        (lambda: chunked(with_value(1e200)), "^Partition 2: X has values up to 1.0e.200, too large to square"),
        (lambda: (da.from_array(with_value(np.nan), chunks=(300, 6)).map_blocks(csr_matrix), Y), "^Partition 2: .*NaN"),
        (lambda: (chunked()[0].map_blocks(broken_csr, dtype=float), Y), "^Partition 0: X is not a valid CSR .*4 parti"),
        (lambda: frames(lambda f: f.drop(columns="d")), r"^Partition 1: it lacks the columns \['d'\]\.$"),
        (lambda: frames(lambda f: f.rename(columns={"d": "q"})), r"^Partition 1: it lacks .*'d'.* and has \['q'\]"),
        (lambda: frames(lambda f: f.assign(z=1.0)), r"^Partition 1: .* and has \['z'\], which the table does not have"),
        (lambda: frames(lambda f: f.assign(a="word")), "^Partition 1: could not convert string to float"),
        (lambda: frames(lambda f: f.assign(q=f["a"])[[*NAMES, "a"]]), "^Partition 1: it has all .* some of them more"),
        (lambda: (frames(len)[0].assign(when=pd.Timestamp(0)), Y), r"^X has columns that are not numbers, \['when'\]"),
        (lambda: (frames(len)[0].assign(word="a").astype({"word": "string"}), Y), r"not numbers, \['word'\]: encode"),
        (lambda: (chunked()[0], 1), "^y is 1: it must hold one label for each row"),
        (lambda: (chunked()[0], da.stack([chunked()[1]] * 2, axis=1)), "^y must have one column, not 2"),
        (lambda: (frames(len)[0][[]], frames(len)[1]), "^X has no columns"),
        (lambda: frames(lambda f: f[:50]), r"^Partition 1: it has 50 rows and labels of shape \(600,\)"),
        (lambda: (chunked()[0], np.where(np.arange(1_200) == 650, np.nan, Y)), "^Partition 2: Input y contains NaN"),
        (lambda: (chunked()[0], X[:, 0]), "^Partition 0: y holds numbers that are not whole"),
        (lambda: (chunked()[0], np.array(["a", 1] * 600, dtype=object)), "^Partition 0: The labels in y must be"),
        (lambda: (chunked()[0], np.where(np.arange(1_200) < 600, Y.astype(object), "a")), "one type in all partitions"),
        (lambda: (chunked()[0], np.zeros(1_200)), r"^The target has one class only \(0.0\)"),
        (lambda: (*chunked(), np.zeros(1_200)), "^X has no rows of a weight above 0"),
        (lambda: (*chunked(), -np.ones(1_200)), "^Partition 0: Negative values in data passed to `sample_weight`"),
        (lambda: (chunked()[0], chunked()[1][:-1]), "^X has 1200 rows and y has 1199"),
        (lambda: (*chunked(), np.ones(7)), "^X has 1200 rows and sample_weight has 7"),
        (lambda: (chunked()[0], None), "^LinearSVM requires y to be passed"),
        (lambda: (da.from_array(X[:, 0], chunks=300), Y), "of two dimensions"),
        (lambda: (dd.from_pandas(pd.DataFrame(X), npartitions=3), Y), "y must be a dask collection like X"),
        (lambda: (dd.from_pandas(pd.DataFrame(X), npartitions=3), frames(lambda f: f)[1]), "X has 3 p.* y has 2"),
        (lambda: (dd.from_pandas(pd.DataFrame(X), npartitions=3).values, frames(len)[1]), "X has 3 p.* y has 2"),
    ],
)  # fmt: skip
def test_a_bad_table_gets_one_sentence(call, words):
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=words) as caught:
        LinearSVM().fit(*call())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", [
    lambda svm: svm.fit(dask.delayed(X), Y), lambda svm: svm.fit(chunked()[0], dask.delayed(Y)),
    lambda svm: svm.predict(dask.delayed(X)), lambda svm: svm.fit(pytest.importorskip("dask.bag").from_sequence(X), Y),
])  # fmt: skip
def test_lazy_objects_that_are_not_arrays_are_refused_in_one_sentence(call):
    with pytest.raises(
        TypeError, match=r"^A dask \w+ is neither an array nor a frame: make one with dask.array.from_del"
    ):
        call(LinearSVM().fit(X, Y))


def test_names_of_several_types_are_refused_as_in_memory():
    frame = frames(len)[0].rename(columns={"d": 4})
    with pytest.raises(TypeError, match="Feature names are only supported if all input features have string names"):
        LinearSVM().fit(frame, frames(len)[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "blinex"}, "the loss must be 'hinge', 'squared_hinge' or 'log', not Blinex"),
        ({"loss": Blinex(a=1.0, b=0.5)}, "the loss must be"),
        ({"solver": "pegasos"}, "the solver must be 'auto' or 'newton', not 'pegasos'"),
        ({"stopping": "auc"}, "stopping is for the stochastic solvers"),
        ({"density": "exact"}, "density needs all rows at once"),
        ({"class_weight": {5: 2.0}}, r"class_weight names \[5\], but the classes are \[-1, 1\]"),
        ({"class_weight": "even"}, "class_weight='even' is unknown"),
        ({"class_weight": {1: -2.0}}, "class_weight must give each class a finite weight above 0"),
        ({"C": 1e70}, "C times the weights"),
        ({"C": -1.0}, "The 'C' parameter"),
        ({"intercept": True}, "intercept=True is not valid"),
    ],
)
def test_what_dask_collections_cannot_have_is_said_before_any_row_is_read(options, words):
    def never(block):
        raise AssertionError("a row was read")

    lazy = chunked()[0]
    if not {"class_weight", "C", "intercept"} & set(options):  # these need the classes
        lazy = lazy.map_blocks(never, dtype=float, meta=np.empty((0, 6)))
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match=words):
        LinearSVM(**options).fit(lazy, Y)


def test_what_a_source_raises_is_the_users_own():
    def broken(block):
        raise OSError("the disk is gone")

    lazy = chunked()[0].map_blocks(broken, dtype=float, meta=np.empty((0, 6)))
    with dask.config.set(scheduler="synchronous"), pytest.raises(OSError, match="the disk is gone"):
        LinearSVM().fit(lazy, Y)


def test_a_failed_fit_leaves_the_machine_as_it_was():
    svm = LinearSVM().fit(X, Y)
    before = svm.coef_
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="NaN"):
        svm.fit(*chunked(with_value(np.nan)))
    assert svm.coef_ is before


# --- workers and schedulers that die ---


def generated(block_info=None, n=1_000):
    """Rows that any worker can make again."""
    rng = np.random.default_rng(block_info[None]["chunk-location"][0])
    return rng.standard_normal((n, 6))


@pytest.fixture(scope="module")
def source():
    rows = da.map_blocks(generated, chunks=((1_000,) * 10, (6,)), dtype=float, meta=np.empty((0, 6)))
    return rows, (rows.sum(axis=1) > 3).astype(int)


def before_round(monkeypatch, number, action):
    """Do something when the fit asks for its graph of this number."""
    compute, count = Engine.compute, []

    def counted(self, graph):
        count.append(1)
        if len(count) == number:
            action()
        return compute(self, graph)

    monkeypatch.setattr(Engine, "compute", counted)


def some_pid(client):
    return next(iter(client.run(os.getpid).values()))


def test_a_worker_killed_mid_fit_changes_no_bit(cluster, source, monkeypatch):
    with dask.config.set(scheduler="threads"):
        expected = LinearSVM(tol=1e-4, random_state=0).fit(*source)
    victim = some_pid(cluster)
    kill = threading.Timer(0.05, os.kill, (victim, signal.SIGKILL))
    before_round(monkeypatch, 5, kill.start)
    found = LinearSVM(tol=1e-4, random_state=0).fit(*source)
    cluster.wait_for_workers(2, timeout=30)
    assert victim not in cluster.run(os.getpid).values()
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(found.intercept_, expected.intercept_)
    assert (found.rounds_, found.objective_) == (expected.rounds_, expected.objective_)


def test_a_fit_leaves_nothing_on_the_cluster(cluster, source):
    futures = set(cluster.futures)
    with left_as_it_was(cluster):
        svm = LinearSVM(loss="log", random_state=0).fit(*source)
        scores = svm.decision_function(source[0])
        np.testing.assert_allclose(scores[:1_000].compute(), svm.decision_function(source[0][:1_000].compute()))
    assert set(cluster.futures) <= futures


def test_what_workers_hold_already_is_taken_from_them(cluster):
    rows, labels = chunked()
    expected = LinearSVM(random_state=0).fit(rows, labels)
    weight = da.ones(1_200, chunks=300)
    held = [part.persist() for part in (rows, labels, weight)]
    for given in ((held[0], labels, weight), (rows, held[1], weight), (rows, labels, held[2]), held):
        svm = LinearSVM(random_state=0).fit(*given)
        assert np.array_equal(svm.coef_, expected.coef_)
        assert svm.score(*given) == expected.score(X, Y)
    features = StratifiedNystroem(n_components=10, random_state=0).fit(*held[:2]).transform(held[0]).persist()
    LinearSVM().fit(features, held[1])
    DensityWeights(method="fourier", n_components=20).fit(held[0]).weights_.compute()


def test_so_does_the_classifier_that_needs_no_tuning(cluster):
    held = [part.persist() for part in chunked(X[:300], Y[:300], 100)]
    model = EvenMarginClassifier(time_budget="fast", random_state=0).fit(*held)
    assert len(model.assess(held[0]).compute()) == 300
    assert 0.5 < model.score(*held) <= 1.0


def test_a_bad_partition_is_named_on_a_cluster_too(cluster):
    with pytest.raises(ValueError, match=r"^Partition 2: Input X contains NaN\.$"):
        LinearSVM().fit(*chunked(with_value(np.nan)))


def test_what_a_source_raises_on_a_worker_is_the_users_own(cluster):
    def broken(block):
        raise FileNotFoundError("the file is gone")

    with pytest.raises(FileNotFoundError, match="the file is gone"):
        LinearSVM().fit(chunked()[0].map_blocks(broken, dtype=float, meta=np.empty((0, 6))), Y)


def test_partitions_larger_than_any_workers_memory_are_refused(cluster):
    with pytest.raises(MemoryError, match=r"largest partition has \d+ MB and .* no worker has more than \d+ MB"):
        LinearSVM().fit(da.zeros((2 * 10**10, 6), chunks=(10**10, 6)), da.zeros(2 * 10**10, chunks=10**10))


def test_the_size_of_sparse_partitions_is_not_guessed():
    wide = da.map_blocks(csr_matrix, da.zeros((100, 6), chunks=(50, 6)))
    assert np.isnan(partitions(wide, np.arange(100) % 2).largest)


@pytest.mark.parametrize(("dtype", "entry"), [("float64", 8), ("float32", 4), ("int8", 8), ("bool", 8)])
def test_the_size_of_partitions_is_that_of_their_blocks(dtype, entry):
    found = partitions(chunked(X.astype(dtype))[0], Y, np.ones(1_200))
    assert found.largest == 300 * (6 * entry + 4 + 8)
    assert found.nbytes == 4 * found.largest == sum(block.nbytes for block in dask.get(*_blocks(found)))


def _blocks(found):
    return found.blocks.graph, found.blocks.keys


def test_so_is_that_of_frames_once_they_have_been_read(cluster, monkeypatch):
    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)
    most = 400 * (6 * 8 + 4)
    monkeypatch.setattr("evenmargin.distributed._engine._free", lambda workers: [2.9 * most])
    with pytest.raises(MemoryError, match="needs 3 times as much to be processed"):
        LinearSVM().fit(frame, dd.from_pandas(pd.Series(Y), npartitions=3))
    monkeypatch.setattr("evenmargin.distributed._engine._free", lambda workers: [3.1 * most])
    LinearSVM().fit(frame, dd.from_pandas(pd.Series(Y), npartitions=3))


def test_no_more_is_held_than_the_process_may_have(monkeypatch):
    monkeypatch.setattr("distributed.system.MEMORY_LIMIT", 1_000)
    assert Engine().memory() == 500


def test_nothing_is_held_by_workers_elsewhere_whose_limit_is_not_known(cluster, monkeypatch):
    there = {"memory_limit": None, "host": "10.0.0.7", "address": "tcp://10.0.0.7:1"}
    monkeypatch.setattr(Engine, "_workers", lambda self: [there])
    assert Engine().memory() == 0
    for near in ({"host": "127.0.0.1"}, {"address": "inproc://10.0.0.7/1/1"}):
        monkeypatch.setattr(Engine, "_workers", lambda self, near=near: [there | near])
        assert Engine().memory() > 0


def test_a_client_of_ones_own_kind_is_in_charge_too(cluster):
    from distributed import Client

    class Own(Client):
        pass

    with Own(cluster.scheduler.address) as client, client.as_current():
        assert Engine().client is client


def test_workers_that_are_gone_or_paused_end_in_one_sentence_and_the_fit_goes_on(source, monkeypatch):
    whole = LinearSVM(tol=1e-5, random_state=0).fit(*source)
    monkeypatch.setattr("evenmargin.distributed._engine._LOOK", 0.1)
    impatient = dask.config.set({"evenmargin.patience": 1.0})
    with impatient, started(n_workers=1, memory_limit=0, processes=False) as client, client.as_current():
        svm = LinearSVM(tol=1e-5, random_state=0, warm_start=True)
        with monkeypatch.context() as patch:
            before_round(patch, 8, lambda: client.run(_set_status, "paused"))
            with pytest.raises(
                ClusterLost, match=r"round \d+\. For 1 seconds all workers have been paused.*\. The machine keeps"
            ):
                svm.fit(*source)
        client.run(_set_status, "running")
        assert whole.dual_gap_ < svm.dual_gap_ < svm.objective_
        with monkeypatch.context() as patch:
            before_round(patch, 5, lambda: _stop_workers(client))
            with pytest.raises(ClusterLost, match=r"For 1 seconds there has been no worker\. The machine keeps"):
                svm.fit(*source)
        assert svm.objective_ == pytest.approx(whole.objective_, rel=1e-2)
        client.cluster.scale(1)
        client.wait_for_workers(1, timeout=30)
        svm.fit(*source)
    assert svm.rounds_ < whole.rounds_
    assert svm.objective_ == pytest.approx(whole.objective_, rel=2e-5)


def _set_status(name, dask_worker=None):
    from distributed.core import Status

    dask_worker.status = Status[name]


def _stop_workers(client):
    client.cluster.scale(0)
    until = time.monotonic() + 30
    while client.nthreads() and time.monotonic() < until:
        time.sleep(0.05)


def test_the_first_worker_is_awaited_ten_times_as_long(monkeypatch):
    monkeypatch.setattr("evenmargin.distributed._engine._LOOK", 0.1)
    patient, nobody = dask.config.set({"evenmargin.patience": 0.2}), started(n_workers=0, processes=False)
    with patient, nobody as client, client.as_current():
        with pytest.raises(ClusterLost, match=r"For 2 seconds there has been no worker"):
            LinearSVM().fit(*chunked())
        threading.Timer(0.7, client.cluster.scale, (1,)).start()
        assert LinearSVM().fit(*chunked()).score(*chunked()) > 0.8


def test_a_scheduler_that_is_silent_is_given_up(cluster, source, monkeypatch):
    async def silent(**_):
        await asyncio.sleep(60)

    monkeypatch.setattr("evenmargin.distributed._engine._LOOK", 0.01)
    stop = partial(monkeypatch.setattr, cluster.scheduler, "identity", silent, raising=False)
    before_round(monkeypatch, 3, stop)
    patient = dask.config.set({"evenmargin.patience": 0.3})
    with patient, pytest.raises(ClusterLost, match=r"The scheduler has not answered for 0 seconds\. The machine keeps"):
        LinearSVM(tol=1e-9, random_state=0).fit(source[0].map_blocks(_slowly, dtype=float), source[1])


def _slowly(block):
    time.sleep(0.01)
    return block


def _fit_there(source):
    svm = LinearSVM(random_state=0).fit(*source)
    return svm.coef_, svm.score(*source)


def test_a_fit_inside_a_task_leaves_its_place_to_the_tasks_that_it_waits_for(source):
    with dask.config.set(scheduler="threads"):
        expected, score = _fit_there(source)
    with started(n_workers=1, processes=False) as client:
        found = client.submit(_fit_there, source, pure=False).result(timeout=60)
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3  # the task has come back to its place
    assert np.array_equal(found[0], expected)
    assert found[1] == score


def test_many_small_partitions_have_the_same_machine_though_a_task_takes_several(monkeypatch):
    rows = chunked(size=9)
    found = LinearSVM(random_state=0, tol=1e-6).fit(*rows)
    assert partitions(*rows).blocks.folded
    monkeypatch.setattr("evenmargin.distributed._engine._MANY", 1_000)
    assert not partitions(*rows).blocks.folded
    expected = LinearSVM(random_state=0, tol=1e-6).fit(*rows)
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.rounds_ == expected.rounds_


def test_a_bad_one_of_many_small_partitions_is_named():
    with pytest.raises(ValueError, match=r"^Partition 77: Input X contains NaN\.$"):
        LinearSVM().fit(*chunked(with_value(np.nan), size=9))


def test_a_round_takes_one_task_a_partition_and_those_that_add():
    table = partitions(*chunked(size=9)).blocks
    assert len(reduced(table.map(abs), max).graph) - len(table.graph) == 17 + 3 + 1 + 2  # folded; two are told


# --- predictions ---


def nullable(kind):
    frame = pd.DataFrame((X > 0).astype(float), columns=NAMES).astype({"a": kind})
    with dask.config.set({"dataframe.convert-string": False}):  # dask would make words of objects
        return frame, dd.from_pandas(frame, npartitions=3), dd.from_pandas(pd.Series(Y), npartitions=3)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean", "Float32", "object"])
def test_columns_of_any_kind_of_numbers_are_predicted_as_they_are_learned(kind):
    frame, rows, labels = nullable(kind)
    svm = LinearSVM(random_state=0).fit(rows, labels)
    assert np.array_equal(svm.predict(rows).compute(), svm.predict(frame))
    assert svm.score(rows, labels) == pytest.approx(svm.score(frame, Y))
    features = StratifiedNystroem(n_components=20, random_state=0).fit(rows, labels)
    np.testing.assert_allclose(features.transform(rows).compute(), features.transform(frame), atol=1e-9)


def test_a_bad_partition_is_named_in_predictions_too():
    svm = LinearSVM().fit(X, Y)
    bad = with_value(np.nan)
    frame = dd.from_pandas(pd.DataFrame(bad), npartitions=4)
    for rows in (chunked(bad)[0], frame):
        for method in ("predict", "decision_function"):
            with pytest.raises(ValueError, match=r"^Partition 2: Input X contains NaN\.$"):
                getattr(svm, method)(rows).compute()
    with pytest.raises(ValueError, match=r"^Partition 2: Input X contains NaN\.$"):
        svm.score(*chunked(bad))


def test_a_score_needs_labels():
    with pytest.raises(ValueError, match=r"call score\(X, y\)"):
        LinearSVM().fit(X, Y).score(chunked()[0], None)


@pytest.mark.parametrize("framed", [False, True])
def test_one_number_is_the_weight_of_every_row(framed):
    rows = chunked()
    if framed:
        rows = dd.from_pandas(pd.DataFrame(X), npartitions=3), dd.from_pandas(pd.Series(Y), npartitions=3)
    found = LinearSVM(tol=1e-6, random_state=0).fit(*rows, 2.0)
    assert found.objective_ == pytest.approx(LinearSVM(tol=1e-6).fit(X, Y, 2.0).objective_, rel=1e-5)
    assert found.score(*rows, 2.0) == found.score(X, Y)


def test_names_that_a_machine_does_not_know_are_warned_of_once():
    frame = pd.DataFrame(X, columns=NAMES)
    for svm, rows in (
        (LinearSVM().fit(X, Y), dd.from_pandas(frame, npartitions=4)),
        (LinearSVM().fit(frame, Y), chunked()[0]),
    ):
        with pytest.warns(UserWarning, match="feature names") as caught:
            scores = svm.decision_function(rows).compute()
        assert len(caught) == 1
        np.testing.assert_allclose(scores, X @ svm.coef_[0] + svm.intercept_, atol=1e-9)


@pytest.mark.parametrize("what", ["y", "sample_weight"])
@pytest.mark.parametrize("machine", [LinearSVM(), KernelSVM(), StratifiedNystroem(), DensityWeights()], ids=repr)
def test_labels_and_weights_of_rows_in_memory_are_not_loaded_unasked(machine, what):
    given = {"y": Y, "sample_weight": np.ones(1_200), what: da.from_array(np.ones(1_200), chunks=300)}
    if what == "y" and isinstance(machine, DensityWeights):
        machine = machine.set_params(scheme="same_class")
    with pytest.raises(TypeError, match=rf"^{what} is a dask Array, but X is in memory: call {what}.compute\(\)"):
        machine.fit(X, given["y"], given["sample_weight"])


def test_a_partition_that_kills_its_worker_ends_in_one_sentence():
    def deadly(block, block_info=None):
        return os._exit(1) if block_info[0]["chunk-location"][0] == 2 else block

    rows = chunked()[0].map_blocks(deadly, dtype=float, meta=np.empty((0, 6)))
    few = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    lost = pytest.raises(ClusterLost, match="A partition was lost with 1 workers")
    with few, started(n_workers=1) as client, client.as_current(), lost:
        LinearSVM().fit(rows, Y)


def test_a_scheduler_that_is_restarted_ends_in_one_sentence_and_the_fit_goes_on(source, monkeypatch):
    whole = LinearSVM(tol=1e-5, random_state=0).fit(*source)
    svm = LinearSVM(tol=1e-5, random_state=0, warm_start=True)
    inside = {"n_workers": 1, "processes": False, "protocol": "tcp"}
    with started(**inside) as client, client.as_current(), monkeypatch.context() as patch:
        port = int(client.scheduler.address.rpartition(":")[2])
        before_round(patch, 8, client.cluster.close)
        with pytest.raises(ClusterLost, match=r"The cluster was lost in round 7\. The .*\. The machine keeps"):
            svm.fit(*source)
    assert svm.objective_ == pytest.approx(whole.objective_, rel=1e-2)
    with started(**inside, scheduler_port=port) as client, client.as_current():
        svm.fit(*source)
    assert svm.rounds_ < whole.rounds_
    assert svm.objective_ == pytest.approx(whole.objective_, rel=2e-5)
