#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives on numpy arrays by ccoll's native interface beside mpi4py: the ratio of their times.

    mpirun -n N python bench/python/numpy_collectives.py [ROUNDS]

Needs mpi4py (pip install mpi4py), over whichever MPI mpirun belongs to. Both make the same calls in the same
processes and take turns, round by round. A row has the medians in microseconds and ccoll's over mpi4py's:
below 1, ccoll is faster. The last two lines are the geometric mean and the slowest point.
"""

import statistics
import sys
import time

import numpy as np
from mpi4py import MPI

import ccoll

# Bytes of one block: a rank's input of all_reduce, of all_gather, and its part of the two others.
SIZES = [8, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
MOST = 512 << 20  # bytes of the blocks of all ranks


def calls(comm: ccoll.Communicator, world: MPI.Intracomm, count: int):
    """Each operation as two functions."""
    x, out = np.ones(count), np.empty(count)
    blocks, back = np.ones(count * comm.size), np.empty(count * comm.size)
    return {
        "all_reduce": (lambda: comm.all_reduce(x, out), lambda: world.Allreduce(x, out)),
        "all_gather": (lambda: comm.all_gather(x, back), lambda: world.Allgather(x, back)),
        "reduce_scatter": (lambda: comm.reduce_scatter(blocks, out), lambda: world.Reduce_scatter_block(blocks, out)),
        "all_to_all": (lambda: comm.all_to_all(blocks, back), lambda: world.Alltoall(blocks, back)),
        "broadcast": (lambda: comm.broadcast(x, 0), lambda: world.Bcast(x, 0)),
    }


def microseconds(call, world: MPI.Intracomm, times: int) -> float:
    world.Barrier()
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times * 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    world = MPI.COMM_WORLD
    comm = ccoll.create()
    is_first = comm.rank == 0
    ratios = []
    if is_first:
        library = MPI.Get_library_version().split(",")[0].split("\n")[0]
        print(f"{comm.size} ranks, {library}, {rounds} rounds by turns\n{'':16}{'bytes':>10}{'ccoll':>10}{'mpi4py':>10}  ratio")
    for nbytes in SIZES:
        if nbytes * comm.size > MOST:
            continue
        for name, ways in calls(comm, world, nbytes // 8).items():
            times = max(2, min(500, (8 << 20) // (nbytes * comm.size)))
            took: list[list[float]] = [[], []]
            for turn in range(rounds + 1):
                for one, way in zip(took, ways):
                    spent = microseconds(way, world, times)
                    if turn:  # the first makes links
                        one.append(spent)
            ours, theirs = map(statistics.median, took)
            ratios.append(ours / theirs)
            if is_first:
                print(f"{name:16}{nbytes:10}{ours:10.1f}{theirs:10.1f}{ratios[-1]:7.2f}", flush=True)
    if is_first:
        print(f"{'geometric mean':46}{statistics.geometric_mean(ratios):7.2f}\n{'slowest':46}{max(ratios):7.2f}")
    comm.close()


if __name__ == "__main__":
    main()
