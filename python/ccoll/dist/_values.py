# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch and arrays of numpy, which the calls treat alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ._library import has_torch, is_installed

# A tensor of torch or an array of numpy, and a device of torch or "cpu".
Tensor = Any
Device = Any


def _is_torchs(x: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor of torch or, where torch is not installed, an array of numpy."""
    if is_installed("torch"):
        return _is_torchs(x)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def describe(x: Any) -> str:
    """The type and shape of a tensor, its layout unless strided, its kind of device unless the CPU.

    Otherwise the type of what is no tensor.
    """
    if not is_tensor(x):
        return f"{type(x).__name__}, which is no tensor"
    layout = str(getattr(x, "layout", "strided")).removeprefix("torch.")
    device = getattr(device_of(x), "type", "cpu")
    return (
        f"{'' if layout == 'strided' else layout + ' '}{str(x.dtype).removeprefix('torch.')} of shape {tuple(x.shape)}"
        f"{'' if device == 'cpu' else ' on ' + device}"
    )


def check_tensor(call: str, name: str, x: Any) -> None:
    if not is_tensor(x):
        raise TypeError(f"{call}: {name} is {type(x).__name__}: expected a tensor")


def device_of(x: Tensor) -> Device:
    return x.device if _is_torchs(x) else "cpu"


def plain(x: Tensor) -> Tensor:
    """The same memory, of which autograd knows nothing."""
    return x.detach() if _is_torchs(x) and x.requires_grad else x


def moved(x: Tensor, device: Device) -> Tensor:
    """The tensor on a device: itself if it is there."""
    return x if device_of(x) == device else x.to(device)


def is_sparse(x: Tensor) -> bool:
    return bool(_is_torchs(x) and x.layout != sys.modules["torch"].strided)


def dense(x: Tensor) -> Tensor:
    """The tensor with its elements as they read side by side: itself if they are, or if it is sparse."""
    if is_sparse(x):
        return x
    if _is_torchs(x):
        x = x.resolve_conj().resolve_neg()
        return x if x.is_contiguous() else x.contiguous()
    return x if x.flags.c_contiguous else x.copy()


def copy_of(x: Tensor) -> Tensor:
    return x.detach().clone() if _is_torchs(x) else x.copy()


def empty_like(x: Tensor) -> Tensor:
    if _is_torchs(x):
        return sys.modules["torch"].empty_like(x, requires_grad=False)
    return sys.modules["numpy"].empty_like(x)


def copy_into(out: Tensor, x: Tensor) -> None:
    """Writes x into out, converted to its type; on any devices."""
    if _is_torchs(out):
        out.detach().copy_(x)
    else:
        out[...] = x


def is_real(x: Tensor) -> bool:
    """Whether its elements are integers or floating-point numbers."""
    return str(x.dtype).removeprefix("torch.").startswith(("int", "uint", "float", "bfloat"))


def divide(x: Tensor, by: int) -> None:
    """Division in place; integers are cut towards 0, whatever their size."""
    x = plain(x)
    if not is_real(x) and "complex" not in str(x.dtype):
        copy_into(x, x / by)
    elif "int" not in str(x.dtype):
        x /= by
    elif _is_torchs(x):
        copy_into(x, x.div(by, rounding_mode="trunc"))
    else:
        quotient, rest = divmod(x, by)
        x[...] = quotient + ((x < 0) & (rest != 0))


def integers(values: Sequence[int] | int, device: Device) -> Tensor:
    """A new tensor of 64-bit integers."""
    if has_torch():
        torch = sys.modules["torch"]
        return torch.tensor(values, dtype=torch.int64, device=device)
    import numpy

    return numpy.array(values, dtype=numpy.int64)
