# SPDX-License-Identifier: Apache-2.0
# Every collective on the rows of a matrix, which lie in memory one after the other.
# Start: torchrun --standalone --nproc-per-node 4 rows.py
# Look at it: cc-show call reduce_scatter -n 4 -c 2 --in '10*r+(i-i%2)/2'
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


row = torch.full((1, 2), rank)  # one row for each rank
matrix = (10 * rank + torch.arange(size)).repeat_interleave(2).reshape(size, 2)  # row i is 10 * rank + i

# These forms take one tensor that has all rows, in place of a list of tensors.
rows = torch.empty(size, 2, dtype=torch.int64)
dist.all_gather_into_tensor(rows, row)
show("all_gather:", rows)

mine = torch.empty(1, 2, dtype=torch.int64)
dist.reduce_scatter_tensor(mine, matrix)
show("reduce_scatter:", mine)

dist.all_to_all_single(rows, matrix)
show("all_to_all:", rows)

# A chunk of rows is a view of the matrix, so lists of rows need no copy either.
dist.scatter(mine, list(matrix.chunk(size)) if am_root else None)
show("scatter:", mine)

rows = torch.zeros(size, 2, dtype=torch.int64)
dist.gather(row, list(rows.chunk(size)) if am_root else None)
show("gather:", rows)

total = row.clone()
dist.all_reduce(total)
show("all_reduce:", total)

# With ccoll the other ranks keep their rows; other backends may leave anything there.
total = row.clone()
dist.reduce(total, dst=0)
show("reduce:", total)

copy = row.clone()
dist.broadcast(copy, src=3)
show("broadcast of rank 3:", copy)
dist.destroy_process_group()

# It prints:
# all_gather:   0 0|1 1|2 2|3 3   0 0|1 1|2 2|3 3   0 0|1 1|2 2|3 3   0 0|1 1|2 2|3 3
# reduce_scatter:   60 60   64 64   68 68   72 72
# all_to_all:   0 0|10 10|20 20|30 30   1 1|11 11|21 21|31 31   2 2|12 12|22 22|32 32   3 3|13 13|23 23|33 33
# scatter:   0 0   1 1   2 2   3 3
# gather:   0 0|1 1|2 2|3 3   0 0|0 0|0 0|0 0   0 0|0 0|0 0|0 0   0 0|0 0|0 0|0 0
# all_reduce:   6 6   6 6   6 6   6 6
# reduce:   6 6   1 1   2 2   3 3
# broadcast of rank 3:   3 3   3 3   3 3   3 3
