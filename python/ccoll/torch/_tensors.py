# SPDX-License-Identifier: Apache-2.0
"""Tensors as ccoll's arrays, and torch's reductions as ccoll's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

import ccoll

from ._older import factor_of

Finish = Callable[[], None] | None

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
    if tensor.device.type != "cpu":
        why = "the backend in Python takes CPU tensors only; the one in C++ takes those of GPUs, too"
        raise refuse(call, f"a tensor on {tensor.device}: {why}")


def _check_apart(call: str, tensor: torch.Tensor) -> None:
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape)):
        raise refuse(call, f"an output whose elements share memory: {describe(tensor)}; give a contiguous() one")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor.view(torch.uint8) if tensor.dtype in _OPAQUE else tensor


def _lies_in_order(tensor: torch.Tensor) -> bool:
    """Whether its elements lie one after another, or in rows that are equally far apart: a block of ccoll."""
    if tensor.is_conj() or tensor.is_neg():
        return False
    if tensor.is_contiguous():
        return True
    if tensor.dtype == torch.complex32:  # torch shows their bytes only where the elements lie side by side
        return False
    length, rows, apart = 1, 1, 0
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if size == 1:
            continue
        if rows == 1 and stride == length:
            length *= size
        elif rows == 1 and stride > length:
            rows, apart = size, stride
        elif rows > 1 and stride == rows * apart:
            rows *= size
        else:
            return False
    return True


def _in_order(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().resolve_conj().resolve_neg()


def source(call: str, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor to read, with its elements in order: itself, or a copy."""
    _check(call, tensor)
    return _plain(tensor if _lies_in_order(tensor) else _in_order(tensor))


def target(call: str, tensor: torch.Tensor) -> tuple[torch.Tensor, Finish]:
    """What is written in place of a tensor, in the order of its elements, and how it gets there at the end."""
    _check(call, tensor)
    _check_apart(call, tensor)
    if _lies_in_order(tensor):
        return _plain(tensor), None
    made = torch.empty(tensor.shape, dtype=tensor.dtype)
    return _plain(made), lambda: _put(tensor, made)


def both(call: str, tensor: torch.Tensor) -> tuple[torch.Tensor, Finish]:
    """The same of what is read and written."""
    _check(call, tensor)
    _check_apart(call, tensor)
    if _lies_in_order(tensor):
        return _plain(tensor), None
    made = _in_order(tensor)
    return _plain(made), lambda: _put(tensor, made)


def _put(tensor: torch.Tensor, made: torch.Tensor) -> None:
    # A tensor of inference mode is written in that mode alone, which the library's thread is not in.
    with torch.inference_mode() if tensor.is_inference() else torch.no_grad():
        tensor.copy_(made)


def targets(call: str, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Finish]:
    pairs = [target(call, each) for each in tensors]
    return [each for each, _ in pairs], in_turn([finish for _, finish in pairs])


def in_turn(finishes: Sequence[Finish]) -> Finish:
    all_of_them = [each for each in finishes if each is not None]
    if not all_of_them:
        return None

    def finish() -> None:
        for each in all_of_them:
            each()

    return finish


def same_type(call: str, one: torch.Tensor, others: Sequence[torch.Tensor]) -> None:
    for each in others:
        if each.dtype != one.dtype:
            raise refuse(call, f"tensors of one type are expected: {describe(one)} and {describe(each)}")


def sizes_fit(call: str, out: torch.Tensor, expected: int, why: str) -> None:
    if out.numel() != expected:
        raise refuse(call, f"{expected} elements are expected, {why}; the tensor is {describe(out)}")
