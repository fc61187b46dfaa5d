# SPDX-License-Identifier: Apache-2.0
# The collectives in which one rank, the root, gives or gets: broadcast, scatter, gather, reduce.
# Start: torchrun --standalone --nproc-per-node 8 with_a_root.py
# Look at it:
#   cc-show call broadcast -n 8 -c 4 --in i+1
#   cc-show call scatter -n 8 -c 4 --in i
#   cc-show call gather -n 8 -c 2 --in 'r*(i+1)'
#   cc-show call reduce -n 8 -c 3 --in r+i
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()
root = 0
am_root = rank == root

# broadcast: everybody gets the root's numbers, as when training begins with equal parameters.
copy = torch.tensor([1, 2, 3, 4]) if am_root else torch.zeros(4, dtype=torch.int64)
dist.broadcast(copy, src=root)

# scatter: the root cuts its numbers into shares of equal size. The others pass no list.
part = torch.empty(4, dtype=torch.int64)
dist.scatter(part, list(torch.arange(4 * size).chunk(size)) if am_root else None, src=root)

# gather: the root gets everybody's numbers, one tensor from each rank.
mine = torch.tensor([rank, 2 * rank])
gathered = [torch.empty_like(mine) for _ in range(size)] if am_root else None
dist.gather(mine, gathered, dst=root)

# reduce: the root gets the sum. With ccoll the others keep what they have; other backends may leave anything there.
summed = torch.tensor([rank, rank + 1, rank + 2])
dist.reduce(summed, dst=root)

lines = [None] * size
line = f"rank {rank}: broadcast {copy.tolist()}, scatter {part.tolist()}, reduce {summed.tolist()}"
dist.all_gather_object(lines, line)
if am_root:
    print("\n".join(lines))
    print(f"gather at the root: {[each.tolist() for each in gathered]}")
dist.destroy_process_group()

# It prints:
# rank 0: broadcast [1, 2, 3, 4], scatter [0, 1, 2, 3], reduce [28, 36, 44]
# rank 1: broadcast [1, 2, 3, 4], scatter [4, 5, 6, 7], reduce [1, 2, 3]
# rank 2: broadcast [1, 2, 3, 4], scatter [8, 9, 10, 11], reduce [2, 3, 4]
# rank 3: broadcast [1, 2, 3, 4], scatter [12, 13, 14, 15], reduce [3, 4, 5]
# rank 4: broadcast [1, 2, 3, 4], scatter [16, 17, 18, 19], reduce [4, 5, 6]
# rank 5: broadcast [1, 2, 3, 4], scatter [20, 21, 22, 23], reduce [5, 6, 7]
# rank 6: broadcast [1, 2, 3, 4], scatter [24, 25, 26, 27], reduce [6, 7, 8]
# rank 7: broadcast [1, 2, 3, 4], scatter [28, 29, 30, 31], reduce [7, 8, 9]
# gather at the root: [[0, 0], [1, 2], [2, 4], [3, 6], [4, 8], [5, 10], [6, 12], [7, 14]]
