# SPDX-License-Identifier: Apache-2.0
# Weighted sums and means by all_reduce: each rank multiplies first, then all sum.
# Start: torchrun --standalone --nproc-per-node 4 weighted_sum.py
# Look at it: cc-show call all_reduce -n 4 -c 3 --in '(i+1)*(10*r+i)'
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# A weight for each element, the same on all ranks.
weights = torch.tensor([1, 2, 3])
weighted = weights * (10 * rank + torch.arange(3))
dist.all_reduce(weighted)

# A weight for each rank: the mean loss of batches of 1, 2, 3 and 4 samples. The mean of the ranks' means
# would count a sample of a small batch for more, so the sum and the number go in one call.
losses = [float(rank)] * (rank + 1)
both = torch.tensor([sum(losses), len(losses)])
dist.all_reduce(both)
mean = both[0] / both[1]

means = torch.tensor([sum(losses) / len(losses)])
dist.all_reduce(means)

if rank == 0:
    print(f"weighted sum {weighted.tolist()}")
    print(f"mean of {both[1].item():.0f} samples {mean.item()}, mean of the ranks' means {means.item() / size}")
dist.destroy_process_group()

# It prints:
# weighted sum [60, 128, 204]
# mean of 10 samples 2.0, mean of the ranks' means 1.5
