# SPDX-License-Identifier: Apache-2.0
"""Nothing grows with the number of calls and of groups. LEAKS_CALLS, LEAKS_GROUPS: how many (tools/torch-matrix)."""

import gc
import os
import sys
import threading

import numpy as np
import pytest
from support import ranks

import ccoll

# Each turn makes 12 calls.
CALLS = int(os.environ.get("LEAKS_CALLS", "12000"))
GROUPS = int(os.environ.get("LEAKS_GROUPS", "400"))


def resources():
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {
        "memory": int(status["VmRSS"].split()[0]),  # KiB
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def several(comm, count):
    """`count` calls of each kind, including failing ones."""
    x, out = np.ones(16), np.ones(16)
    transposed = np.ones((2, 8)).T
    bad = np.ones(16, object)
    for _ in range(count):
        comm.all_reduce(x)
        comm.all_reduce(x, out, op="max")
        comm.all_reduce_async(x, out).wait()
        comm.all_reduce_async(x)
        comm.all_reduce(transposed, transposed)
        comm.all_reduce_async(transposed, out)
        comm.all_gather(b"bytes")
        comm.all_reduce([x, out])
        comm.send_async(x, comm.rank)
        comm.recv(out, comm.rank)
        comm.broadcast_object({"a": x})
        for call in (lambda: comm.all_reduce(bad), lambda: comm.all_reduce(x, out[:4]), lambda: comm.all_reduce(3)):
            with pytest.raises((ValueError, TypeError)):
                call()
    return sys.getrefcount(x), sys.getrefcount(out)


def test_calls_keep_nothing():
    with ccoll.create_all(1)[0] as comm:
        several(comm, 300)
        before = resources()
        first, second = several(comm, CALLS // 12)
        comm.barrier()
        after = resources()
    assert first <= 4 and second <= 4
    assert after["descriptors"] == before["descriptors"] and after["threads"] == before["threads"], (before, after)
    assert after["memory"] < before["memory"] + (4 << 10), (before, after)


def test_communicators_keep_nothing():
    def check(comm):
        for _ in range(GROUPS // 8):
            comm.duplicate().close()
            comm.split(0).barrier()
        threading.Event().wait(0.05)
        comm.barrier()
        return resources()

    with ccoll.create_all(1)[0]:
        ranks(2, check)
        before = resources()
        for _ in range(4):
            ranks(2, check)
        after = resources()
    assert after["descriptors"] == before["descriptors"] and after["threads"] == before["threads"], (before, after)
    assert after["memory"] < before["memory"] + (8 << 10), (before, after)


def test_reductions_by_functions_keep_nothing():
    def function(a, b):
        return np.add(a, b)

    with ccoll.create_all(1)[0] as comm:
        references = sys.getrefcount(function)
        for _ in range(1000):
            comm.all_reduce(np.ones(4), op=function)
        comm.barrier()
        assert sys.getrefcount(function) == references
