"""Tensors as a GPU has them, on the CPU: NumPy cannot read them, and memory runs out."""

from __future__ import annotations

from importlib.util import find_spec

from evenmargin._device import arrays, products

if find_spec("torch") is not None:
    import torch

    class Remote(torch.Tensor):
        """A tensor that only `cpu()` makes readable. The class must look like torch's own."""

        def __array__(self, *given, **named):
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")

        @property
        def __cuda_array_interface__(self):
            """As on a GPU: where a gradient is required, asking for it raises what `hasattr` lets through."""
            if self.requires_grad:
                raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")
            raise AttributeError("__cuda_array_interface__")

    Remote.__module__ = "torch.remote"


def remote(array):
    return torch.from_numpy(array.copy()).as_subclass(Remote)


def there(array, place):
    """A tensor on the device of the fixture `place`."""
    return remote(array) if place == "cpu" else torch.from_numpy(array).to(place)


def is_there(array, place):
    return isinstance(array, torch.Tensor) and array.device.type == place


def count_as_gpu(monkeypatch):
    """CPU tensors count as tensors without array API dispatch, too, as those on a GPU do."""
    home = lambda cls, X, dispatch: cls(X.device) if arrays.is_tensor(X) else cls()  # noqa: E731
    monkeypatch.setattr(arrays.Home, "of", classmethod(home))


def limit_tiles(monkeypatch, size, memory=None):
    """Tiles of so many numbers at most; with `memory`, larger ones than that find no room."""
    product = products.outer_product

    def limited(left, right, out):
        if memory is not None and left.shape[0] * right.shape[0] > memory:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return product(left, right, out)

    monkeypatch.setattr(products, "TILE", size)
    monkeypatch.setattr(products, "LEAST", min(products.LEAST, 16))
    monkeypatch.setattr(products, "outer_product", limited)
