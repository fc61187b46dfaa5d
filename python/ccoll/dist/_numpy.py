# SPDX-License-Identifier: Apache-2.0
"""The calls of torch.distributed that ccoll.dist makes, by name and signature, over numpy arrays and ccoll.

A group is a Communicator; ranks that a call names are those of all ranks together, as torch has it.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import ccoll

Array = Any
Group = Any
NON_MEMBER = -100  # the group that new_group() returns to a rank outside it, as torch has it


class ReduceOp(enum.Enum):
    """The reductions, by torch's names; the values are ccoll's."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "bit_and"
    BOR = "bit_or"
    BXOR = "bit_xor"


_groups: list[ccoll.Communicator] = []  # of all ranks, then those of new_group()


def is_initialized() -> bool:
    return bool(_groups)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
) -> None:
    """Joins the job that the environment describes. Raises as ccoll.create() does."""
    if _groups:
        raise RuntimeError("init_process_group: this process is in a process group: call cleanup_dist() first")
    _check_backend("init_process_group", backend)
    if init_method not in (None, "env://"):
        raise ValueError(f"init_process_group: init_method is {init_method!r}: without torch only 'env://' works")
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value >= 0:
            os.environ[name] = str(value)
    limits = {} if timeout is None else {"timeout": timeout.total_seconds(), "start_timeout": timeout.total_seconds()}
    _groups.append(ccoll.create(**limits))  # type: ignore[arg-type]


def _check_backend(call: str, backend: str | None) -> None:
    if backend not in (None, "ccoll"):
        raise ValueError(f"{call}: backend is {backend!r}: without torch only 'ccoll' works")


def destroy_process_group(group: Group = None) -> None:
    """Closes a group, or, without one, all of them."""
    ending = list(reversed(_groups)) if group is None else [each for each in _groups if each is group]
    for each in ending:
        _groups.remove(each)
        each.close()


def communicator(group: Group = None) -> ccoll.Communicator:
    if not _groups:
        raise RuntimeError("this process is in no process group: call init_dist() or init_process_group() first")
    if group is None:
        return _groups[0]
    if group == NON_MEMBER:
        raise ValueError("this rank is not in the group")
    if not isinstance(group, ccoll.Communicator):
        raise TypeError(f"group is {type(group).__name__}: expected None, or what new_group() returned")
    return group


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None
) -> Group:
    """A group of some ranks, in ascending order; all ranks call it. Others get NON_MEMBER."""
    _check_backend("new_group", backend)
    world = communicator()
    limit = None if timeout is None else timeout.total_seconds()
    members = sorted(range(world.size) if ranks is None else ranks)
    if world.rank not in members:
        return NON_MEMBER
    _groups.append(world.subgroup(members, timeout=limit))
    return _groups[-1]


def get_backend(group: Group = None) -> str:
    return "ccoll"


def get_rank(group: Group = None) -> int:
    return -1 if group == NON_MEMBER else communicator(group).rank


def get_world_size(group: Group = None) -> int:
    return -1 if group == NON_MEMBER else communicator(group).size


def get_global_rank(group: Group, group_rank: int) -> int:
    found = communicator(group).rank_in(communicator(), group_rank)
    assert found is not None
    return found


def _root(group: Group, rank: int) -> int:
    """A rank's number in the group, by that among all."""
    if group == NON_MEMBER:
        return 0
    on = communicator(group)
    found = communicator().rank_in(on, rank)
    if found is None:
        raise ValueError(f"rank {rank} is not in the group of {on.size} ranks")
    return found


def _make(group: Group, call: str, async_op: bool, *arguments: Any, **named: Any) -> Any:
    """The communicator's call, or what begins it."""
    if group == NON_MEMBER:
        return None
    made = getattr(communicator(group), call + "_async" if async_op else call)(*arguments, **named)
    return made if async_op else None


def all_reduce(tensor: Array, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Any:
    return _make(group, "all_reduce", async_op, tensor, tensor, op.value)


def broadcast(tensor: Array, src: int = 0, group: Group = None, async_op: bool = False) -> Any:
    return _make(group, "broadcast", async_op, tensor, _root(group, src), tensor)


def reduce(tensor: Array, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False) -> Any:
    out = tensor if get_rank() == dst else None
    return _make(group, "reduce", async_op, tensor, _root(group, dst), op.value, out=out)


def all_gather(tensor_list: list[Array], tensor: Array, group: Group = None, async_op: bool = False) -> Any:
    return _make(group, "all_gather_v", async_op, tensor, tensor_list)


def gather(
    tensor: Array, gather_list: list[Array] | None = None, dst: int = 0, group: Group = None, async_op: bool = False
) -> Any:
    return _make(group, "gather_v", async_op, tensor, gather_list, _root(group, dst))


def scatter(
    tensor: Array, scatter_list: list[Array] | None = None, src: int = 0, group: Group = None, async_op: bool = False
) -> Any:
    return _make(group, "scatter_v", async_op, scatter_list, tensor, _root(group, src))


def reduce_scatter(
    output: Array, input_list: list[Array], op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Any:
    return _make(group, "reduce_scatter_v", async_op, input_list, output, op.value)


def all_to_all(outputs: list[Array], inputs: list[Array], group: Group = None, async_op: bool = False) -> Any:
    return _make(group, "all_to_all_v", async_op, inputs, outputs)


def all_to_all_single(output: Array, input: Array, group: Group = None) -> Any:
    return _make(group, "all_to_all", False, input, output)


def barrier(group: Group = None, async_op: bool = False, device_ids: Any = None) -> Any:
    return _make(group, "barrier", async_op)


def isend(tensor: Array, dst: int, group: Group = None, tag: int = 0) -> Any:
    return communicator(group).send_async(tensor, _root(group, dst), tag)


def irecv(tensor: Array, src: int | None = None, group: Group = None, tag: int = 0) -> Any:
    source = ccoll.ANY_RANK if src is None else _root(group, src)
    return communicator(group).recv_async(tensor, source, tag)


def send(tensor: Array, dst: int, group: Group = None, tag: int = 0) -> None:
    isend(tensor, dst, group, tag).wait()


def recv(tensor: Array, src: int | None = None, group: Group = None, tag: int = 0) -> int:
    """The rank, among all, that the message came from."""
    received = irecv(tensor, src, group, tag).wait()
    return get_global_rank(group, received.source)


class P2POp:
    """A message of batch_isend_irecv. op: isend or irecv of this module."""

    def __init__(
        self, op: Callable[..., Any], tensor: Array, peer: int, group: Group = None, tag: int = 0
    ) -> None:
        make = ccoll.Send if op is isend else ccoll.Recv
        self.on, self.request = communicator(group), make(tensor, _root(group, peer), tag)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """One Work for all messages, which are in one group."""
    if any(each.on is not p2p_op_list[0].on for each in p2p_op_list):
        raise ValueError("batch_isend_irecv: the messages are in several groups: expected one")
    return [p2p_op_list[0].on.batch_async([each.request for each in p2p_op_list])] if p2p_op_list else []
