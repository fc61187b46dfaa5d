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
from ._objects import all_gather_object, is_ccolls, over_ccoll
from ._reductions import Reduction
from ._values import (
    Tensor, check_tensor, copy_into, copy_of, describe, device_of, divide, integers, plain,
)  # fmt: skip
from .utils import Group, all_travelling, get_backend, get_comm_device, get_default_group, get_world_size


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
    _compare("all_reduce_dict", keys, [data[key] for key in keys], str(reduction), group)
    made = [copy_of(data[key]) for key in keys]
    for bucket in _buckets(made, -1):
        _reduce("all_reduce_dict", bucket, reduction, group)
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
    _compare("all_reduce_params", None, tensors, way, group)
    for bucket in _buckets(tensors, bucket_size_mb * 2**20 if coalesce else 1):
        _reduce("all_reduce_params", bucket, reduction, group)


def _buckets(tensors: list[Tensor], limit: float) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, of at most `limit` bytes unless one tensor has more; no limit below 1."""
    unfinished: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for each in tensors:
        key = (each.dtype, device_of(each))
        size = sizes.get(key, 0) + each.nbytes
        if 0 < limit < size and key in unfinished:
            yield unfinished.pop(key)
            size = each.nbytes
        unfinished.setdefault(key, []).append(each)
        sizes[key] = size
    yield from unfinished.values()


def _reduce(call: str, tensors: list[Tensor], reduction: Reduction, group: Group) -> None:
    """Reduces tensors of one type in place, by one call."""
    travelled = all_travelling(call, tensors, group)
    op = reduction.of_library()
    if len(travelled) == 1:
        library().all_reduce(travelled[0], op, group)
    elif is_ccolls(group):
        _reduce_by_ccoll(call, travelled, op, group)
    elif get_backend(group) == "nccl":
        options = library().AllreduceCoalescedOptions()
        options.reduceOp = op
        (get_default_group() if group is None else group).allreduce_coalesced(travelled, options).wait()
    else:
        _reduce_flat(travelled, op, group)
    for home, on in zip(tensors, travelled):
        if reduction.is_mean:
            divide(on, get_world_size(group))
        if on is not home:
            copy_into(home, on)


def _reduce_by_ccoll(call: str, tensors: list[Tensor], op: Any, group: Group) -> None:
    """By the communicator itself, for torch's way to it looks at each tensor once more."""
    if has_torch():
        from ccoll.torch._tensors import reduction

        name = reduction(call, op, tensors[0])
    else:
        name = op.value
    over_ccoll(group, lambda on, limit: on.all_reduce(tensors, tensors, name, timeout=limit))


def _reduce_flat(tensors: list[Tensor], op: Any, group: Group) -> None:
    import torch

    flat = torch.cat([each.reshape(-1) for each in tensors])
    library().all_reduce(flat, op, group)
    for each, part in zip(tensors, flat.split([each.numel() for each in tensors])):
        each.copy_(part.view_as(each))


def _compare(call: str, keys: list[Any] | None, tensors: list[Any], way: str, group: Group) -> None:
    """Raises on every rank where one passes something else, TypeError where all pass what is no tensor."""
    examples: dict[Any, int] = {}
    number = _fingerprint(keys, tensors, way, examples)
    both = integers([number, -number], get_comm_device(group))
    library().all_reduce(both, library().ReduceOp.MAX, group)
    highest, lowest = both.tolist()
    if highest != -lowest:
        _tell_apart(call, keys, tensors, way, group)
    for i in examples.values():
        check_tensor(call, f"item [{i if keys is None else repr(keys[i])}]", tensors[i])


def _fingerprint(keys: list[Any] | None, tensors: list[Any], way: str, examples: dict[Any, int]) -> int:
    """A number of 62 bits that is the same on all ranks if what they pass is. It must cost little.

    examples: takes the index of the first tensor of each type.
    """
    parts: list[Any] = [zlib.crc32(repr((way, keys)).encode())]
    kinds: dict[Any, int] = {}
    for i, each in enumerate(tensors):
        # Texts are hashed by a secret of the process; numbers are not.
        kind = getattr(each, "dtype", type(each).__name__)
        if kind not in kinds:
            kinds[kind] = zlib.crc32(str(kind).encode())
            examples[kind] = i
        parts += kinds[kind], tuple(getattr(each, "shape", ()))
    return hash(tuple(parts)) & (2**62 - 1)


def _tell_apart(call: str, keys: list[Any] | None, tensors: list[Any], way: str, group: Group) -> None:
    labels = range(len(tensors)) if keys is None else keys
    mine = [way, *(f"[{label!r}] {describe(each)}" for label, each in zip(labels, tensors))]
    everyone = all_gather_object(mine, group)
    for number, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        rank, first = (each if group is None else library().get_global_rank(group, each) for each in (number, 0))
        if len(theirs) != len(everyone[0]):
            extra = sorted(set(theirs).symmetric_difference(everyone[0]))[:3]
            raise ccoll.Mismatch(
                f"{call}: rank {rank} passes {len(theirs) - 1} tensors, where rank {first} passes "
                f"{len(everyone[0]) - 1} tensors; one of them alone has {', '.join(extra)}"
            )
        this, that = next((a, b) for a, b in zip(theirs, everyone[0]) if a != b)
        raise ccoll.Mismatch(f"{call}: rank {rank} passes {this}, where rank {first} passes {that}")
