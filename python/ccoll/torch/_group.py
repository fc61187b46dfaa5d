# SPDX-License-Identifier: Apache-2.0
"""The process group and the backend inside it, as torch wants them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from ._calls import Calls
from ._core import Core
from ._older import CPU, CUSTOM, HAS_BACKENDS, BackendBase, GroupBase

NAME = "ccoll"
_RECONFIGURE = (
    "a group cannot be given other ranks; shrink_group makes one of the ranks that are left, and "
    "destroy_process_group with init_process_group makes one of any ranks"
)
# C++ alone holds them while they are in use; their Python halves must live as long.
_alive: dict[int, Any] = {}


_ERRORS = {"timed_out": c10d.ErrorType.TIMEOUT, "peer_lost": c10d.ErrorType.REMOTE_ERROR}


class _Ends:
    """What either of the two ends in."""

    core: Core

    def get_error(self) -> Any:
        kind = self.core.error_kind()
        return c10d.ErrorType.SUCCESS if kind is None else _ERRORS.get(kind, c10d.ErrorType.COMM_ERROR)

    # Operations that ccoll does not have are refused, with a word on what to do instead.

    def new_window(self, tensor: Any = None) -> Any:
        raise NotImplementedError(
            "ccoll: new_window: there are no windows with put and signal; use isend and irecv, or batch_isend_irecv"
        )

    def get_reconfigure_handle(self) -> str:
        raise NotImplementedError(f"ccoll: get_reconfigure_handle: {_RECONFIGURE}")

    def reconfigure(self, opts: Any) -> Any:
        raise NotImplementedError(f"ccoll: reconfigure: {_RECONFIGURE}")

    def rank(self) -> int:
        return self.core.rank

    def size(self) -> int:
        return self.core.size

    getRank, getSize = rank, size

    def name(self) -> str:
        return NAME

    getBackendName = name


class Options(c10d.Backend.Options):
    """A group's options, of which torch copies some into groups that it splits off."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(NAME, timeout)


class Backend(_Ends, Calls, BackendBase):
    """What C++ code of torch, and functions that look for a backend of the group, call."""

    # torch forgets a batch in which a call raised: every later collective of the group would be left undone in
    # silence. So it makes calls one by one, which costs nothing here.
    supports_coalescing = False
    supports_splitting = True
    supports_shrinking = HAS_BACKENDS  # torch puts what shrink() returns into a group of its own
    supports_window = False
    supports_reconfigure = False
    supports_abort_hooks = False
    _supports_time_estimate = supports_time_estimate = False  # the second is torch 2.14's name

    def __init__(self, core: Core) -> None:
        BackendBase.__init__(self, core.rank, core.size)
        self.core = core
        _alive[id(self)] = self

    @property
    def options(self) -> Options:
        return Options(self.core.timeout)

    def split(self, store: c10d.Store, ranks: Sequence[int], opts: Any) -> Backend:
        if self.core.rank not in ranks:
            # Where a method of Python returns None here, torch ends the process.
            raise NotImplementedError(
                "ccoll: split_group: a group that split_group or shrink_group made cannot leave a rank out in "
                "another split_group; use new_group"
            )
        timeout = getattr(opts, "_timeout", self.core.timeout)
        name = getattr(opts, "group_name", "") or f"{self.core.name}/split"
        return Backend(Core(store, list(ranks).index(self.core.rank), len(ranks), name, timeout))

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None) -> Backend:
        """Over the ranks that are not excluded, which all call it; also where this group is broken."""
        timeout = getattr(opts_override, "_timeout", None) or self.core.timeout
        made = Backend(self.core.shrunk(list(ranks_to_exclude), bool(shrink_flags), timeout))
        made.core.before_first = lambda: _register_as_custom(made)
        return made

    def eager_connect_single_device(self, device: Any = None) -> None:
        self.core.communicator()

    def perform_nocolor_split(self, device: Any) -> None:
        """torch calls it on ranks outside a new group, whose members meet through the store."""

    def shutdown(self) -> None:
        super().shutdown()
        _alive.pop(id(self), None)

    def abort(self) -> None:
        super().abort()
        _alive.pop(id(self), None)


def _register_as_custom(backend: Backend) -> None:
    """torch's shrink_group registers every backend for the CPU as gloo, and DDP's logger then reads it as gloo's
    own, past its end. DDP makes a call before that, so what is mended before the first call is mended in time."""
    for group in list(torch.distributed.distributed_c10d._world.pg_map):
        if isinstance(group, c10d.ProcessGroup) and CPU in group._device_types and group._get_backend(CPU) is backend:
            group._register_backend(CPU, CUSTOM, backend)
            group._set_default_backend(CUSTOM)


class Group(_Ends, Calls, GroupBase):
    """What Python calls."""

    def __init__(self, core: Core) -> None:
        GroupBase.__init__(self, core.store, core.rank, core.size, Backend(core))
        self.core = core
        _alive[id(self)] = self

    def split_group(self, ranks: Sequence[int], *others: Any, **named: Any) -> c10d.ProcessGroup | None:
        # Backend.split cannot tell torch that this rank has no part in it.
        return super().split_group(ranks, *others, **named) if self.core.rank in ranks else None

    def shutdown(self) -> None:
        self.backend.shutdown()
        _alive.pop(id(self), None)

    def abort(self) -> None:
        self.backend.abort()
        _alive.pop(id(self), None)


def create(options: Any, _: Any = None) -> Group:
    """What torch calls for each group of this backend, on its members."""
    core = Core(options.store, options.group_rank, options.group_size, options.group_id, options.timeout)
    is_first = not _alive
    group = Group(core)
    if is_first:
        # init_process_group tells what is wrong, not the first call.
        try:
            core.communicator()
        except BaseException:
            group.shutdown()
            raise
    return group
