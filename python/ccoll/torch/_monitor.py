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
        verdict = store.get(key("verdict")).decode() if has_come("verdict") else "rank 0 did not come"
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
    if not missing:
        delete_key(store, key("verdict", number - 1))
        store.set(key("verdict"), "ok")
        return
    named = ", ".join(map(str, missing if wait_all_ranks else missing[:1]))
    word = "Ranks" if wait_all_ranks and len(missing) > 1 else "Rank"
    verdict = f"{word} {named} failed to pass monitoredBarrier in {round(limit * 1000)} ms (timed out)"
    if len(missing) > 1 and not wait_all_ranks:
        verdict += f"; all that are missing: {', '.join(map(str, missing))}"
    store.set(key("verdict"), verdict)
    raise RuntimeError(f"ccoll: {verdict}")
