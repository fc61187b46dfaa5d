# SPDX-License-Identifier: Apache-2.0
# Softmax and L2 norm of a row that is spread over the ranks, by an all_reduce of one number each.
# Start: torchrun --standalone --nproc-per-node 4 softmax.py
# Look at it: cc-show call all_reduce -n 4 -c 1 --op max --in '100*r+1'
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# The row is 0 1 | 100 101 | 200 201 | 300 301.
row = torch.tensor([100.0 * rank, 100.0 * rank + 1])

# exp(301) is more than a float32 can be. So all subtract the largest number of all, which changes no result.
largest = row.max()
dist.all_reduce(largest, op=dist.ReduceOp.MAX)
powers = torch.exp(row - largest)
total = powers.sum()
dist.all_reduce(total)
softmax = powers / total

# A norm is the root of the sum of squares. Each rank sums its own squares first.
squares = row.square().sum()
dist.all_reduce(squares)
unit = row / squares.sqrt()

lines = [None] * size
parts = [", ".join(f"{x:.4f}" for x in part.tolist()) for part in (softmax, unit)]
dist.all_gather_object(lines, f"rank {rank}: softmax {parts[0]}; divided by the norm {parts[1]}")
if rank == 0:
    print(f"largest {largest.item():.0f}, sum of powers {total.item():.4f}, norm {squares.sqrt().item():.2f}")
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# largest 301, sum of powers 1.3679, norm 530.29
# rank 0: softmax 0.0000, 0.0000; divided by the norm 0.0000, 0.0019
# rank 1: softmax 0.0000, 0.0000; divided by the norm 0.1886, 0.1905
# rank 2: softmax 0.0000, 0.0000; divided by the norm 0.3772, 0.3790
# rank 3: softmax 0.2689, 0.7311; divided by the norm 0.5657, 0.5676
