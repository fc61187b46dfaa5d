# SPDX-License-Identifier: Apache-2.0
# The variables that torchrun sets, and how each rank finds its share of the work by them.
# Start: torchrun --standalone --nproc-per-node 4 under_torchrun.py
# Look at it: cc-show call all_reduce -n 4 -c 1 --in '325+625*r'
#
# --standalone is for one host. On each of two hosts, the command is
#   torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint FIRST_HOST:29500 under_torchrun.py
import os

import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["RANK"]) and size == int(os.environ["WORLD_SIZE"])

# LOCAL_RANK counts the ranks of one host. Programs take their GPU by it.
who = f"rank {rank} of {size}, local rank {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_WORLD_SIZE']}"

# The numbers from 1 to 100, a quarter for each rank.
share = torch.arange(1, 101).chunk(size)[rank]
total = share.sum()

lines = [None] * size
dist.all_gather_object(lines, f"{who}: {share[0]} to {share[-1]} are {total} together")
dist.all_reduce(total)
if rank == 0:
    print("\n".join(lines))
    print(f"1 to 100 are {total} together")
dist.destroy_process_group()

# It prints:
# rank 0 of 4, local rank 0 of 4: 1 to 25 are 325 together
# rank 1 of 4, local rank 1 of 4: 26 to 50 are 950 together
# rank 2 of 4, local rank 2 of 4: 51 to 75 are 1575 together
# rank 3 of 4, local rank 3 of 4: 76 to 100 are 2200 together
# 1 to 100 are 5050 together
