# SPDX-License-Identifier: Apache-2.0
"""`await work` in asyncio."""

import asyncio
import gc
import queue

import numpy as np
import pytest
from support import ranks

import ccoll


def test_works_are_awaitable_and_others_run_meanwhile():
    async def main(comm):
        turns = 0

        async def ticks():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        task = asyncio.ensure_future(ticks())
        if comm.rank == 1:
            await asyncio.sleep(0.1)
        total = await comm.all_reduce_async(np.ones(3))
        both = await asyncio.gather(*[wait(comm.all_gather_async(np.array([index]))) for index in range(5)])
        task.cancel()
        assert turns > 5
        return total.tolist(), [each.ravel().tolist() for each in both]

    async def wait(work):
        return await work

    for total, both in ranks(2, lambda comm: asyncio.run(main(comm))):
        assert total == [2, 2, 2] and both == [[index] * 2 for index in range(5)]


def test_an_awaited_failure_raises_and_cancelling_ends_the_wait_alone():
    async def main(comm):
        if comm.rank == 1:
            await asyncio.sleep(0.3)
            comm.send(np.ones(1), 0)
            return
        work = comm.recv_async(np.ones(1), 1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wait(work), 0.05)
        assert (await work).count == 1
        with pytest.raises(ccoll.TimeoutError):
            await comm.recv_async(np.ones(1), 1, timeout=0.1)

    async def wait(work):
        return await work

    ranks(2, lambda comm: asyncio.run(main(comm)), close=False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_on_done_calls_once_the_operation_is_over():
    def rank(comm):
        told, later = queue.SimpleQueue(), queue.SimpleQueue()
        x = np.ones(3)
        work = comm.all_reduce_async(x, x)
        work.on_done(told.put)
        assert told.get(timeout=20) is None and x.tolist() == [2, 2, 2]
        work.on_done(lambda error: 1 / 0)  # it is printed, with no other effect
        work.on_done(later.put)
        assert later.get(timeout=20) is None
        if comm.rank == 0:
            comm.recv_async(np.ones(1), 1, timeout=0.1).on_done(told.put)
            error = told.get(timeout=20)
            assert isinstance(error, ccoll.TimeoutError) and "rank 1" in str(error)
        return True

    assert ranks(2, rank, close=False) == [True, True]


def test_on_done_keeps_what_the_operation_uses():
    def rank(comm):
        for _ in range(50):
            told = queue.SimpleQueue()
            comm.all_reduce_async(np.ones(10_000)).on_done(told.put)
            gc.collect()
            assert told.get(timeout=20) is None

    gc.freeze()  # each collection looks at what is new, not at all of torch
    try:
        ranks(2, rank)
    finally:
        gc.unfreeze()
