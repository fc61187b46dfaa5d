# SPDX-License-Identifier: Apache-2.0
"""Python objects. Over ccoll, their buffers of 64 KiB and more travel as they lie, without being pickled.

Unpickling runs what the sender says: only talk to ranks that you trust.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import ccoll

from ._library import has_torch, library
from .utils import Group, get_backend, get_default_group, get_rank, get_world_size


def is_ccolls(group: Group) -> bool:
    return get_backend(group) == "ccoll"


def over_ccoll(group: Group, call: Callable[[ccoll.Communicator, float | None], Any]) -> Any:
    """call(communicator, timeout) of a group that is ccoll's; its errors are the library's."""
    if not has_torch():
        return call(library().communicator(group), None)
    from ccoll.torch._work import as_torchs

    core = (get_default_group() if group is None else group).core
    try:
        return call(core.communicator(), core.limit(None, None))
    except ccoll.Error as error:
        raise as_torchs(error) from None


def _rank_in(group: Group, rank: int) -> int:
    """The number in a group of a rank among all."""
    if group is None:
        return rank
    return next(r for r in range(get_world_size(group)) if library().get_global_rank(group, r) == rank)


def broadcast_object_list(data: list[Any], src: int = 0, group: Group = None, device: Any = None) -> None:
    """Rank src's objects, in every rank's list of the same length, in place.

    Raises AssertionError where data is no list, ccoll.Mismatch where the lengths differ.
    """
    assert isinstance(data, list), f"broadcast_object_list: data is {type(data).__name__}: expected a list"
    if get_world_size(group) <= 1:
        return
    if is_ccolls(group):
        root = _rank_in(group, src)
        objects = over_ccoll(group, lambda on, limit: on.broadcast_object(data, root, timeout=limit))
    else:
        box = [data]
        library().broadcast_object_list(box, src, group, device)
        (objects,) = box
    if len(objects) != len(data):
        raise ccoll.Mismatch(
            f"broadcast_object_list: rank {get_rank()} has a list of {len(data)}, where rank {src} sends {len(objects)}"
        )
    data[:] = objects


def _is_group(x: Any) -> bool:
    """Whether x stands in the place of a group, rather than of an object."""
    if x is None or isinstance(x, ccoll.Communicator):
        return True
    return type(x).__module__.startswith(("torch", "ccoll.torch")) and hasattr(x, "size") and hasattr(x, "rank")


@overload
def all_gather_object(data: Any, group: Group = None) -> list[Any]: ...
@overload
def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None: ...
def all_gather_object(*args: Any, **named: Any) -> Any:
    """All ranks' objects, by rank: all_gather_object(data, group=None) returns them.

    all_gather_object(object_list, obj, group=None) writes them into a list.
    """
    if "obj" in named or len(args) > 1 and isinstance(args[0], list) and not _is_group(args[1]):
        return _all_gather_object_into(*args, **named)
    return _all_gather_object(*args, **named)


def _all_gather_object(data: Any, group: Group = None) -> list[Any]:
    size = get_world_size(group)
    if size <= 1:
        return [data] * max(size, 0)
    if is_ccolls(group):
        made: list[Any] = over_ccoll(group, lambda on, limit: on.all_gather_object(data, timeout=limit))
        return made
    gathered = [None] * size
    library().all_gather_object(gathered, data, group)
    return gathered


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
    """
    if "object_gather_list" in named or len(args) > 1 and not isinstance(args[1], int):
        return _gather_object_into(*args, **named)
    return _gather_object(*args, **named)


def _gather_object(data: Any, dst: int = 0, group: Group = None) -> list[Any] | None:
    size = get_world_size(group)
    if size <= 1:
        return [data] if size == 1 else None
    if is_ccolls(group):
        root = _rank_in(group, dst)
        made: list[Any] | None = over_ccoll(group, lambda on, limit: on.gather_object(data, root, timeout=limit))
        return made
    gathered: list[Any] | None = [None] * size if get_rank() == dst else None
    library().gather_object(data, gathered, dst, group)
    return gathered


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
