# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks. They name ranks by their numbers among all, as torch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._library import is_distributed, library
from ._reductions import copy_back, over
from ._values import Tensor, check_tensor, dense, plain
from .utils import Group, check_device


def _travelling(call: str, tensor: Tensor, group: Group) -> Tensor:
    """The tensor as every backend takes it: itself, or a copy that is dense."""
    check_tensor(call, "tensor", tensor)
    if not is_distributed():
        raise RuntimeError(f"{call}: this process is alone: call init_dist() first")
    check_device(call, tensor, group)
    return dense(plain(tensor))


def send(tensor: Tensor, dst: int, group: Group = None, tag: int = 0) -> None:
    """Sends a tensor to rank dst. Raises RuntimeError where the process is alone."""
    library().send(_travelling("send", tensor, group), dst, group, tag)


def recv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0) -> int:
    """Receives into a tensor from rank src, or from any; returns the sender."""
    on = _travelling("recv", tensor, group)
    sender = int(library().recv(on, src, group, tag))
    over(None, False, copy_back([tensor], [on]))
    return sender


def isend(tensor: Tensor, dst: int, group: Group = None, tag: int = 0) -> Any:
    """As send(); returns a Work, to which the tensor belongs until its wait() has returned."""
    return over(library().isend(_travelling("isend", tensor, group), dst, group, tag), True)


def irecv(tensor: Tensor, src: int | None = None, group: Group = None, tag: int = 0) -> Any:
    """As recv(); returns a Work, to which the tensor belongs until its wait() has returned."""
    on = _travelling("irecv", tensor, group)
    return over(library().irecv(on, src, group, tag), True, copy_back([tensor], [on]))


def P2POp(op: Callable[..., Any], tensor: Tensor, peer: int, group: Group = None, tag: int = 0) -> Any:
    """A message for batch_isend_irecv. op: isend or irecv, of this module or of torch.distributed."""
    name = getattr(op, "__name__", "")
    if name not in ("isend", "irecv"):
        raise ValueError(f"P2POp: op is {op!r}: expected isend or irecv")
    on = _travelling(f"P2POp {name}", tensor, group)
    if name == "irecv" and copy_back([tensor], [on]) is not None:
        raise ValueError("P2POp: tensor is not contiguous: receive into a copy")
    return library().P2POp(getattr(library(), name), on, peer, group, tag)


def batch_isend_irecv(p2p_op_list: list[Any]) -> list[Any]:
    """Begins all messages of a list at once; returns Works. Nothing is begun for an empty list."""
    works = library().batch_isend_irecv(p2p_op_list) if p2p_op_list else []
    return [over(each, True) for each in works]
