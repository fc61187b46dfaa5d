# SPDX-License-Identifier: Apache-2.0
"""all_reduce of dictionaries and lists of tensors.

The ranks first compare, in one call of 16 bytes, what each of them passes: where it differs, every rank raises
an error that names two of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import ccoll

from ._library import has_torch, library
from ._objects import all_gather_object
from ._reductions import Reduction
from ._values import (
    Tensor, check_tensor, copy_into, copy_of, describe, device_of, divide, integers, is_tensor, plain,
)  # fmt: skip
from .utils import Group, get_backend, get_comm_device, get_default_group, get_world_size, travelling

# Backends whose coalesced all_reduce takes tensors where they lie.
_IN_PLACE = ("ccoll", "nccl")


def all_reduce_dict(data: dict[Any, Tensor], op: Any = "sum", group: Group = None) -> None:
    """Reduces each tensor of a dictionary over all ranks; new tensors take their places in it.

    op: as for all_reduce. Tensors may have any types and shapes, the same on all ranks.
    Raises AssertionError where data is no dict, ccoll.Mismatch where ranks pass other keys, types or shapes.
    """
    assert isinstance(data, dict), f"all_reduce_dict: data is {type(data).__name__}: expected a dict"
    reduction = Reduction(op)
    if get_world_size(group) <= 1:
        return
    keys = sorted(data)
    _compare("all_reduce_dict", [f"[{key!r}]" for key in keys], [data[key] for key in keys], str(reduction), group)
    made = [copy_of(data[key]) for key in keys]
    _reduce_all("all_reduce_dict", made, reduction, group)
    data.update(zip(keys, made))


def all_reduce_params(
    params: Iterable[Tensor],
    coalesce: bool = True,
    bucket_size_mb: float = -1,
    op: Any = "sum",
    group: Group = None,
) -> None:
    """Reduces each of many tensors over all ranks, in place, such as a model's parameters or their gradients.

    params: a list or generator of tensors. coalesce: one call for all tensors of a type, or, where bucket_size_mb
    is positive, for as many of them as have so many MiB; otherwise one call for each. op: as for all_reduce.
    Raises ccoll.Mismatch where ranks pass other numbers, types or shapes, or another way of calls.
    """
    reduction = Reduction(op)
    if get_world_size(group) <= 1:
        return
    tensors = [plain(each) for each in params]
    way = f"{reduction}, coalesce={bool(coalesce)}, bucket_size_mb={float(bucket_size_mb)}"
    _compare("all_reduce_params", [f"[{i}]" for i in range(len(tensors))], tensors, way, group)
    limit = bucket_size_mb * 2**20 if coalesce else 1
    for bucket in _buckets(tensors, limit):
        _reduce_all("all_reduce_params", bucket, reduction, group)


def _buckets(tensors: list[Tensor], limit: float) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, of at most `limit` bytes unless one tensor has more; no limit below 1."""
    open_ones: dict[Any, tuple[list[Tensor], int]] = {}
    for each in tensors:
        key = (each.dtype, device_of(each))
        bucket, size = open_ones.get(key, ([], 0))
        if bucket and 0 < limit < size + each.nbytes:
            yield bucket
            bucket, size = [], 0
        bucket.append(each)
        open_ones[key] = bucket, size + each.nbytes
    for bucket, _ in open_ones.values():
        yield bucket


def _reduce_all(call: str, tensors: list[Tensor], reduction: Reduction, group: Group) -> None:
    """Reduces tensors in place, by one call for each type."""
    size = get_world_size(group)
    for bucket in _buckets(tensors, -1):
        travelled = [travelling(call, each, group) for each in bucket]
        _reduce_bucket(travelled, reduction.of_library(), group)
        for home, on in zip(bucket, travelled):
            if reduction.is_mean:
                divide(on, size)
            if on is not home:
                copy_into(home, on)


def _reduce_bucket(tensors: list[Tensor], op: Any, group: Group) -> None:
    """Reduces dense tensors of one type in place."""
    made = library()
    if not has_torch():
        made.all_reduce_coalesced(tensors, op, group)
    elif len(tensors) > 1 and get_backend(group) in _IN_PLACE:
        options = made.AllreduceCoalescedOptions()
        options.reduceOp = op
        (get_default_group() if group is None else group).allreduce_coalesced(tensors, options).wait()
    elif len(tensors) == 1:
        made.all_reduce(tensors[0], op, group)
    else:
        _reduce_flat(tensors, op, group)


def _reduce_flat(tensors: list[Tensor], op: Any, group: Group) -> None:
    import torch

    flat = torch.cat([each.reshape(-1) for each in tensors])
    library().all_reduce(flat, op, group)
    for each, part in zip(tensors, flat.split([each.numel() for each in tensors])):
        each.copy_(part.view_as(each))


def _compare(call: str, labels: list[str], tensors: list[Any], way: str, group: Group) -> None:
    """Raises on every rank where one passes something else, TypeError where all pass what is no tensor."""
    number = _fingerprint(labels, tensors, way)
    both = integers([number, -number], get_comm_device(group))
    library().all_reduce(both, library().ReduceOp.MAX, group)
    highest, lowest = both.tolist()
    if highest != -lowest:
        _tell_apart(call, labels, tensors, way, group)
    for label, each in zip(labels, tensors):
        check_tensor(call, f"item {label}", each)


def _fingerprint(labels: list[str], tensors: list[Any], way: str) -> int:
    """A number of 62 bits that is the same on all ranks if what they pass is. It must cost little."""
    kinds: dict[Any, int] = {}
    parts = []
    for each in tensors:
        if not is_tensor(each):
            parts.append((zlib.crc32(describe(each).encode()),))
            continue
        kind = kinds.get(each.dtype)
        if kind is None:
            kind = kinds[each.dtype] = zlib.crc32(str(each.dtype).encode())
        parts.append((kind, *each.shape))
    text = zlib.crc32("\n".join([way, *labels]).encode())
    # Texts are hashed by a secret of the process; numbers are not.
    return hash((text, tuple(parts))) & (2**62 - 1)


def _tell_apart(call: str, labels: list[str], tensors: list[Any], way: str, group: Group) -> None:
    mine = [way, *(f"{label} {describe(each)}" for label, each in zip(labels, tensors))]
    everyone = all_gather_object(mine, group)
    for rank, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        if len(theirs) != len(everyone[0]):
            extra = sorted(set(theirs).symmetric_difference(everyone[0]))[:3]
            raise ccoll.Mismatch(
                f"{call}: rank {rank} passes {len(theirs) - 1} tensors, where rank 0 passes "
                f"{len(everyone[0]) - 1} tensors; one of them alone has {', '.join(extra)}"
            )
        this, that = next((a, b) for a, b in zip(theirs, everyone[0]) if a != b)
        raise ccoll.Mismatch(f"{call}: rank {rank} passes {this}, where rank 0 passes {that}")
