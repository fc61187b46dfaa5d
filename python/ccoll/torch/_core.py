# SPDX-License-Identifier: Apache-2.0
"""What a process group of torch is made of: a communicator, its number of calls, and its time limit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

import ccoll

from ._host import interface_of_job
from ._work import Batched, Work, as_torchs

_KEY = "ccoll/unique-id"


class Core:
    """The communicator is made in a thread, as ranks may make their groups in different orders; the first
    call waits for it. Threads may call at once; their calls begin in one order."""

    def __init__(
        self,
        store: c10d.Store,
        rank: int,
        size: int,
        name: str,
        timeout: timedelta,
        made: ccoll.Communicator | None = None,
        identity: str = "",
    ) -> None:
        """made, identity: of a group that is there already; else it is made."""
        self.store, self.rank, self.size, self.name = store, rank, size, name
        self.timeout = timeout
        self.sequence = 0
        self.monitored = 0
        self.shrinks = 0
        self.before_first: Callable[[], None] | None = None  # called before the first call begins
        self.timing = False
        self.order = threading.Lock()  # held while a call begins
        self.batch: Batch | None = None
        self.identity = identity  # of this group alone, also where another had its name before
        self._state = threading.Lock()  # of what follows; never held for long
        self._made = made
        self._failure: BaseException | None = None
        self._closed = False
        self._identified = threading.Event()
        self._over = threading.Event()
        if made is not None:
            self._identified.set()
            self._over.set()
            return
        threading.Thread(target=self._make, name=f"ccoll group {name}", daemon=True).start()

    def _make(self) -> None:
        try:
            store = own_connection(self.store)
            if self.rank == 0:
                data = bytes(ccoll.UniqueId.create(interface_of_job(self.store)))
                store.set(_KEY, data.hex())
            else:
                self._await_key(store)
                data = bytes.fromhex(store.get(_KEY).decode())
            self.identity = _identity_of(data)
            self._identified.set()
            limit = self.timeout.total_seconds()
            made = ccoll.create(
                ccoll.UniqueId(data), rank=self.rank, size=self.size, name=f"torch group {self.name}",
                timeout=limit, start_timeout=limit,
            )  # fmt: skip
            if self.rank == 0:
                # All have read it. A later group of this name in this store must not.
                delete_key(store, _KEY)
            with self._state:
                if not self._closed:
                    self._made = made
            if self._made is None:
                made.close()
        except BaseException as error:
            self._failure = error
        finally:
            self._identified.set()
            self._over.set()

    def _await_key(self, store: c10d.Store) -> None:
        """In short turns, so that a group that is closed meanwhile is not waited for."""
        deadline = time.monotonic() + self.timeout.total_seconds()
        while not store.check([_KEY]):
            if self._closed:
                raise RuntimeError(f"ccoll: the process group {self.name!r} was closed before it was made")
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"ccoll: timed out: rank 0 of the process group {self.name!r} did not come within "
                    f"{self.timeout.total_seconds()} s (timeout)"
                )
            time.sleep(0.002)

    def identified(self) -> str:
        """A text that this group has alone."""
        self._identified.wait()
        if self._failure is not None:
            raise as_torchs(self._failure)
        return self.identity

    def communicator(self) -> ccoll.Communicator:
        made = self._made
        if made is not None:
            return made
        while not self._over.wait(0.05) and not self._closed:
            pass
        if self._failure is not None:
            raise as_torchs(self._failure)
        if self._made is None:
            raise RuntimeError(f"ccoll: the process group {self.name!r} is closed")
        return self._made

    def error_kind(self) -> str | None:
        """Why no call can succeed any more; None where one can, and where the group was closed."""
        made, failure = self._made, self._failure
        if failure is not None:
            return failure.kind if isinstance(failure, ccoll.Error) else "internal"
        try:
            return made.error_kind if made is not None else None
        except ccoll.Aborted:  # closed meanwhile
            return None

    def shrunk(self, excluded: list[int], abort: bool, timeout: timedelta) -> Core:
        """A group of the ranks but those, which must be all that are left. abort: ends what is under way."""
        parent = self.communicator()
        self.shrinks += 1
        name = f"{self.name}/shrunk{self.shrinks}"
        try:
            if abort:
                parent.abort("shrink_group")
            made = parent.shrink(excluded, name=f"torch group {name}", timeout=timeout.total_seconds())
        except ccoll.Error as error:
            raise as_torchs(error)
        expected = [rank for rank in range(self.size) if rank not in excluded]
        if made.size != len(expected):
            missing = [rank for rank in expected if parent.rank_in(made, rank) is None]
            made.leave()
            raise RuntimeError(
                f"ccoll: shrink_group: ranks {missing} are lost, too: exclude {sorted([*excluded, *missing])}"
            )
        identity = f"{self.identity}-{self.shrinks}"
        return Core(self.store, made.rank, made.size, name, timeout, made, identity)

    def limit(self, opts: Any, timeout: timedelta | None) -> float:
        """The time limit of a call, in seconds; some forms of calls have it in place of options."""
        asked = timeout
        if asked is None:
            asked = opts if isinstance(opts, timedelta) else getattr(opts, "timeout", None)
        if asked is None or asked <= timedelta(0):
            asked = self.timeout
        return asked.total_seconds()

    def begin(
        self,
        tensors: list[torch.Tensor],
        calls: Callable[[ccoll.Communicator], list[Any]],
        *,
        counted: bool = True,
    ) -> Work:
        """Begins the operations that calls(communicator) returns the Works of."""
        communicator = self.communicator()
        if self.before_first is not None:
            prepare, self.before_first = self.before_first, None
            prepare()
        begun = time.perf_counter() if self.timing else None
        with self.order:
            try:
                natives = calls(communicator)
            except ccoll.Error as error:
                raise as_torchs(error)
            if counted:
                self.sequence += 1
            sequence = self.sequence
        work = Work(natives, tensors, sequence, begun)
        batch = self.batch
        if batch is not None and batch.is_mine():
            batch.works.append(work)
        return work

    def _end(self) -> ccoll.Communicator | None:
        with self._state:
            self._closed = True
            made, self._made = self._made, None
        return made

    def close(self) -> None:
        made = self._end()
        if made is None:
            return
        try:
            made.close()
        except ccoll.Error:
            pass  # told by the call that failed

    def abort(self, reason: str) -> None:
        made = self._end()
        if made is not None:
            made.abort(reason)
            with contextlib.suppress(ccoll.Error):  # that it was aborted, which nobody needs to be told
                made.close()


class Batch:
    """Messages between start_coalescing and end_coalescing of one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.requests: list[Any] = []
        self.waiting: list[Batched] = []
        self.works: list[Work] = []

    def is_mine(self) -> bool:
        return self._thread == threading.get_ident()


def _identity_of(data: bytes) -> str:
    """FNV-1a, as group.cpp has it: ranks of both ways meet under the same keys of the store."""
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return f"{hashed:016x}"


def own_connection(store: c10d.Store) -> c10d.Store:
    """A store of torch lets one thread in at a time, also while it waits for a key."""
    try:
        return store.clone()
    except Exception:  # not every kind of store can
        return store


def delete_key(store: c10d.Store, key: str) -> None:
    try:
        store.delete_key(key)
    except Exception:  # not every kind of store can
        pass
