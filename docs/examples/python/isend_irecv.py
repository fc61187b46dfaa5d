# SPDX-License-Identifier: Apache-2.0
# Asynchronous messages: sends and receives only begin, and the ranks work until wait().
# Start: python isend_irecv.py
# Look at it: cc-show call send_recv -n 3 -c 5 --chain 0,1 --in '4*i*i'
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZE = 3


def main(rank, store):
    dist.init_process_group("ccoll", init_method=f"file://{store}", rank=rank, world_size=SIZE)
    lines = []

    # Ten messages are under way at once. Until wait() returns, their tensors must not change.
    if rank == 0:
        numbers = [torch.tensor([i * i]) for i in range(10)]
        works = [dist.isend(numbers[i], dst=1 + i % 2) for i in range(10)]
        # A failure in the background shows here, and nowhere else.
        for work in works:
            work.wait()
    else:
        received = []
        for _ in range(5):
            number = torch.empty(1, dtype=torch.int64)
            work = dist.irecv(number, src=0)
            # Here is the place for work that does not need the number.
            work.wait()
            received.append(number.item())
        lines.append(f"rank {rank} received {received}")

    # A batch has no order, so everybody may send to the right and receive from the left.
    right, left = (rank + 1) % SIZE, (rank - 1) % SIZE
    mine, theirs = torch.tensor([10 * rank]), torch.empty(1, dtype=torch.int64)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]):
        work.wait()
    lines.append(f"rank {rank} has {theirs.item()} from its left neighbour")

    everyones = [None] * SIZE
    dist.all_gather_object(everyones, lines)
    if rank == 0:
        print("\n".join(line for lines in everyones for line in lines))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (f"{folder}/store",), nprocs=SIZE)

# It prints:
# rank 0 has 20 from its left neighbour
# rank 1 received [0, 4, 16, 36, 64]
# rank 1 has 0 from its left neighbour
# rank 2 received [1, 9, 25, 49, 81]
# rank 2 has 10 from its left neighbour
