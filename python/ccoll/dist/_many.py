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
    Tensor, check_tensor, copy_into, copy_of, describe, device_of, divide, integers, is_sparse, is_tensor, plain,
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
    keys = _in_order(data)
    _compare("all_reduce_dict", keys, [data[key] for key in keys], {}, str(reduction), group)
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

    params: a list or generator of tensors; one that is in it twice is reduced once. coalesce: one call for all
    tensors of a type, or, where bucket_size_mb is positive, for as many of them as have so many MiB; otherwise one
    call for each. A sparse tensor has a call of its own. op: as for all_reduce.
    Raises ccoll.Mismatch where ranks pass other numbers, types or shapes, or another way of calls.
    """
    reduction = Reduction(op)
    if get_world_size(group) <= 1:
        return
    given = list(params)
    repeats = _repeats(given)
    way = f"{reduction}, coalesce={bool(coalesce)}, bucket_size_mb={float(bucket_size_mb)}"
    _compare("all_reduce_params", None, given, repeats, way, group)
    tensors = [plain(each) for i, each in enumerate(given) if i not in repeats]
    shared = _overlapping(tensors)
    apart = [copy_of(each) if i in shared else each for i, each in enumerate(tensors)]
    for bucket in _buckets(apart, bucket_size_mb * 2**20 if coalesce else 1):
        _reduce("all_reduce_params", bucket, reduction, group)
    for i in shared:
        copy_into(tensors[i], apart[i])


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """The keys in an order that is the same on all ranks. It never raises, for other ranks would wait."""
    try:
        return sorted(keys)
    except TypeError:
        return sorted(keys, key=lambda key: (type(key).__name__, repr(key)))


def _address(x: Tensor) -> int:
    """The address of the first element; 0 where there is none."""
    if not hasattr(x, "data_ptr"):
        return int(x.__array_interface__["data"][0])
    return 0 if is_sparse(x) else int(x.data_ptr())


def _strides(x: Tensor) -> list[int]:
    """In bytes."""
    return [each * x.itemsize for each in x.stride()] if hasattr(x, "stride") else list(x.strides)


def _repeats(tensors: list[Any]) -> dict[int, int]:
    """The index of each tensor that is an earlier one once more, and the index of that one."""
    addresses = [_address(each) or id(each) if is_tensor(each) else -1 - i for i, each in enumerate(tensors)]
    seen: dict[Any, int] = {}
    found: dict[int, int] = {}
    if len(set(addresses)) == len(addresses):
        return found
    for i, (address, each) in enumerate(zip(addresses, tensors)):
        if address > 0 and 0 not in each.shape:
            strides = () if is_sparse(each) else tuple(_strides(each))
            bits = (each.is_conj(), each.is_neg()) if hasattr(each, "is_conj") else ()
            first = seen.setdefault((address, device_of(each), each.dtype, tuple(each.shape), strides, bits), i)
            if first != i:
                found[i] = first
    return found


def _overlapping(tensors: list[Tensor]) -> list[int]:
    """The indices of tensors whose ranges of addresses overlap."""
    ranges = []
    devices: dict[Any, int] = {}
    for i, each in enumerate(tensors):
        start = _address(each)
        if not start or 0 in each.shape:
            continue
        device = devices.setdefault(device_of(each), len(devices))
        if hasattr(each, "stride") and each.is_contiguous():
            ranges.append((device, start, start + each.nbytes, i))
            continue
        steps = [(size - 1) * stride for size, stride in zip(each.shape, _strides(each))]
        end = start + sum(step for step in steps if step > 0) + each.itemsize
        ranges.append((device, start + sum(step for step in steps if step < 0), end, i))
    found: set[int] = set()
    last = (-1, 0, 0, -1)  # the range with the highest end so far
    for here in sorted(ranges):
        if here[0] == last[0] and here[1] < last[2]:
            found |= {last[3], here[3]}
        if here[0] != last[0] or here[2] > last[2]:
            last = here
    return sorted(found)


def _buckets(tensors: list[Tensor], limit: float) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, of at most `limit` bytes unless one tensor has more; no limit below 1.

    Each sparse tensor is in a list of its own.
    """
    unfinished: dict[Any, list[Tensor]] = {}
    sizes: dict[Any, int] = {}
    for each in tensors:
        if is_sparse(each):
            yield [each]
            continue
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
    reduction = reduction.by(get_backend(group), travelled[0])
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
        _reduce_flat(tensors, travelled, reduction, group)
        return
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


def _reduce_flat(homes: list[Tensor], travelled: list[Tensor], reduction: Reduction, group: Group) -> None:
    import torch

    flat = torch.cat([each.reshape(-1) for each in travelled])
    library().all_reduce(flat, reduction.of_library(), group)
    if reduction.is_mean:
        divide(flat, get_world_size(group))
    for home, part in zip(homes, flat.split([each.numel() for each in homes])):
        copy_into(home, part.view(home.shape))


def _compare(
    call: str, keys: list[Any] | None, tensors: list[Any], repeats: dict[int, int], way: str, group: Group
) -> None:
    """Raises on every rank where one passes something else, TypeError where all pass what is no tensor."""
    examples: dict[Any, int] = {}
    number = _fingerprint(keys, tensors, repeats, way, examples)
    both = integers([number, -number], get_comm_device(group))
    library().all_reduce(both, library().ReduceOp.MAX, group)
    highest, lowest = both.tolist()
    if highest != -lowest:
        _tell_apart(call, keys, tensors, repeats, way, group)
    for i in examples.values():
        check_tensor(call, f"item [{i if keys is None else repr(keys[i])}]", tensors[i])


def _fingerprint(
    keys: list[Any] | None, tensors: list[Any], repeats: dict[int, int], way: str, examples: dict[Any, int]
) -> int:
    """A number of 62 bits that is the same on all ranks if what they pass is. It must cost little.

    examples: takes the index of the first tensor of each type.
    """
    parts: list[Any] = [zlib.crc32(repr((way, keys, repeats)).encode())]
    kinds: dict[Any, int] = {}
    devices: dict[Any, int] = {}
    for i, each in enumerate(tensors):
        device = getattr(each, "device", "cpu")
        kind = (getattr(each, "dtype", type(each).__name__), getattr(each, "layout", None), device)
        if kind not in kinds:
            # Texts are hashed by a secret of the process; numbers are not.
            number = devices.setdefault(device, len(devices))
            kinds[kind] = zlib.crc32(f"{kind[0]} {kind[1]} {getattr(device, 'type', device)} {number}".encode())
            examples[kind] = i
        parts += kinds[kind], tuple(getattr(each, "shape", ()))
    return hash(tuple(parts)) & (2**62 - 1)


def _descriptions(labels: Iterable[Any], tensors: list[Any], repeats: dict[int, int]) -> Iterator[str]:
    devices: dict[Any, int] = {}
    for i, (label, each) in enumerate(zip(labels, tensors)):
        device = getattr(each, "device", "cpu")
        number = devices.setdefault(device, len(devices))
        where = f" (device {number + 1} in order of use)" if number else ""
        same = f", the same memory as [{repeats[i]}]" if i in repeats else ""
        yield f"[{label!r}] {describe(each)}{where}{same}"


def _tell_apart(
    call: str, keys: list[Any] | None, tensors: list[Any], repeats: dict[int, int], way: str, group: Group
) -> None:
    mine = [way, *_descriptions(range(len(tensors)) if keys is None else keys, tensors, repeats)]
    everyone = all_gather_object(mine, group)
    for number, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        rank, first = (each if group is None else library().get_global_rank(group, each) for each in (number, 0))
        if len(theirs) != len(everyone[0]):
            extra = sorted(set(theirs).symmetric_difference(everyone[0]))[:3]
            raise ccoll.Mismatch(
                f"{call}: rank {rank} passes {len(theirs) - 1} tensors, where rank {first} passes "
                f"{len(everyone[0]) - 1} tensors; only one of them has {', '.join(extra)}"
            )
        this, that = next((a, b) for a, b in zip(theirs, everyone[0]) if a != b)
        raise ccoll.Mismatch(f"{call}: rank {rank} passes {this}, where rank {first} passes {that}")
