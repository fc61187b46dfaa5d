# SPDX-License-Identifier: Apache-2.0
"""Processes that are the ranks of a job, for the clients' programs, and arrays to compute with."""
import ctypes
import multiprocessing
import os
import sys
import traceback


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = [("internal", ctypes.c_byte * 128)]


def floats(*values):
    """An array of float32."""
    return (ctypes.c_float * len(values))(*values)


def address(array, index=0):
    """The address of an array's element."""
    return ctypes.c_void_p(ctypes.addressof(array) + index * ctypes.sizeof(array._type_))


def _run(body, rank, size, pipe):
    try:
        body(rank, size, pipe)
        pipe.send(None)
    except Exception:
        pipe.send(f"rank {rank}: {traceback.format_exc()}")


def run(body, size):
    """Runs body(rank, size, pipe) in as many processes; rank 0 sends an id to all others."""
    os.environ.setdefault("CCOLL_NCCL_HOST", "1")
    fork = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for rank in range(size):
        ours, theirs = fork.Pipe()
        process = fork.Process(target=_run, args=(body, rank, size, theirs), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)

    def told(rank):
        if not pipes[rank].poll(60): return f"rank {rank} says nothing"
        try:
            return pipes[rank].recv()
        except EOFError:
            return f"rank {rank} ended"

    wrong = []
    unique_id = told(0)
    if isinstance(unique_id, bytes):
        for pipe in pipes[1:]:
            pipe.send(unique_id)
        wrong = [each for each in map(told, range(size)) if each is not None]
    else:
        wrong = [unique_id]
    for process in processes:
        process.join(0 if wrong else 20)
        if process.is_alive():
            process.kill()
            wrong.append("a rank does not end")
        elif process.exitcode != 0 and not wrong:
            wrong.append(f"a rank ends with {process.exitcode}")
    print("\n".join(wrong) or "all is well")
    sys.exit(1 if wrong else 0)
