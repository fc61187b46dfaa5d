# SPDX-License-Identifier: Apache-2.0
"""torch's groups and calls over ccoll leave nothing. LEAKS_CALLS, LEAKS_GROUPS: how many (tools/torch-matrix)."""

import gc
import logging
import os

from torch_support import dist, ranks, torch

CALLS = int(os.environ.get("LEAKS_CALLS", "6000"))
GROUPS = int(os.environ.get("LEAKS_GROUPS", "60"))
# Each turn makes 6 calls.
TURN = 6


def resources():
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    return {
        "memory": int(status["VmRSS"].split()[0]),  # KiB
        "threads": int(status["Threads"]),
        "descriptors": len(os.listdir("/proc/self/fd")),
    }


def keeps_nothing(stretch, most):
    """Makes the stretch three times. What is kept makes the process grow each time, by more than `most` MiB. The
    allocator, torch's recorder, and threads that serve callbacks while others are busy, grow it once."""
    logging.disable()  # torch logs each error, and pytest keeps what is logged
    seen = [resources()]
    for _ in range(3):
        stretch()
        seen.append(resources())
    for what, allowed in (("memory", most << 10), ("threads", 0), ("descriptors", 0)):
        least = min(after[what] - before[what] for before, after in zip(seen, seen[1:]))
        assert least <= allowed, (what, seen)


def several(count, rank, size):
    x, into = torch.ones(16), torch.ones(16 * size)
    for _ in range(count):
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        dist.all_reduce(x, async_op=True).get_future().wait()
        dist.all_reduce(torch.ones(1000), async_op=True)  # dropped
        dist.all_gather_into_tensor(into, x)
        try:
            dist.all_to_all_single(x, torch.ones(3))
        except ValueError:
            pass
        x.fill_(1)
    dist.barrier()


def calls(rank, size):
    several(200, rank, size)
    keeps_nothing(lambda: several(CALLS // TURN // 3, rank, size), 2)


def test_calls_keep_nothing():
    ranks(2, calls, limit=900)


def groups_come_and_go(count):
    for _ in range(count):
        group = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(4), group=group)
        dist.destroy_process_group(group)


def groups(rank, size):
    groups_come_and_go(20)
    keeps_nothing(lambda: groups_come_and_go(GROUPS // 3), 6)


def test_groups_keep_nothing():
    ranks(2, groups, limit=900)
