# SPDX-License-Identifier: Apache-2.0
"""Python objects. Over ccoll, their buffers of 64 KiB and more travel as they lie, without being pickled.

An object is pickled before the call, and what cannot be is told in its place: so no rank waits for it.
Unpickling runs what the sender says: only talk to ranks that you trust.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from numbers import Integral
from typing import Any, overload

import ccoll
from ccoll import _objects as _core

from ._library import has_torch, library
from ._numpy import NON_MEMBER
from .utils import Group, get_backend, get_default_group, get_rank, get_world_size


def is_ccolls(group: Group) -> bool:
    return get_backend(group) == "ccoll"


def over_ccoll(group: Group, call: Callable[[ccoll.Communicator, float | None], Any]) -> Any:
    """call(communicator, timeout) of a group that is ccoll's; its errors are the library's."""
    if not has_torch():
        return call(library().communicator(group), None)
    from ccoll.torch._way import communicator_of
    from ccoll.torch._work import as_torchs

    communicator, limit = communicator_of(get_default_group() if group is None else group)
    try:
        return call(communicator, limit)
    except ccoll.Error as error:
        raise as_torchs(error) from None


def _ranks_of(group: Group) -> list[int]:
    """The numbers of a group's ranks among all."""
    if group is None:
        return list(range(get_world_size()))
    if has_torch():
        return list(library().get_process_group_ranks(group))
    return [library().get_global_rank(group, each) for each in range(get_world_size(group))]


def _rank_in(call: str, name: str, group: Group, rank: int) -> int:
    """The number in a group of a rank among all, which the caller gave as `name`."""
    ranks = _ranks_of(group)
    if rank not in ranks:
        raise ValueError(f"{call}: {name} is {rank}: expected a rank of the group, which has the ranks {ranks}")
    return ranks.index(rank)


def _sendable(value: Any, group: Group) -> tuple[Any, Exception | None]:
    """A list of bytes or buffers for the value, or, with the error, a text that tells what is wrong with it."""
    try:
        if is_ccolls(group):
            return [pickle.PickleBuffer(each) for each in _core._packed(value, None)], None
        return [pickle.dumps(value)], None
    except Exception as error:
        return f"{type(error).__name__}: {error}", error


def _received(call: str, sent: list[Any], group: Group, failure: Exception | None) -> list[Any]:
    """The values of what the group's ranks sent; None for None. Raises what went wrong when they were pickled."""
    if failure is not None:
        raise failure
    for number, each in enumerate(sent):
        if isinstance(each, str):
            raise RuntimeError(f"{call}: rank {_ranks_of(group)[number]} cannot send its object: {each}")
    return [None if each is None else _core._unpacked(each, None) for each in sent]


def broadcast_object_list(data: list[Any], src: int = 0, group: Group = None, device: Any = None) -> None:
    """Rank src's objects, in every rank's list of the same length, in place.

    Raises AssertionError where data is no list, ccoll.Mismatch where the lengths differ, ValueError where src is
    not in the group. Where src cannot pickle them, its error is raised there and RuntimeError elsewhere.
    """
    assert isinstance(data, list), f"broadcast_object_list: data is {type(data).__name__}: expected a list"
    if get_world_size(group) <= 1:
        return
    root = _rank_in("broadcast_object_list", "src", group, src)
    is_root = get_rank() == src
    sent, failure = _sendable(data, group) if is_root else (None, None)
    if is_ccolls(group):
        sent = over_ccoll(group, lambda on, limit: on.broadcast_object(sent, root, timeout=limit))
    else:
        box = [sent]
        library().broadcast_object_list(box, src, group, device)
        (sent,) = box
    others = [None] * root + [None if is_root else sent]
    objects = _received("broadcast_object_list", others, group, failure)[root]
    if is_root:
        return
    if len(objects) != len(data):
        raise ccoll.Mismatch(
            f"broadcast_object_list: rank {get_rank()} has a list of {len(data)}, where rank {src} sends {len(objects)}"
        )
    data[:] = objects


def _is_group(x: Any) -> bool:
    """Whether x stands in the place of a group, rather than of an object."""
    if x is None or isinstance(x, ccoll.Communicator) or type(x) is int and x == NON_MEMBER:
        return True
    return type(x).__module__.startswith(("torch", "ccoll.torch")) and hasattr(x, "size") and hasattr(x, "rank")


@overload
def all_gather_object(data: Any, group: Group = None) -> list[Any]: ...
@overload
def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None: ...
def all_gather_object(*args: Any, **named: Any) -> Any:
    """All ranks' objects, by rank: all_gather_object(data, group=None) returns them.

    all_gather_object(object_list, obj, group=None) writes them into a list.
    Where a rank cannot pickle its object, its error is raised there and RuntimeError elsewhere.
    """
    if "obj" in named or len(args) > 1 and isinstance(args[0], list) and not _is_group(args[1]):
        return _all_gather_object_into(*args, **named)
    return _all_gather_object(*args, **named)


def _all_gather_object(data: Any, group: Group = None) -> list[Any]:
    size = get_world_size(group)
    if size <= 1:
        return [data] * max(size, 0)
    mine, failure = _sendable(data, group)
    sent: list[Any] = [None] * size
    if is_ccolls(group):
        sent = over_ccoll(group, lambda on, limit: on.all_gather_object(mine, timeout=limit))
    else:
        library().all_gather_object(sent, mine, group)
    number = get_rank(group)
    sent[number] = None
    made = _received("all_gather_object", sent, group, failure)
    made[number] = data
    return made


def _all_gather_object_into(object_list: list[Any], obj: Any, group: Group = None) -> None:
    size = get_world_size(group)
    if size < 0:
        return
    _check_room("all_gather_object", object_list, size)
    object_list[:] = _all_gather_object(obj, group)


def _check_room(call: str, objects: Any, size: int) -> None:
    if not isinstance(objects, list) or len(objects) != size:
        given = f"of {len(objects)}" if isinstance(objects, list) else f"a {type(objects).__name__}"
        raise ValueError(f"{call}: the list for the objects is {given}: expected a list of {size}, one for each rank")


@overload
def gather_object(data: Any, dst: int = 0, group: Group = None) -> list[Any] | None: ...
@overload
def gather_object(obj: Any, object_gather_list: list[Any] | None, dst: int = 0, group: Group = None) -> None: ...
def gather_object(*args: Any, **named: Any) -> Any:
    """All ranks' objects, by rank, at rank dst: gather_object(data, dst=0, group=None); None elsewhere.

    gather_object(obj, object_gather_list, dst=0, group=None) writes them into a list, which is None elsewhere.
    Raises ValueError where dst is not in the group. Where a rank cannot pickle its object, its error is raised
    there and RuntimeError at dst.
    """
    if "object_gather_list" in named or len(args) > 1 and not isinstance(args[1], Integral):
        return _gather_object_into(*args, **named)
    return _gather_object(*args, **named)


def _gather_object(data: Any, dst: int = 0, group: Group = None) -> list[Any] | None:
    size = get_world_size(group)
    if size <= 1:
        return [data] if size == 1 else None
    root = _rank_in("gather_object", "dst", group, dst)
    is_root = get_rank() == dst
    mine, failure = (None, None) if is_root else _sendable(data, group)
    sent: list[Any] | None = [None] * size if is_root else None
    if is_ccolls(group):
        sent = over_ccoll(group, lambda on, limit: on.gather_object(mine, root, timeout=limit))
    else:
        library().gather_object(mine, sent, dst, group)
    made = _received("gather_object", sent or [], group, failure)
    if not is_root:
        return None
    made[root] = data
    return made


def _gather_object_into(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Group = None
) -> None:
    size = get_world_size(group)
    is_root = size == 1 or (size > 1 and get_rank() == dst)
    if is_root:
        _check_room("gather_object", object_gather_list, size)
    gathered = _gather_object(obj, dst, group)
    if is_root and object_gather_list is not None and gathered is not None:
        object_gather_list[:] = gathered
