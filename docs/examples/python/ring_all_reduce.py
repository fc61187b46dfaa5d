# SPDX-License-Identifier: Apache-2.0
# A ring all_reduce by hand: chunks go round once to be summed, and once more to reach everybody.
# Start: python ring_all_reduce.py
# Look at it: cc-show call all_reduce -n 4 -c 4 --algo ring
# The same round by round: cc-show steps all_reduce -n 4 --algo ring --all
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZE = 4


def ring_all_reduce(data):
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    chunks = list(data.chunk(size))  # views: what is written to them is in data
    arrived = torch.empty_like(chunks[0])

    # After size - 1 steps, rank r has the sum of chunk r + 1.
    for step in range(size - 1):
        # isend, for with send first everywhere large chunks would wait for each other.
        sent = dist.isend(chunks[(rank - step) % size], right)
        dist.recv(arrived, left)
        sent.wait()
        chunks[(rank - step - 1) % size] += arrived

    # Sums go round: each rank passes on what it got last, and begins with its own, chunk r + 1.
    for step in range(size - 1):
        sent = dist.isend(chunks[(rank + 1 - step) % size], right)
        dist.recv(chunks[(rank - step) % size], left)
        sent.wait()


def main(rank, store):
    dist.init_process_group("ccoll", init_method=f"file://{store}", rank=rank, world_size=SIZE)
    data = 10 * rank + torch.arange(SIZE)
    before = data.tolist()
    ring_all_reduce(data)

    lines = [None] * SIZE
    dist.all_gather_object(lines, f"rank {rank}: {before} -> {data.tolist()}")
    if rank == 0:
        print("\n".join(lines))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (f"{folder}/store",), nprocs=SIZE)

# It prints:
# rank 0: [0, 1, 2, 3] -> [60, 64, 68, 72]
# rank 1: [10, 11, 12, 13] -> [60, 64, 68, 72]
# rank 2: [20, 21, 22, 23] -> [60, 64, 68, 72]
# rank 3: [30, 31, 32, 33] -> [60, 64, 68, 72]
