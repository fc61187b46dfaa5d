# SPDX-License-Identifier: Apache-2.0
# A DeviceMesh of 2 x 3 ranks: sums down the columns (dp), along the rows (tp), and over all.
# Start: torchrun --standalone --nproc-per-node 6 mesh.py
# Look at it:
#   cc-show call all_reduce -n 6 -c 1 --in r --groups 0,3/1,4/2,5
#   cc-show call all_reduce -n 6 -c 1 --in r --groups 0,1,2/3,4,5
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()

# Ranks 0 1 2 are the first row, ranks 3 4 5 the second. Each axis has a name:
# dp for data parallelism, between copies of the model, tp for tensor parallelism, within one copy.
mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))


def sum_over(group):
    total = torch.tensor([rank])
    dist.all_reduce(total, group=group)
    return total.item()


where = f"row {mesh.get_local_rank('dp')}, column {mesh.get_local_rank('tp')}"
column, row = sum_over(mesh.get_group("dp")), sum_over(mesh.get_group("tp"))

lines = [None] * size
dist.all_gather_object(lines, f"rank {rank} is in {where}: dp sum {column}, tp sum {row}, sum of all {sum_over(None)}")
if rank == 0:
    print(mesh.mesh.tolist())
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# [[0, 1, 2], [3, 4, 5]]
# rank 0 is in row 0, column 0: dp sum 3, tp sum 3, sum of all 15
# rank 1 is in row 0, column 1: dp sum 5, tp sum 3, sum of all 15
# rank 2 is in row 0, column 2: dp sum 7, tp sum 3, sum of all 15
# rank 3 is in row 1, column 0: dp sum 3, tp sum 12, sum of all 15
# rank 4 is in row 1, column 1: dp sum 5, tp sum 12, sum of all 15
# rank 5 is in row 1, column 2: dp sum 7, tp sum 12, sum of all 15
