# SPDX-License-Identifier: Apache-2.0
# Four collectives from send and recv alone, each compared with the library's: the root collects and gives back.
# Start: torchrun --standalone --nproc-per-node 4 by_hand.py
# Look at it: cc-show call all_reduce -n 4 -c 4 --algo root_collects
import torch
import torch.distributed as dist

dist.init_process_group("ccoll")
rank, size = dist.get_rank(), dist.get_world_size()
ROOT = 0


def broadcast(x):
    if rank != ROOT:
        dist.recv(x, ROOT)
        return
    for other in range(1, size):
        dist.send(x, other)


def all_reduce(x):
    if rank == ROOT:
        part = torch.empty_like(x)
        for other in range(1, size):
            dist.recv(part, other)
            x += part
    else:
        dist.send(x, ROOT)
    broadcast(x)


def all_gather(parts, x):
    parts[rank].copy_(x)
    for other in range(1, size):
        if rank == ROOT:
            dist.recv(parts[other], other)
        elif rank == other:
            dist.send(x, ROOT)
    for part in parts:
        broadcast(part)


def reduce_scatter(x, parts):
    # The simplest way, and the most expensive: everybody gets all sums, and keeps one.
    sums = torch.stack(parts)
    all_reduce(sums)
    x.copy_(sums[rank])


def checked(by_hand, by_library):
    assert torch.equal(by_hand, by_library), (by_hand, by_library)
    return by_hand.tolist()


mine = 10 * rank + torch.arange(size)  # element i of rank r is 10 * r + i

ours, theirs = mine.clone(), mine.clone()
broadcast(ours)
dist.broadcast(theirs, ROOT)
line = f"rank {rank}: broadcast {checked(ours, theirs)}"

ours, theirs = mine.clone(), mine.clone()
all_reduce(ours)
dist.all_reduce(theirs)
line += f", all_reduce {checked(ours, theirs)}"

ours, theirs = torch.empty(2, size, dtype=torch.int64)
all_gather(list(ours.split(1)), mine[:1])
dist.all_gather(list(theirs.split(1)), mine[:1])
line += f", all_gather {checked(ours, theirs)}"

ours, theirs = torch.empty(2, 1, dtype=torch.int64)
reduce_scatter(ours, list(mine.split(1)))
dist.reduce_scatter(theirs, list(mine.split(1)))
line += f", reduce_scatter {checked(ours, theirs)}"

lines = [None] * size
dist.all_gather_object(lines, line)
if rank == ROOT:
    print("\n".join(lines))
dist.destroy_process_group()

# It prints:
# rank 0: broadcast [0, 1, 2, 3], all_reduce [60, 64, 68, 72], all_gather [0, 10, 20, 30], reduce_scatter [60]
# rank 1: broadcast [0, 1, 2, 3], all_reduce [60, 64, 68, 72], all_gather [0, 10, 20, 30], reduce_scatter [64]
# rank 2: broadcast [0, 1, 2, 3], all_reduce [60, 64, 68, 72], all_gather [0, 10, 20, 30], reduce_scatter [68]
# rank 3: broadcast [0, 1, 2, 3], all_reduce [60, 64, 68, 72], all_gather [0, 10, 20, 30], reduce_scatter [72]
