# SPDX-License-Identifier: Apache-2.0
# Blocking messages: a number goes from rank to rank, then two neighbours exchange theirs without a deadlock.
# Start: python send_recv.py
# Look at it: cc-show call send_recv -n 3 -c 1 --chain 0,1,2 --in 100*r+1
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZE = 3


def main(rank, store):
    dist.init_process_group("ccoll", init_method=f"file://{store}", rank=rank, world_size=SIZE)

    # Each rank prints before it sends, so the lines come in order.
    number = torch.tensor([1])
    if rank > 0:
        dist.recv(number, src=rank - 1)
        number *= 10
    print(f"rank {rank} has {number.item()}", flush=True)
    if rank < SIZE - 1:
        dist.send(number, dst=rank + 1)
    dist.barrier()

    # If both sent first, each could wait for the other's recv, for ever. So one of them receives first.
    other = torch.empty_like(number)
    if rank == 0:
        dist.send(number, dst=1)
        dist.recv(other, src=1)
        print(f"rank 0 has sent {number.item()} and received {other.item()}", flush=True)
    elif rank == 1:
        dist.recv(other, src=0)
        dist.send(number, dst=0)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (f"{folder}/store",), nprocs=SIZE)

# It prints:
# rank 0 has 1
# rank 1 has 10
# rank 2 has 100
# rank 0 has sent 1 and received 10
