# SPDX-License-Identifier: Apache-2.0
"""A barrier that names all ranks that do not come. It goes through the store, and so works in a broken group."""

from __future__ import annotations

import time
from datetime import timedelta

from ._core import Core, delete_key, own_connection


def monitored_barrier(core: Core, limit: float, wait_all_ranks: bool) -> None:
    """Rank 0 waits for all, until `limit` s have passed, and tells everybody how it ended. Unless
    wait_all_ranks, the text says first which rank was missed first."""
    deadline = time.monotonic() + limit
    group = core.identified()
    store = own_connection(core.store)
    with core.order:
        core.monitored += 1
        number = core.monitored

    def key(what: object, barrier: int = number) -> str:
        return f"ccoll/monitored/{group}/{barrier}/{what}"

    def has_come(what: object) -> bool:
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                return store.check([key(what)])
            store.wait([key(what)], timedelta(seconds=left))
            return True
        except Exception:  # torch's type differs from version to version
            return False

    if core.rank != 0:
        store.set(key(core.rank), "1")
        # Rank 0 may have begun later, and a store may take a second to tell that a key is missing.
        deadline += limit + 1
        verdict = "rank 0 did not come"
        if has_come("verdict"):
            verdict = store.get(key("verdict")).decode()
            store.add(key("left"), 1)
        if verdict != "ok":
            raise RuntimeError(
                f"ccoll: Rank {core.rank} successfully reached monitoredBarrier, but received errors while waiting "
                f"for send/recv from rank 0: {verdict}"
            )
        return
    if limit <= 0:
        raise RuntimeError("ccoll: Rank 0 timed out in monitoredBarrier: its time limit is 0")
    missing = [rank for rank in range(1, core.size) if not has_come(rank)]
    # A rank that has come to this barrier has left the one before.
    for rank in range(1, core.size):
        delete_key(store, key(rank, number - 1))

    def tell(verdict: str) -> None:
        """Waits until the ranks that have come know it, 1 s at most: this process may end next, the store with it."""
        store.set(key("verdict"), verdict)
        until = time.monotonic() + 1
        while store.add(key("left"), 0) < core.size - 1 - len(missing) and time.monotonic() < until:
            time.sleep(0.001)

    if not missing:
        for each in ("verdict", "left"):
            delete_key(store, key(each, number - 1))
        tell("ok")
        return
    named = ", ".join(map(str, missing if wait_all_ranks else missing[:1]))
    word = "Ranks" if wait_all_ranks and len(missing) > 1 else "Rank"
    verdict = f"{word} {named} failed to pass monitoredBarrier in {round(limit * 1000)} ms (timed out)"
    if len(missing) > 1 and not wait_all_ranks:
        verdict += f"; all that are missing: {', '.join(map(str, missing))}"
    tell(verdict)
    raise RuntimeError(f"ccoll: {verdict}")
