# SPDX-License-Identifier: Apache-2.0
"""`await work`."""

from __future__ import annotations

TYPE_CHECKING = False  # as in _arrays
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any


def await_work(work: Any) -> Generator[Any, None, Any]:
    """Polls, seldom in the end: a wait in another thread would cost two switches of context for each operation."""
    import asyncio

    pause = 0.0
    for turn in range(1 << 62):
        if work.done():
            return work.wait()
        if turn >= 20:
            pause = min(max(pause * 2, 50e-6), 2e-3)
        yield from asyncio.sleep(pause).__await__()
    raise AssertionError("unreachable")
