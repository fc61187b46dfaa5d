# SPDX-License-Identifier: Apache-2.0
# The collectives in which all ranks give and get: all_reduce, all_gather, reduce_scatter, all_to_all.
# Start: torchrun --standalone --nproc-per-node 8 without_a_root.py
# Look at it:
#   cc-show call all_reduce -n 8 -c 3 --in '(r+1)*(i+1)'
#   cc-show call all_gather -n 8 -c 3 --in 'r*(i+1)'
#   cc-show call reduce_scatter -n 8 -c 1 --in '10*r+i'
#   cc-show call all_to_all -n 8 -c 1 --in '8*r+i'
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# all_reduce: everybody gets the sum. Data-parallel training does this with gradients.
total = (rank + 1) * torch.tensor([1, 2, 3])
dist.all_reduce(total)

# all_gather: everybody gets everybody's numbers. Sharded training fetches parameters so.
mine = rank * torch.tensor([1, 2, 3])
gathered = [torch.empty_like(mine) for _ in range(size)]
dist.all_gather(gathered, mine)

# reduce_scatter: each rank gets its own part of the sum, which is half an all_reduce.
part = torch.empty(1, dtype=torch.int64)
dist.reduce_scatter(part, list((10 * rank + torch.arange(size)).chunk(size)))

# all_to_all: rank r sends its block i to rank i. Tokens go to their experts so.
sent = list((size * rank + torch.arange(size)).chunk(size))
received = [torch.empty(1, dtype=torch.int64) for _ in range(size)]
dist.all_to_all(received, sent)

lines = [None] * size
dist.all_gather_object(lines, f"rank {rank}: reduce_scatter {part.item()}, all_to_all {torch.cat(received).tolist()}")
if rank == 0:
    print(f"all_reduce: {total.tolist()}")
    print(f"all_gather: {[each.tolist() for each in gathered]}")
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# all_reduce: [36, 72, 108]
# all_gather: [[0, 0, 0], [1, 2, 3], [2, 4, 6], [3, 6, 9], [4, 8, 12], [5, 10, 15], [6, 12, 18], [7, 14, 21]]
# rank 0: reduce_scatter 280, all_to_all [0, 8, 16, 24, 32, 40, 48, 56]
# rank 1: reduce_scatter 288, all_to_all [1, 9, 17, 25, 33, 41, 49, 57]
# rank 2: reduce_scatter 296, all_to_all [2, 10, 18, 26, 34, 42, 50, 58]
# rank 3: reduce_scatter 304, all_to_all [3, 11, 19, 27, 35, 43, 51, 59]
# rank 4: reduce_scatter 312, all_to_all [4, 12, 20, 28, 36, 44, 52, 60]
# rank 5: reduce_scatter 320, all_to_all [5, 13, 21, 29, 37, 45, 53, 61]
# rank 6: reduce_scatter 328, all_to_all [6, 14, 22, 30, 38, 46, 54, 62]
# rank 7: reduce_scatter 336, all_to_all [7, 15, 23, 31, 39, 47, 55, 63]
