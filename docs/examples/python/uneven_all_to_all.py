# SPDX-License-Identifier: Apache-2.0
# all_to_all with blocks of different sizes: a table says how much each rank sends to each other one.
# Start: torchrun --standalone --nproc-per-node 4 uneven_all_to_all.py
# Look at it: cc-show call all_to_all -n 4 --splits 2,2,1,1/3,2,2,2/2,1,1,1/2,2,2,1
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# Row r has the sizes of rank r's blocks; the ranks have 6, 9, 5 and 7 elements.
TABLE = [[2, 2, 1, 1], [3, 2, 2, 2], [2, 1, 1, 1], [2, 2, 2, 1]]
to_others = TABLE[rank]
from_others = [row[rank] for row in TABLE]

# A program that has no table tells the others its sizes first, by an all_to_all of one number each.
told = torch.empty(size, dtype=torch.int64)
dist.all_to_all_single(told, torch.tensor(to_others))
assert told.tolist() == from_others

# As one tensor, cut by two lists of sizes.
mine = 10 * rank + torch.arange(sum(to_others))
received = torch.empty(sum(from_others), dtype=torch.int64)
dist.all_to_all_single(received, mine, from_others, to_others)

# As lists of tensors, whose own sizes say the same.
blocks = [torch.empty(count, dtype=torch.int64) for count in from_others]
dist.all_to_all(blocks, list(mine.split(to_others)))
assert torch.equal(torch.cat(blocks), received)

lines = [None] * size
dist.all_gather_object(lines, f"rank {rank}: {mine.tolist()} -> {[block.tolist() for block in blocks]}")
if rank == 0:
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# rank 0: [0, 1, 2, 3, 4, 5] -> [[0, 1], [10, 11, 12], [20, 21], [30, 31]]
# rank 1: [10, 11, 12, 13, 14, 15, 16, 17, 18] -> [[2, 3], [13, 14], [22], [32, 33]]
# rank 2: [20, 21, 22, 23, 24] -> [[4], [15, 16], [23], [34, 35]]
# rank 3: [30, 31, 32, 33, 34, 35, 36] -> [[5], [17, 18], [24], [36]]
