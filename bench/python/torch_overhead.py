# SPDX-License-Identifier: Apache-2.0
"""The time that torch and the backend add to a call: all_reduce of one float32 by one rank, in µs.

    python bench/python/torch_overhead.py [TURNS]

The ways take turns; printed are the medians, and the least. Each includes the ones before it:
  native   ccoll's own call from Python, on the group's communicator
  backend  the backend's call from Python, and wait()
  group    through torch's process group, with its dispatcher and hooks
  dist     torch.distributed.all_reduce
  fake     the same in a group of torch's FakeProcessGroup, which does nothing: torch's own part of `dist`
TORCH_FR_BUFFER_SIZE=0 takes torch's flight recorder out. CCOLL_TORCH_WAY chooses the backend.
"""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.testing._internal.distributed.fake_pg import FakeStore  # registers "fake"

import ccoll.torch
from ccoll.torch._way import communicator_of

CALLS = 500


def ways():
    ours = dist.new_group([0], backend="ccoll")
    native, _ = communicator_of(ours)
    backend = ours._get_backend(torch.device("cpu"))
    tensor = torch.ones(1)
    options = c10d.AllreduceOptions()
    options.asyncOp = False
    return {
        "native": lambda: native.all_reduce(tensor),
        "backend": lambda: backend.allreduce([tensor], options).wait(),
        "group": lambda: ours.allreduce([tensor], options).wait(),
        "dist": lambda: dist.all_reduce(tensor, group=ours),
        "fake": lambda: dist.all_reduce(tensor),
    }


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    calls = ways()
    took = {name: [] for name in calls}
    for _ in range(turns):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            took[name].append((time.perf_counter() - began) / CALLS * 1e6)
    print(f"torch {torch.__version__}, backend in {ccoll.torch.implementation()}")
    for name, times in took.items():
        print(f"{name:8} {statistics.median(times):7.2f} µs, least {min(times):7.2f} µs")
    dist.destroy_process_group()


main()
