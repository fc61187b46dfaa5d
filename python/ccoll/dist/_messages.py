# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks. They name ranks by their numbers among all, as torch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._library import is_distributed, library
from ._reductions import over
from ._values import Tensor, check_tensor
from .utils import Group, check_device


def _check(call: str, tensor: Tensor, group: Group) -> None:
    check_tensor(call, "tensor", tensor)
    if not is_distributed():
        raise RuntimeError(f"{call}: this process is alone: call init_dist() first")
    check_device(call, tensor, group)


def send(tensor: Tensor, dst: int, group: Group = None, tag: int = 0) -> None:
    """Sends a tensor to rank dst. Raises RuntimeError where the process is alone."""
    _check("send", tensor, group)
    library().send(tensor, dst, group, tag)


def recv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0) -> int:
    """Receives into a tensor from rank src, or from any; returns the sender."""
    _check("recv", tensor, group)
    return int(library().recv(tensor, src, group, tag))


def isend(tensor: Tensor, dst: int, group: Group = None, tag: int = 0) -> Any:
    """As send(); returns a Work, to which the tensor belongs until its wait() has returned."""
    _check("isend", tensor, group)
    return over(library().isend(tensor, dst, group, tag), True)


def irecv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0) -> Any:
    """As recv(); returns a Work, to which the tensor belongs until its wait() has returned."""
    _check("irecv", tensor, group)
    return over(library().irecv(tensor, src, group, tag), True)


def P2POp(op: Callable[..., Any], tensor: Tensor, peer: int, group: Group = None, tag: int = 0) -> Any:
    """A message for batch_isend_irecv. op: isend or irecv, of this module or of torch.distributed."""
    name = getattr(op, "__name__", "")
    if name not in ("isend", "irecv"):
        raise ValueError(f"P2POp: op is {op!r}: expected isend or irecv")
    _check(f"P2POp {name}", tensor, group)
    return library().P2POp(getattr(library(), name), tensor, peer, group, tag)


def batch_isend_irecv(p2p_op_list: list[Any]) -> list[Any]:
    """Begins all messages of a list at once; returns Works. Nothing is begun for an empty list."""
    works = library().batch_isend_irecv(p2p_op_list) if p2p_op_list else []
    return [over(each, True) for each in works]
