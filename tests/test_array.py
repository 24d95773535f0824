"""Devices and what is put on them, on the CPU's torch."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random_array

from evenmargin._device import arrays, products
from evenmargin.kernels import RBF, kernel_dot, kernel_matrix

torch = pytest.importorskip("torch", reason="torch is not installed")
CPU = torch.device("cpu")


def table(n=300, d=5, dtype=np.float32):
    return (np.random.default_rng(0).standard_normal((n, d)) + 2.0).astype(dtype)


def up(X):
    return arrays.Rows.put(X, CPU)


# Where to compute, and how results go back


@pytest.mark.parametrize("name", ["gpu", "cuda:x", 3.5, object()])
def test_what_is_no_device_is_refused(name):
    with pytest.raises(ValueError, match=r"is not a device: use None, 'cpu', 'cuda' or 'cuda:0'"):
        arrays.find_device(name)


def test_devices_of_other_kinds_are_refused():
    with pytest.raises(ValueError, match="device='meta' is not supported"):
        arrays.find_device("meta")


def test_a_machine_without_cuda_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda', but PyTorch finds no CUDA device here: .*device=None"):
        arrays.find_device("cuda")


def test_a_device_number_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ValueError, match=r"device='cuda:2', but PyTorch finds 2 CUDA device"):
        arrays.find_device("cuda:2")


def test_cuda_is_the_current_cuda_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert arrays.find_device("cuda") == torch.device("cuda", 1)


def test_without_torch_a_device_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch, which is not installed: pip install 'evenmargin\[torch\]'"):
        arrays.find_device("cuda")


def test_the_cpu_is_the_host():
    assert arrays.native(None)
    assert arrays.native(CPU)
    assert not arrays.native(torch.device("cuda"))


def test_importing_does_not_import_torch():
    code = (
        "import sys, numpy as np; from evenmargin import KernelSVM; X = np.eye(4); y = [0, 1, 0, 1];"
        "KernelSVM().fit(X, y).predict(X); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_tensor_counts_as_one_where_dispatch_is_on():
    X = torch.ones(3, 2)
    assert arrays.Home.of(X, dispatch=True).device == CPU
    assert arrays.Home.of(X, dispatch=False).device is None
    assert arrays.Home.of(np.ones(3), dispatch=True).device is None


def test_results_are_given_in_kind():
    numbers, names = np.arange(3.0), np.array(["a", "b"])
    assert torch.equal(arrays.Home(CPU).give(numbers), torch.arange(3, dtype=torch.float64))
    assert arrays.Home(CPU).give(names) is names  # a tensor holds no strings
    assert arrays.Home().give(numbers) is numbers
    np.testing.assert_array_equal(arrays.Home().give(up(table())), table())


@pytest.mark.parametrize(("dtype", "kept"), [(">i4", False), (">f8", False), (np.longdouble, True), ("U1", True)])
def test_labels_of_any_kind_are_given_in_kind_or_as_they_are(dtype, kept):
    found = arrays.Home(CPU).give(np.array([1, 0, 1]).astype(dtype))
    assert isinstance(found, np.ndarray) is kept
    assert [int(label) for label in found] == [1, 0, 1]


def test_read_only_and_reversed_arrays_become_tensors():
    frozen = np.arange(4.0)
    frozen.flags.writeable = False
    assert arrays.put(frozen, CPU).tolist() == [0, 1, 2, 3]
    assert arrays.put(np.arange(4.0)[::-1], CPU, np.float32).tolist() == [3, 2, 1, 0]


def test_bfloat16_comes_to_the_host():
    labels = torch.tensor([1.0, 0.0, 1.0], dtype=torch.bfloat16)
    assert arrays.to_host(labels).tolist() == [1.0, 0.0, 1.0]
    assert arrays.to_host(labels, np.float64).dtype == np.float64


def test_what_is_added_to_is_no_ones_array():
    room = arrays.zeros((2, 3), CPU, np.float32)
    assert room.dtype == torch.float32
    assert room.tolist() == [[0.0] * 3] * 2


# Rows


def test_rows_of_a_tensor_are_the_tensor():
    X = torch.from_numpy(table())
    assert up(X).tensor.data_ptr() == X.data_ptr()


def test_rows_are_not_changed():
    """`.double()` of a float64 tensor is the tensor itself: nothing may work in place on it."""
    X = torch.from_numpy(table(dtype=np.float64))
    before, rows = X.clone(), up(X)
    kernel_dot(RBF(0.1), rows, rows, np.ones(300), dtype=np.float64)
    rows.squares(rows.centre()), rows.squares(), rows.variance(np.ones(300)), rows.check("KernelSVM")
    assert torch.equal(X, before)


def test_sparse_rows_become_dense(monkeypatch):
    monkeypatch.setattr(arrays, "PASS", 64)  # some rows at a time
    for dtype in (np.float32, np.float64):
        X = csr_matrix(random_array((50, 20), density=0.2, rng=0, dtype=dtype))
        rows = up(X)
        assert rows.dtype == dtype
        np.testing.assert_array_equal(rows.host(), X.toarray())


def test_rows_do_not_become_arrays_in_silence():
    with pytest.raises(TypeError, match=r"must call host\(\)"):
        np.asarray(up(table()))


def test_rows_are_chosen_by_host_indices():
    X, rows = table(), up(table())
    for some in (
        slice(3, 40, 4),
        np.array([3, 1, 1]),
        np.arange(300) % 7 == 0,
        np.array([], np.intp),
        np.array([-1, 2]),
    ):
        np.testing.assert_array_equal(rows[some].host(), X[some])
    assert len(rows) == 300
    assert rows[:7].shape == (7, 5)
    assert rows.ndim == 2


def test_statistics_are_those_of_the_host(monkeypatch):
    from evenmargin.kernels import kernels, tiles

    monkeypatch.setattr(arrays, "PASS", 64)
    X, w = table(), np.random.default_rng(1).random(300)
    rows, centre = up(X), tiles.centre_of(RBF(1.0), X)
    np.testing.assert_allclose(rows.centre(), centre, rtol=1e-6)
    assert rows.centre().dtype == X.dtype
    assert rows.variance(w) == pytest.approx(kernels.variance_of(X, w), rel=1e-12)
    assert up(np.full((9, 2), 0.1)).variance(np.ones(9)) == 0.0
    np.testing.assert_allclose(rows.squares(), kernels.squares(X), rtol=1e-12)
    np.testing.assert_allclose(tiles.reach(RBF(0.3), rows, centre), tiles.reach(RBF(0.3), X, centre), rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "contains NaN"), (np.inf, "contains infinity"), (-np.inf, "infinity")]
)
def test_what_is_not_finite_is_refused(value, words):
    X = table()
    X[290, 3] = value
    with pytest.raises(ValueError, match=f"Input X {words}" if words.startswith("c") else words):
        up(X).check("KernelSVM")


def test_what_is_too_large_to_square_is_refused():
    with pytest.raises(ValueError, match=r"values up to 1.0e\+20, too large to square in float32: scale the features"):
        up(np.float32([[1.0, -1e20]])).check("KernelSVM")


def test_prepared_rows_start_at_sixteen_bytes():
    points = products.DevicePoints(RBF(0.1), up(table()), np.float32)
    assert points.left.shape == (300, 7)
    assert points.left.stride(0) == 8
    some = points.take(np.array([5, 2]))
    assert some.left.stride(0) == 8
    assert torch.equal(some.left, points.left[[5, 2]])


# Memory


class Short:
    """A function of torch that runs out of memory when asked."""

    def __init__(self, monkeypatch, name, fails):
        self.real, self.fails, self.sizes = getattr(torch, name), fails, []
        monkeypatch.setattr(torch, name, self)

    def __call__(self, *given, **options):
        self.sizes.append(given[0])
        if self.fails(len(self.sizes), given[0]):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return self.real(*given, **options)


def sums(n=1500):
    rows = up(table(n))
    return lambda: kernel_dot(RBF(0.1), rows, rows, np.ones(n))


@pytest.mark.parametrize("times", [1, 3])
def test_tiles_shrink_where_memory_is_short(times, monkeypatch):
    product = sums()
    before = product()
    empty = Short(monkeypatch, "empty", lambda count, size: isinstance(size, int) and count <= times)
    np.testing.assert_allclose(product(), before, rtol=1e-6)
    assert all(size <= last // 2 for last, size in zip(empty.sizes[:times], empty.sizes[1 : times + 1], strict=True))


@pytest.mark.parametrize("name", ["mm", "mv"])
def test_no_tile_is_counted_twice_where_memory_ends_midway(name, monkeypatch):
    monkeypatch.setattr(products, "TILE", 1 << 18)
    product = sums()
    before = product()
    failing = Short(monkeypatch, name, lambda count, _: count in (3, 4, 9))
    np.testing.assert_allclose(product(), before, rtol=1e-6)
    assert len(failing.sizes) > 9


@pytest.mark.parametrize(
    "words", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"]
)
def test_tiles_shrink_whatever_says_that_memory_is_short(words, monkeypatch):
    product = sums()
    before, real, calls = product(), torch.mv, []

    def short(*given, **options):
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError(words)
        return real(*given, **options)

    monkeypatch.setattr(torch, "mv", short)
    np.testing.assert_allclose(product(), before, rtol=1e-6)
    assert len(calls) > 2


def test_other_errors_are_no_lack_of_memory(monkeypatch):
    product = sums()

    def broken(*given, **options):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch, "mv", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        product()


@pytest.mark.parametrize("free", [0, 1 << 20, 1 << 24])
def test_passes_over_rows_are_shorter_where_memory_is_short(free, monkeypatch):
    rows, sizes, real = up(table(30_000)), [], torch.Tensor.to
    wanted = rows.centre(), rows.squares(), rows.variance(np.ones(30_000))

    def seen(tensor, *given, **options):
        if options.get("copy"):
            sizes.append(tensor.numel())
        return real(tensor, *given, **options)

    monkeypatch.setattr(arrays, "free_memory", lambda device: free)
    monkeypatch.setattr(torch.Tensor, "to", seen)
    for found, expected in zip((rows.centre(), rows.squares(), rows.variance(np.ones(30_000))), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert max(sizes) <= max(arrays.LEAST_PASS, free // 32)


def test_a_pass_that_memory_is_too_short_for_is_one_sentence(monkeypatch):
    rows = up(table())

    def full(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.Tensor, "to", full)
    with pytest.raises(MemoryError, match="too little for a pass over 300 rows of 5 columns: free some"):
        rows.centre()
    with pytest.raises(MemoryError, match=r"too little for an array of shape \(7,\)"):
        arrays.put(np.ones(7), CPU)


def test_memory_that_is_gone_is_one_sentence(monkeypatch):
    product = sums()
    Short(monkeypatch, "mv", lambda *_: True)
    with pytest.raises(MemoryError, match=r"cpu has .* GB of memory left, too little for tiles of 1500 × 1500 kernel"):
        product()


@pytest.mark.parametrize(
    ("function", "words"), [("from_numpy", "300 rows of 5 columns"), ("zeros", "300 rows of 7 columns")]
)
def test_rows_that_do_not_fit_are_one_sentence(function, words, monkeypatch):
    Short(monkeypatch, function, lambda *_: True)
    with pytest.raises(MemoryError, match=f"too little for {words}: free some there, take fewer rows, or compute on"):
        products.DevicePoints(RBF(0.1), up(table()), np.float32)


def test_a_matrix_that_does_not_fit_is_one_sentence(monkeypatch):
    rows = up(table())
    Short(monkeypatch, "mm", lambda *_: True)
    with pytest.raises(MemoryError, match="too little for 300 × 300 kernel values"):
        kernel_matrix(RBF(0.1), rows, rows)


def test_columns_of_a_tile_do_not_depend_on_free_memory():
    """Nor then do the last bits of sums, down to a memory that does not hold the right side of a tile."""
    for rows in (100, 1024, 1_000_000):
        wanted = products._columns(rows, 400_000, 52, products.TILE)
        assert products._columns(rows, 400_000, 52, wanted * 52) == wanted
    assert products._columns(1024, 400_000, 52, 52_000) == 1000


# What a user has set for torch


@pytest.fixture
def tf32():
    """As a user has it who lets torch round factors."""
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")


def test_products_are_in_plain_float32(tf32):
    with products.plain_float32(CPU):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize("general", ["none", "tf32"])
@pytest.mark.parametrize("cpu", ["none", "bf16", "ieee"])
def test_what_torch_does_on_the_cpu_is_left_as_it_was(general, cpu):
    backends = torch.backends
    if not hasattr(getattr(backends.mkldnn, "matmul", None), "fp32_precision"):
        pytest.skip("this torch has one setting for all products")
    settings = [backends, backends.cuda.matmul, backends.mkldnn.matmul]
    before = [each.fp32_precision for each in settings]
    try:
        backends.fp32_precision, backends.mkldnn.matmul.fp32_precision = general, cpu
        backends.cuda.matmul.fp32_precision = "tf32"
        wanted = [each.fp32_precision for each in settings]
        with products.plain_float32(CPU):
            assert backends.cuda.matmul.fp32_precision == "ieee"
        assert [each.fp32_precision for each in settings] == wanted
    finally:
        for each, precision in zip(settings, before, strict=True):
            each.fp32_precision = precision


def test_precision_is_restored_after_an_error(tf32):
    with pytest.raises(KeyError), products.plain_float32(CPU):
        raise KeyError
    assert torch.get_float32_matmul_precision() == "high"


def test_precision_is_restored_by_the_last_thread_that_needs_it(tf32):
    inside, go_on = threading.Event(), threading.Event()

    def other():
        with products.plain_float32(CPU):
            inside.set()
            go_on.wait(60)

    thread = threading.Thread(target=other)
    with products.plain_float32(CPU):
        thread.start()
        assert inside.wait(60)
    assert torch.get_float32_matmul_precision() == "highest"
    go_on.set()
    thread.join()
    assert torch.get_float32_matmul_precision() == "high"


def some_products():
    X = table()
    rows, V = up(X), np.random.default_rng(1).standard_normal((300, 2))
    return kernel_dot(RBF(0.1), rows, rows, V, shift=0.5), kernel_matrix(RBF(0.1), rows, rows)


def test_autocast_rounds_nothing_of_ours():
    wanted = some_products()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = some_products()
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_default_device_and_dtype_are_no_matter():
    wanted = some_products()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):  # where nothing has a value
            found = some_products()
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
