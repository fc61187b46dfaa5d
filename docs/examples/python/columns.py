# SPDX-License-Identifier: Apache-2.0
# Collectives on the columns of a matrix, which lie in memory with gaps between their elements.
# Start: torchrun --standalone --nproc-per-node 4 columns.py
# Look at it: cc-show call all_to_all -n 4 --rows 2 --in '10*r+i%4'
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()
am_root = rank == 0


def show(name, tensor):
    """Rank 0 prints the matrices of all ranks beside each other, with a bar between rows."""
    matrices = [None] * size
    dist.all_gather_object(matrices, "|".join(" ".join(map(str, row)) for row in tensor.tolist()))
    if rank == 0:
        print(name, *matrices, sep="   ")


column = torch.full((2, 1), rank)  # one column for each rank
matrix = (10 * rank + torch.arange(size)).repeat(2, 1)  # column j is 10 * rank + j

# The columns arrive one by one. torch.cat puts them beside each other.
columns = [torch.empty_like(column) for _ in range(size)]
dist.all_gather(columns, column)
show("all_gather:", torch.cat(columns, dim=1))

columns = [torch.zeros_like(column) for _ in range(size)]
dist.gather(column, columns if am_root else None)
show("gather:", torch.cat(columns, dim=1))

# A column of a matrix is a view with gaps. contiguous() makes a copy without them.
pieces = [piece.contiguous() for piece in matrix.chunk(size, dim=1)]
mine = torch.empty_like(column)
dist.reduce_scatter(mine, pieces)
show("reduce_scatter:", mine)

dist.all_to_all(columns, pieces)
show("all_to_all:", torch.cat(columns, dim=1))

# The transposed matrix has the columns as rows, and one copy of it is enough.
rows = torch.empty(size, 2, dtype=torch.int64)
dist.all_to_all_single(rows, matrix.t().contiguous())
show("in one tensor:", rows.t())
dist.destroy_process_group()

# It prints:
# all_gather:   0 1 2 3|0 1 2 3   0 1 2 3|0 1 2 3   0 1 2 3|0 1 2 3   0 1 2 3|0 1 2 3
# gather:   0 1 2 3|0 1 2 3   0 0 0 0|0 0 0 0   0 0 0 0|0 0 0 0   0 0 0 0|0 0 0 0
# reduce_scatter:   60|60   64|64   68|68   72|72
# all_to_all:   0 10 20 30|0 10 20 30   1 11 21 31|1 11 21 31   2 12 22 32|2 12 22 32   3 13 23 33|3 13 23 33
# in one tensor:   0 10 20 30|0 10 20 30   1 11 21 31|1 11 21 31   2 12 22 32|2 12 22 32   3 13 23 33|3 13 23 33
