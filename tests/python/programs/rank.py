# SPDX-License-Identifier: Apache-2.0
"""Ranks that end in the way of the first argument."""

import os
import signal
import sys
import warnings

import numpy as np

import ccoll


def killed(comm):
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(np.ones(3))
    except ccoll.PeerLost as error:
        assert isinstance(error, ConnectionError)
        print(f"rank {comm.rank} lost {error.culprit}", flush=True)
    rest = comm.shrink()
    print("sum", rest.all_reduce(np.ones(1)).tolist(), flush=True)
    os._exit(0)


def left_open(comm):
    """No close, with pending operations and references everywhere."""
    global kept
    kept = [comm, comm.duplicate(), comm.all_reduce_async(np.ones(100_000)), comm.recv_async(np.ones(1), comm.rank)]
    comm.barrier()
    assert kept[2].wait()[0] == comm.size


def forked(comm):
    comm.barrier()
    # Since 3.12 Python warns about every fork of a process with threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    child = os.fork()
    if child == 0:
        try:
            comm.all_reduce(np.ones(3))
        except ccoll.Aborted:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert comm.all_reduce(np.ones(3))[0] == comm.size


def large(comm):
    x = np.full(3_000_000, comm.rank + 1.0, np.float32)
    assert comm.all_reduce(x)[-1] == sum(range(1, comm.size + 1))
    assert comm.all_gather_object(x[: 100_000 * (comm.rank + 1)])[0].shape == (100_000,)


def raises(comm):
    if comm.rank == 1:
        raise KeyError("rank 1 is done for")
    comm.barrier()


globals()[sys.argv[1]](ccoll.create(timeout=30))
