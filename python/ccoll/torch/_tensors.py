# SPDX-License-Identifier: Apache-2.0
"""Tensors as ccoll's arrays, and torch's reductions as ccoll's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

import ccoll

from ._older import factor_of

_Ops = c10d.ReduceOp.RedOpType
_OPS = {
    _Ops.SUM: "sum", _Ops.AVG: "avg", _Ops.PRODUCT: "product", _Ops.MIN: "min", _Ops.MAX: "max",
    _Ops.BAND: "bit_and", _Ops.BOR: "bit_or", _Ops.BXOR: "bit_xor",
}  # fmt: skip
_OF_BOOL = {
    "sum": "bit_or", "max": "bit_or", "bit_or": "bit_or", "product": "bit_and", "min": "bit_and",
    "bit_and": "bit_and", "bit_xor": "bit_xor",
}  # fmt: skip
# Types that ccoll moves, but does not know.
_OPAQUE = tuple(
    getattr(torch, name)
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
    if hasattr(torch, name)
)


def describe(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}, strides {tensor.stride()}, on {tensor.device}"


def refuse(call: str, why: str) -> ValueError:
    return ValueError(f"ccoll: {call}: {why}")


def reduction(call: str, op: Any, tensor: torch.Tensor) -> Any:
    """The reduction of torch's ReduceOp for elements of the tensor's type."""
    if tensor.dtype in _OPAQUE:
        raise refuse(call, f"{tensor.dtype} can be moved, not reduced")
    kind = getattr(op, "op", op)
    if kind == _Ops.PREMUL_SUM:
        return ccoll.Reduction.premultiplied_sum(factor_of(op))
    name = _OPS.get(kind)
    if name is None:
        raise refuse(call, f"there is no reduction {op}")
    if tensor.dtype == torch.bool:
        if name not in _OF_BOOL:
            raise refuse(call, f"{name} of bool tensors has no meaning; SUM and MAX are `or`, MIN and PRODUCT `and`")
        return _OF_BOOL[name]
    if name.startswith("bit_") and (tensor.dtype.is_floating_point or tensor.dtype.is_complex):
        raise refuse(call, f"{name} of {tensor.dtype}: bitwise reductions take integers and bool only")
    return name


def only(call: str, tensors: Sequence[torch.Tensor] | torch.Tensor) -> torch.Tensor:
    """The tensor of a call that takes a list of one."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise refuse(call, f"expected one tensor, not {len(tensors)}")
    return tensors[0]


def _check(call: str, tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided:
        raise refuse(call, f"a tensor of layout {tensor.layout}: give its dense parts, or its values()")
    if tensor.is_quantized:
        raise refuse(call, "a quantised tensor: give its int_repr()")
    if tensor.dtype == torch.complex32 and tensor.is_conj():  # torch does not show its memory
        raise refuse(call, "a conjugate of torch.complex32: give its resolve_conj()")
    if tensor.device.type != "cpu":
        why = "the backend in Python takes CPU tensors only; the one in C++ takes those of GPUs, too"
        raise refuse(call, f"a tensor on {tensor.device}: {why}")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.dtype not in _OPAQUE:
        return tensor
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor.view(torch.uint8)


def as_array(call: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as ccoll takes it, to read or to write."""
    _check(call, tensor)
    return _plain(tensor)


def as_arrays(call: str, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [as_array(call, each) for each in tensors]


def same_type(call: str, one: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
    for each in others:
        if each.dtype != one.dtype:
            raise refuse(call, f"tensors of one type are expected: {describe(one)} and {describe(each)}")


def sizes_fit(call: str, out: torch.Tensor, expected: int, why: str) -> None:
    if out.numel() != expected:
        raise refuse(call, f"{expected} elements are expected, {why}; the tensor is {describe(out)}")
