#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy's NcclCommunicator over the libnccl.so.2 that it has by LD_PRELOAD: two processes share one GPU.

    cupy_jobs.py LIBRARY [--limit 30] [--on-host]

Prints a line for each rank. Status 0, 1 if anything is wrong, 78 if there is no CuPy that can use a GPU.
--on-host needs none: memory is NumPy's then, and the library is told so by CCOLL_NCCL_HOST=1.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time

try:
    import cupy
    from cupy.cuda import nccl
except ImportError as error:
    print(f"there is no CuPy here: {error}")
    sys.exit(78)

INCOMPLETE = 78
RANKS = 2
COUNT = 1000


def common_id(file: pathlib.Path, rank: int) -> bytes | tuple:
    """Rank 0's id, which the others find in a file."""
    if rank == 0:
        made = nccl.get_unique_id()
        whole = file.with_suffix(".new")
        # It is bytes in CuPy 14, and a tuple of numbers before.
        whole.write_bytes(pickle.dumps(made))
        whole.rename(file)
        return made
    while not file.exists(): time.sleep(0.01)
    return pickle.loads(file.read_bytes())


class Place:
    """The place of a rank's arrays, and the stream of its calls: a GPU, or the host."""

    def __init__(self, on_host: bool):
        if on_host:
            import numpy

            self.arrays, self.device, self.stream = numpy, -1, 0
            self.pointer = lambda array: array.ctypes.data
            self.wait = lambda: None
            return
        cupy.cuda.Device(0).use()
        self.arrays, self.device = cupy, 0
        self.own = cupy.cuda.Stream(non_blocking=True)
        self.stream = self.own.ptr
        self.pointer = lambda array: array.data.ptr
        self.wait = cupy.cuda.runtime.deviceSynchronize

    def full(self, count: int, value: float):
        """It is complete on return."""
        made = self.arrays.full(count, value, dtype=self.arrays.float32)
        self.wait()
        return made


def run_rank(rank: int, given: argparse.Namespace) -> None:
    place = Place(given.on_host)
    communicator = nccl.NcclCommunicator(RANKS, common_id(given.file, rank), rank)
    if (communicator.rank_id(), communicator.size(), communicator.device_id()) != (rank, RANKS, place.device):
        raise AssertionError("the communicator's numbers")
    other, total = 1 - rank, sum(range(1, RANKS + 1))
    mine, got, both = place.full(COUNT, rank + 1), place.full(COUNT, -1), place.full(RANKS * COUNT, -1)
    kind = nccl.NCCL_FLOAT32

    def call(name: str, *arguments, stream: int = place.stream) -> None:
        """Arrays are passed by address, and come first."""
        values = [place.pointer(each) if hasattr(each, "dtype") else each for each in arguments]
        getattr(communicator, name)(*values, stream)

    def expect(found, expected: float, what: str) -> None:
        place.wait()
        if not (found == expected).all(): raise AssertionError(f"{what}: {found[:4]}, not {expected}")

    call("allReduce", mine, got, COUNT, kind, nccl.NCCL_SUM)
    expect(got, total, "allReduce")
    call("reduce", mine, got, COUNT, kind, nccl.NCCL_MAX, 1)
    if rank == 1: expect(got, RANKS, "reduce")
    call("broadcast", mine, got, COUNT, kind, 1)
    expect(got, 2, "broadcast")
    call("allGather", mine, both, COUNT, kind)
    for r in range(RANKS): expect(both[r * COUNT:(r + 1) * COUNT], r + 1, "allGather")
    call("reduceScatter", both, got, COUNT, kind, nccl.NCCL_SUM)
    expect(got, RANKS * (rank + 1), "reduceScatter")
    nccl.groupStart()
    call("send", mine, COUNT, kind, other)
    call("recv", got, COUNT, kind, other)
    nccl.groupEnd()
    expect(got, other + 1, "send and recv")
    # The null stream, and CUDA's own names for streams.
    for stream in (0, 1, 2):
        call("allReduce", mine, got, COUNT, kind, nccl.NCCL_SUM, stream=stream)
        expect(got, total, f"allReduce in stream {stream}")
    communicator.check_async_error()
    communicator.destroy()
    print(f"cupy rank {rank}: right, version {nccl.get_version()}, CuPy {cupy.__version__}", flush=True)


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run_all(given: argparse.Namespace) -> bool:
    until = time.monotonic() + given.limit
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, given.library, "--file", f"{folder}/id"]
        if given.on_host: command.append("--on-host")
        environment = {**os.environ, "LD_PRELOAD": given.library}
        if given.on_host: environment["CCOLL_NCCL_HOST"] = "1"
        ranks = [subprocess.Popen([*command, "--rank", str(rank)], env=environment, preexec_fn=die_with_parent)
                 for rank in range(RANKS)]
        codes = [None] * RANKS
        while None in codes and time.monotonic() < until:
            codes = [rank.poll() for rank in ranks]
            if any(codes): until = min(until, time.monotonic() + 5)
            time.sleep(0.02)
        for rank in ranks: rank.kill()
        for rank in ranks: rank.wait()
    for rank, code in enumerate(codes):
        if code is None: print(f"WRONG: cupy rank {rank} has not ended in time")
        elif code != 0: print(f"WRONG: cupy rank {rank} ended with status {code}")
    return codes == [0] * RANKS


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("library")
    arguments.add_argument("--limit", type=float, default=30)
    arguments.add_argument("--on-host", action="store_true")
    # For one of the ranks alone:
    arguments.add_argument("--rank", type=int)
    arguments.add_argument("--file", type=pathlib.Path)
    given = arguments.parse_args()
    if given.rank is not None:
        run_rank(given.rank, given)
        return 0
    try:
        if not given.on_host: cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(f"CuPy {cupy.__version__} sees no GPU: {error}")
        return INCOMPLETE
    return 0 if run_all(given) else 1


if __name__ == "__main__":
    sys.exit(main())
