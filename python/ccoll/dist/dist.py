# SPDX-License-Identifier: Apache-2.0
"""Collective calls on tensors. Alone, a process gets what one rank would.

`src` and `dst` are ranks among all, also where a group is given, as torch has it. A tensor that is not on the
group's device, or not dense, travels as a copy; its own memory holds the result when the call is over. With
async_op a call returns a Work, and the result is in place when its wait() has returned. For a rank outside the
group nothing is done, but messages raise ValueError.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, overload

from ._library import library
from ._many import all_reduce_dict, all_reduce_params
from ._messages import P2POp, batch_isend_irecv, irecv, isend, recv, send
from ._objects import all_gather_object, broadcast_object_list, gather_object
from ._reductions import Reduction, copy_back, finished, over
from ._results import collect_results, collect_results_cpu, collect_results_gpu
from ._values import (
    Tensor, check_tensor, copy_into, copy_of, describe, device_of, empty_like, integers, is_tensor, moved,
)  # fmt: skip
from .utils import Group, get_backend, get_comm_device, get_rank, get_world_size, travelling

__all__ = [
    "P2POp", "all_gather", "all_gather_object", "all_reduce", "all_reduce_dict", "all_reduce_params", "all_to_all",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "collect_results", "collect_results_cpu",
    "collect_results_gpu", "gather", "gather_object", "irecv", "isend", "recv", "reduce", "reduce_scatter",
    "scatter", "send", "sync_random_seed",
]  # fmt: skip


def _check_list(call: str, name: str, tensors: Any, size: int) -> None:
    if not isinstance(tensors, (list, tuple)) or len(tensors) != size or not all(map(is_tensor, tensors)):
        given = f"{len(tensors)} items" if isinstance(tensors, (list, tuple)) else type(tensors).__name__
        raise ValueError(f"{call}: {name} is {given}: expected a list of {size} tensors, one for each rank")


def all_reduce(data: Tensor, op: Any = "sum", group: Group = None, async_op: bool = False) -> Any:
    """Reduces over all ranks, in place.

    op: "sum", "mean", "product", "min", "max", "band", "bor", "bxor" in any case, or a ReduceOp. A mean of
    integers is cut towards 0. Raises ValueError for another op.
    """
    reduction = Reduction(op)
    check_tensor("all_reduce", "data", data)
    size = get_world_size(group)
    if size <= 1:
        return over(None, async_op)
    on = travelling("all_reduce", data, group)
    reduction = reduction.by(get_backend(group), on)
    work = library().all_reduce(on, reduction.of_library(), group, async_op)
    return over(work, async_op, finished(reduction, data, on, size))


def reduce(tensor: Tensor, dst: int = 0, op: Any = "sum", group: Group = None, async_op: bool = False) -> Any:
    """Reduces over all ranks, in place at rank dst; the others keep what they have. op: as for all_reduce."""
    reduction = Reduction(op)
    check_tensor("reduce", "tensor", tensor)
    size = get_world_size(group)
    if size <= 1:
        return over(None, async_op)
    on, is_root = travelling("reduce", tensor, group), get_rank() == dst
    reduction = reduction.by(get_backend(group), on)
    if not is_root and get_backend(group) != "ccoll":
        on = copy_of(on)  # other backends write to it
    work = library().reduce(on, dst, reduction.of_library(), group, async_op)
    return over(work, async_op, finished(reduction, tensor, on, size) if is_root else None)


@overload
def all_gather(data: Tensor, group: Group = None) -> list[Tensor]: ...
@overload
def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False) -> Any: ...
def all_gather(*args: Any, **named: Any) -> Any:
    """All ranks' tensors of one shape, by rank: all_gather(data, group=None) returns them on data's device.

    all_gather(tensor_list, tensor, group=None, async_op=False) writes them into a list of tensors.
    """
    if len(args) > 1 and is_tensor(args[1]) or "tensor" in named:
        return _all_gather_into(*args, **named)
    return _all_gather(*args, **named)


def _all_gather(data: Tensor, group: Group = None) -> list[Tensor]:
    check_tensor("all_gather", "data", data)
    size = get_world_size(group)
    if size <= 1:
        return [data] * max(size, 0)
    on = travelling("all_gather", data, group)
    outputs = [empty_like(on) for _ in range(size)]
    library().all_gather(outputs, on, group)
    return [moved(each, device_of(data)) for each in outputs]


def _all_gather_into(tensor_list: list[Tensor], tensor: Tensor, group: Group = None, async_op: bool = False) -> Any:
    size = get_world_size(group)
    if size < 0:
        return over(None, async_op)
    _check_list("all_gather", "tensor_list", tensor_list, size)
    if size == 1:
        copy_into(tensor_list[0], tensor)
        return over(None, async_op)
    outputs = [travelling("all_gather", each, group) for each in tensor_list]
    work = library().all_gather(outputs, travelling("all_gather", tensor, group), group, async_op)
    return over(work, async_op, copy_back(tensor_list, outputs))


@overload
def gather(data: Tensor, dst: int = 0, group: Group = None) -> list[Tensor]: ...
@overload
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None, dst: int = 0, group: Group = None, async_op: bool = False
) -> Any: ...
def gather(*args: Any, **named: Any) -> Any:
    """All ranks' tensors of one shape, by rank, at rank dst: gather(data, dst=0, group=None).

    It returns them on data's device, and an empty list elsewhere. gather(tensor, gather_list, dst=0, group=None,
    async_op=False) writes them into a list of tensors, which is None elsewhere.
    """
    if len(args) > 1 and not isinstance(args[1], Integral) or {"tensor", "gather_list", "async_op"} & named.keys():
        return _gather_into(*args, **named)
    return _gather(*args, **named)


def _gather(data: Tensor, dst: int = 0, group: Group = None) -> list[Tensor]:
    check_tensor("gather", "data", data)
    size = get_world_size(group)
    if size <= 1:
        return [data] * max(size, 0)
    on = travelling("gather", data, group)
    outputs = [empty_like(on) for _ in range(size)] if get_rank() == dst else []
    library().gather(on, outputs or None, dst, group)
    return [moved(each, device_of(data)) for each in outputs]


def _gather_into(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Group = None,
    async_op: bool = False,
) -> Any:
    check_tensor("gather", "tensor", tensor)
    size = get_world_size(group)
    if size < 0:
        return over(None, async_op)
    is_root = size == 1 or get_rank() == dst
    if is_root:
        _check_list("gather", "gather_list", gather_list, size)
    homes = gather_list if is_root and gather_list is not None else []
    if size == 1:
        copy_into(homes[0], tensor)
        return over(None, async_op)
    outputs = [travelling("gather", each, group) for each in homes]
    work = library().gather(travelling("gather", tensor, group), outputs or None, dst, group, async_op)
    return over(work, async_op, copy_back(homes, outputs))


def broadcast(data: Tensor, src: int = 0, group: Group = None, async_op: bool = False) -> Any:
    """Rank src's tensor, on every rank, in place."""
    check_tensor("broadcast", "data", data)
    if get_world_size(group) <= 1:
        return over(None, async_op)
    on = travelling("broadcast", data, group)
    work = library().broadcast(on, src, group, async_op)
    return over(work, async_op, copy_back([data], [on]) if get_rank() != src else None)


def scatter(
    data: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int = 0,
    group: Group = None,
    async_op: bool = False,
) -> Any:
    """Writes scatter_list[r] of rank src into data of rank r. Raises ValueError where the list does not fit."""
    check_tensor("scatter", "data", data)
    size = get_world_size(group)
    parts: list[Tensor] = []
    if size < 0 or size == 1 and scatter_list is None:
        return over(None, async_op)
    if size == 1 or get_rank() == src:
        _check_list("scatter", "scatter_list", scatter_list, size)
        parts = [travelling("scatter", each, group) for each in scatter_list or []]
        for rank, each in enumerate(parts):
            if each.shape != data.shape or each.dtype != data.dtype:
                raise ValueError(
                    f"scatter: scatter_list[{rank}] is {describe(each)}: expected that of data, {describe(data)}"
                )
    if size == 1:
        copy_into(data, parts[0])
        return over(None, async_op)
    on = travelling("scatter", data, group)
    work = library().scatter(on, parts or None, src, group, async_op)
    return over(work, async_op, copy_back([data], [on]))


def reduce_scatter(
    output: Tensor, input: list[Tensor], op: Any = "sum", group: Group = None, async_op: bool = False
) -> Any:
    """Writes the reduction of all ranks' input[r] into output of rank r. op: as for all_reduce."""
    reduction = Reduction(op)
    check_tensor("reduce_scatter", "output", output)
    size = get_world_size(group)
    if size < 0:
        return over(None, async_op)
    _check_list("reduce_scatter", "input", input, size)
    if size == 1:
        copy_into(output, input[0])
        return over(None, async_op)
    on = travelling("reduce_scatter", output, group)
    reduction = reduction.by(get_backend(group), on)
    parts = [travelling("reduce_scatter", each, group) for each in input]
    work = library().reduce_scatter(on, parts, reduction.of_library(), group, async_op)
    return over(work, async_op, finished(reduction, output, on, size))


@overload
def all_to_all(data: Tensor, group: Group = None) -> Tensor: ...
@overload
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Group = None, async_op: bool = False
) -> Any: ...
def all_to_all(*args: Any, **named: Any) -> Any:
    """Sends a part to each rank: all_to_all(data, group=None) cuts data along dimension 0, one part for each.

    It returns the parts from all ranks, joined. Raises ValueError where that dimension does not divide.
    all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False) has a tensor for each rank.
    """
    if len(args) > 1 and isinstance(args[1], (list, tuple)) or "input_tensor_list" in named:
        return _all_to_all_lists(*args, **named)
    return _all_to_all(*args, **named)


def _all_to_all(data: Tensor, group: Group = None) -> Tensor:
    check_tensor("all_to_all", "data", data)
    size = get_world_size(group)
    if not data.shape or (size > 0 and data.shape[0] % size):
        raise ValueError(
            f"all_to_all: data is {describe(data)}: expected a first dimension that is a multiple of {size}, the number of ranks"
        )
    if size <= 1:
        return data
    on = travelling("all_to_all", data, group)
    out = empty_like(on)
    library().all_to_all_single(out, on, group=group)
    return moved(out, device_of(data))


def _all_to_all_lists(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Group = None, async_op: bool = False
) -> Any:
    size = get_world_size(group)
    work, back = None, None
    if size >= 0:
        _check_list("all_to_all", "output_tensor_list", output_tensor_list, size)
        _check_list("all_to_all", "input_tensor_list", input_tensor_list, size)
    if size == 1:
        copy_into(output_tensor_list[0], input_tensor_list[0])
    elif size > 1:
        outputs = [travelling("all_to_all", each, group) for each in output_tensor_list]
        inputs = [travelling("all_to_all", each, group) for each in input_tensor_list]
        work, back = library().all_to_all(outputs, inputs, group, async_op), copy_back(output_tensor_list, outputs)
    made = over(work, async_op, back)
    return made if async_op else output_tensor_list


def sync_random_seed(group: Group = None) -> int:
    """A random number from 0 to 2**31 - 1 that is the same on every rank, from numpy's generator at rank 0."""
    import numpy

    seed = int(numpy.random.randint(2**31))
    if get_world_size(group) <= 1:
        return seed
    number = integers(seed, get_comm_device(group))
    broadcast(number, library().get_global_rank(group, 0) if group is not None else 0, group)
    return int(number.item())
