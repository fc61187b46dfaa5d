# SPDX-License-Identifier: Apache-2.0
"""The ranks, groups of them, and devices. Alone, a process is rank 0 of 1."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ._launch import infer_launcher, init_dist, init_process_group
from ._library import has_torch, is_distributed, library, log
from ._reductions import over
from ._values import Device, Tensor, copy_into, dense, device_of, is_tensor, moved, plain

__all__ = [
    "barrier", "cast_data_device", "cleanup_dist", "destroy_group", "get_backend", "get_comm_device",
    "get_current_device", "get_data_device", "get_default_group", "get_dist_info", "get_local_group",
    "get_local_rank", "get_local_size", "get_rank", "get_world_size", "infer_launcher", "init_dist",
    "init_local_group", "init_process_group", "is_distributed", "is_main_process", "master_only", "new_group",
]  # fmt: skip

Group = Any
_Result = TypeVar("_Result")
_local: tuple[Group, Group] | None = None  # the group of all ranks that it was made in, and the local one
# Backends that take tensors of one kind of device, and that device.
_DEVICES = {
    "nccl": "cuda", "smddp": "cuda", "hccl": "npu", "cncl": "mlu", "mccl": "musa", "gloo": "cpu", "mpi": "cpu",
}  # fmt: skip
_hinted: set[tuple[str, str, str]] = set()


def get_default_group() -> Group:
    """The group of all ranks; None where the process is alone."""
    if not is_distributed():
        return None
    return library().group.WORLD if has_torch() else library().communicator()


def get_backend(group: Group = None) -> str | None:
    """The name of the group's backend; None where the process is alone."""
    return str(library().get_backend(group)) if is_distributed() else None


def get_world_size(group: Group = None) -> int:
    """The number of the group's ranks; -1 for a rank outside it."""
    return int(library().get_world_size(group)) if is_distributed() else 1


def get_rank(group: Group = None) -> int:
    """This rank's number in the group; -1 for a rank outside it."""
    return int(library().get_rank(group)) if is_distributed() else 0


def get_dist_info(group: Group = None) -> tuple[int, int]:
    """The rank and the number of ranks."""
    return get_rank(group), get_world_size(group)


def is_main_process(group: Group = None) -> bool:
    """Whether this is rank 0 of the group."""
    return get_rank(group) == 0


def master_only(func: Callable[..., _Result]) -> Callable[..., _Result | None]:
    """Has rank 0 of all call the function; the other ranks get None."""

    @functools.wraps(func)
    def wrapper(*arguments: Any, **named: Any) -> _Result | None:
        return func(*arguments, **named) if is_main_process() else None

    return wrapper


def barrier(group: Group = None, async_op: bool = False, device_ids: list[int] | None = None) -> Any:
    """Returns when every rank of the group has called it. device_ids: as torch takes them, for NCCL."""
    if get_world_size(group) <= 1:
        return over(None, async_op)
    return over(library().barrier(group, async_op, device_ids), async_op)


def new_group(ranks: list[int] | None = None, **named: Any) -> Group:
    """A group of some ranks. Every rank calls it; None where the process is alone.

    named: as torch.distributed.new_group takes them.
    """
    return library().new_group(ranks, **named) if is_distributed() else None


def destroy_group(group: Group = None) -> None:
    """Ends a group, or, without one, all of them."""
    if group is None:
        cleanup_dist()
    elif is_distributed() and get_rank(group) >= 0:
        global _local
        if _local is not None and group is _local[1]:
            _local = None
        library().destroy_process_group(group)


def cleanup_dist() -> None:
    """Ends all groups. A process that is alone may call it, too."""
    global _local
    _local = None
    if is_distributed():
        library().destroy_process_group()


def init_local_group(node_rank: int, num_gpus_per_node: int) -> None:
    """Makes the group of the ranks on this host. Every rank calls it.

    Host n has the ranks from n * num_gpus_per_node on. Raises ValueError where this rank is not on node_rank.
    """
    global _local
    if not is_distributed():
        return
    rank, size = get_dist_info()
    if num_gpus_per_node < 1 or rank // num_gpus_per_node != node_rank:
        raise ValueError(
            f"init_local_group: node_rank is {node_rank} and num_gpus_per_node is {num_gpus_per_node}: "
            f"expected those of the host with rank {rank}"
        )
    # Each rank makes all of them, as a group needs every rank's call.
    for first in range(0, size, num_gpus_per_node):
        group = library().new_group(list(range(first, min(first + num_gpus_per_node, size))))
        if first == node_rank * num_gpus_per_node:
            _local = get_default_group(), group


def get_local_group() -> Group:
    """The group of the ranks on this host; None where the process is alone.

    Raises RuntimeError before init_local_group().
    """
    if not is_distributed():
        return None
    if _local is None or _local[0] is not get_default_group():
        raise RuntimeError("there is no local group: call init_local_group() first")
    return _local[1]


def get_local_size() -> int:
    """The number of ranks on this host. Raises as get_local_group()."""
    return get_world_size(get_local_group())


def get_local_rank() -> int:
    """This rank's number on its host. Raises as get_local_group()."""
    return get_rank(get_local_group())


def _device(kind: str) -> Device:
    """This process's device of a kind."""
    if not has_torch():
        return "cpu"
    torch = sys.modules["torch"]
    return torch.device(kind) if kind == "cpu" else torch.device(kind, getattr(torch, kind).current_device())


def get_current_device(use_cpu: bool = False) -> Device:
    """The GPU that this process uses; the CPU where there is none or use_cpu is set."""
    if not use_cpu and has_torch():
        torch = sys.modules["torch"]
        for kind in ("cuda", "npu", "mlu", "musa"):
            if hasattr(torch, kind) and getattr(torch, kind).is_available():
                return _device(kind)
    return _device("cpu")


def _kinds(group: Group) -> list[str]:
    """The kinds of devices whose tensors the group takes."""
    named = _DEVICES.get(get_backend(group) or "cpu")
    if named is not None or not has_torch():
        return [named or "cpu"]
    in_use = get_default_group() if group is None else group
    return [each.type for each in getattr(in_use, "_device_types", [])] or ["cpu"]


def get_comm_device(group: Group = None) -> Device:
    """The device whose tensors the group takes: the CPU if several."""
    kinds = _kinds(group)
    return _device("cpu" if "cpu" in kinds else kinds[0])


def travelling(call: str, x: Tensor, group: Group) -> Tensor:
    """The tensor as the group's backend takes it: itself, or a copy that is dense and on its device."""
    return all_travelling(call, [x], group)[0]


def all_travelling(call: str, tensors: Sequence[Tensor], group: Group) -> list[Tensor]:
    """The same of some tensors that are on one device."""
    if not tensors or not has_torch() or device_of(tensors[0]).type in _kinds(group):
        return [dense(plain(each)) for each in tensors]
    device = get_comm_device(group)
    key = (call, device_of(tensors[0]).type, device.type)
    if key not in _hinted:
        _hinted.add(key)
        log.warning("%s is copied to %s and back in each call", _misfit(call, tensors[0], group), device)
    return [dense(moved(plain(each), device)) for each in tensors]


def check_device(call: str, x: Tensor, group: Group) -> None:
    """Raises ValueError for a tensor that the group's backend does not take."""
    if has_torch() and device_of(x).type not in _kinds(group):
        raise ValueError(f"{_misfit(call, x, group)} cannot be taken: use x.to({str(get_comm_device(group))!r})")


def _misfit(call: str, x: Tensor, group: Group) -> str:
    kinds = " and ".join(sorted(_kinds(group)))
    return f"{call}: backend {get_backend(group)!r} takes tensors on {kinds}; a tensor on {device_of(x)}"


def get_data_device(data: Any) -> Device:
    """The device of a tensor, or of all tensors in a mapping or sequence, at any depth.

    Raises TypeError for other data, ValueError where there is none or devices differ.
    """
    if is_tensor(data):
        return device_of(data)
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise TypeError(f"data should be a Tensor, sequence of tensor or dict, but is {data!r}")
    found = None
    for each in data.values() if isinstance(data, Mapping) else data:
        device = get_data_device(each)
        if found is not None and device != found:
            raise ValueError(f"device type in data should be consistent, but is {found} and {device}")
        found = device
    if found is None:
        raise ValueError("data should not be empty")
    return found


def cast_data_device(data: Any, device: Device, out: Any = None) -> Any:
    """The data on a device, in containers of the same types; a tensor that is there stays itself.

    out: of data's type and length, takes the values, too. Raises TypeError and ValueError where it does not fit.
    """
    if out is not None and type(data) is not type(out):
        raise TypeError(f"out is {type(out).__name__}: expected the type of data, {type(data).__name__}")
    if isinstance(out, set):
        raise TypeError("out should not be a set")
    if is_tensor(data):
        cast = moved(data, device)
        if out is not None:
            copy_into(out, cast)
        return cast
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise TypeError(f"data should be a Tensor, list of tensor or dict, but is {data!r}")
    items = dict(data) if isinstance(data, Mapping) else dict(enumerate(data))
    if not items:
        raise ValueError("data should not be empty")
    if out is not None and len(out) != len(items):
        raise ValueError(f"length of data and out should be same, but is {len(items)} and {len(out)}")
    made = {key: cast_data_device(each, device, None if out is None else out[key]) for key, each in items.items()}
    kind: Any = type(data)
    if isinstance(data, dict):
        same = copy.copy(data)  # keeps what a defaultdict has beside its items
        same.update(made)
        return same
    if hasattr(data, "_fields"):
        return kind(*made.values())
    return kind(made) if isinstance(data, Mapping) else kind(made.values())
