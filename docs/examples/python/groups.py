# SPDX-License-Identifier: Apache-2.0
# Groups: each half of the world sums for itself, and a maximum tells everybody both sums.
# Start: torchrun --standalone --nproc-per-node 4 groups.py
# Look at it: cc-show call all_reduce -n 4 -c 1 --in r+1 --groups 0,1/2,3
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# All ranks make all groups, in the same order, also those that they are not in.
halves = [list(range(size // 2)), list(range(size // 2, size))]
groups = [dist.new_group(ranks) for ranks in halves]
mine = 0 if rank in halves[0] else 1

total = torch.tensor([rank + 1])
dist.all_reduce(total, group=groups[mine])

# A rank has a number of its own in each group.
line = f"rank {rank} is rank {dist.get_rank(groups[mine])} of half {mine}, whose sum is {total.item()}"

# Nobody knows the other half's sum. A zero in its place loses against it in the maximum.
both = torch.zeros(2, dtype=torch.int64)
both[mine] = total
dist.all_reduce(both, op=dist.ReduceOp.MAX)

lines = [None] * size
dist.all_gather_object(lines, f"{line}; the sums are {both.tolist()}")
if rank == 0:
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# rank 0 is rank 0 of half 0, whose sum is 3; the sums are [3, 7]
# rank 1 is rank 1 of half 0, whose sum is 3; the sums are [3, 7]
# rank 2 is rank 0 of half 1, whose sum is 7; the sums are [3, 7]
# rank 3 is rank 1 of half 1, whose sum is 7; the sums are [3, 7]
