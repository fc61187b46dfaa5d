# SPDX-License-Identifier: Apache-2.0
"""Joins a process group and adds up eight bytes: torch_start.py BACKEND, under torchrun for bench/start."""
import sys
import time

import torch
import torch.distributed as dist

dist.init_process_group(sys.argv[1])
one = torch.ones(1, dtype=torch.float64)
dist.all_reduce(one)
over = time.monotonic()
if dist.get_rank() == 0:
    print(f"{over:.6f}", flush=True)
assert one.item() == dist.get_world_size()
dist.destroy_process_group()
