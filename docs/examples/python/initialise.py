# SPDX-License-Identifier: Apache-2.0
# Three ways for ranks to find each other: by variables, by rank 0's address, by a file.
# Start: python initialise.py
# Look at it: cc-show call all_reduce -n 3 -c 1 --in r+1
import os
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZE = 3


def sum_up_and_leave(way):
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"by {way}: {dist.get_world_size()} ranks have 1, 2 and 3, which is {total.item()} together")
    dist.destroy_process_group()


def main(rank, ports, folder):
    # A launcher such as torchrun sets these four variables, and the program needs to know nothing.
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=str(ports[0]), RANK=str(rank), WORLD_SIZE=str(SIZE))
    dist.init_process_group("ccoll", init_method="env://")
    sum_up_and_leave("variables")

    # Rank 0 listens at this address, the others connect to it.
    dist.init_process_group("ccoll", init_method=f"tcp://localhost:{ports[1]}", rank=rank, world_size=SIZE)
    sum_up_and_leave("address")

    # All ranks must see the file's folder. The file itself must be new for each job.
    dist.init_process_group("ccoll", init_method=f"file://{folder}/ranks", rank=rank, world_size=SIZE)
    sum_up_and_leave("file")


if __name__ == "__main__":
    # On a machine of your own any free port will do, such as 29500.
    with socket.create_server(("localhost", 0)) as one, socket.create_server(("localhost", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(main, (ports, folder), nprocs=SIZE)

# It prints:
# by variables: 3 ranks have 1, 2 and 3, which is 6 together
# by address: 3 ranks have 1, 2 and 3, which is 6 together
# by file: 3 ranks have 1, 2 and 3, which is 6 together
