# SPDX-License-Identifier: Apache-2.0
"""Ranks of torch.distributed for tests: forked processes, because `import torch` takes seconds."""

import datetime
import os
import pickle
import socket
import tempfile
import time
import traceback

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (tools/setup torch)")
import torch.distributed as dist  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

from ccoll.torch import implementation  # noqa: E402, F401

VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
CPU = torch.device("cpu")
# Classes of Python have the method with every torch.
tells_errors = pytest.mark.skipif(
    implementation() == "c++" and not hasattr(c10d.Backend, "get_error"),
    reason="torch asks a backend in C++ for its error from 2.14 on",
)


def free_port():
    """For one test alone: suites may run beside each other."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def sequence():
    """How many collectives the group has made."""
    group = dist.group.WORLD
    try:
        return group._get_sequence_number_for_group()
    except RuntimeError:  # before 2.14, torch's own group asks none but its own backends
        return group._get_backend(CPU)._get_sequence_number_for_group()


def monitored_barrier(timeout, **named):
    if VERSION >= (2, 14):
        dist.monitored_barrier(timeout=timeout, **named)
    else:  # torch's function refuses all backends but gloo
        dist.group.WORLD.monitored_barrier(timeout, **named)


def _child(function, rank, size, store, place, timeout, **more):
    torch.set_num_threads(1)
    outcome = None
    try:
        dist.init_process_group(
            init_method=f"file://{store}", rank=rank, world_size=size,
            timeout=datetime.timedelta(seconds=timeout), **more,
        )  # fmt: skip
        outcome = ("returned", function(rank, size))
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        outcome = ("raised", traceback.format_exc())
    with open(place + ".part", "wb") as file:
        pickle.dump(outcome, file)
    os.rename(place + ".part", place)
    os._exit(0)


def ranks(size, function, *, backend="ccoll", **options):
    """function(rank, size) in `size` processes; their results. Raises a rank's error, with its number.

    options: timeout, limit, may_die, and further arguments of init_process_group. Where Gloo's own
    ranks cannot reach each other at their start, the job is started again, three times at most."""
    for attempts_left in (2, 1, 0):
        try:
            return _ranks_once(size, function, backend=backend, **options)
        except AssertionError as error:
            if attempts_left == 0 or "Gloo connectFullMesh failed" not in str(error):
                raise


def _ranks_once(size, function, *, backend, timeout=20, limit=90, may_die=(), **more):
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        store = os.path.join(folder, "store")
        children = []
        for rank in range(size):
            place = os.path.join(folder, str(rank))
            child = os.fork()
            if child == 0:
                _child(function, rank, size, store, place, timeout, backend=backend, **more)
            children.append((child, place))
        deadline = time.monotonic() + limit
        results, failed = [], []
        for rank, (child, place) in enumerate(children):
            while os.waitpid(child, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    for other, _ in children[rank:]:
                        os.kill(other, 9)
                        os.waitpid(other, 0)
                    raise AssertionError(f"rank {rank} of {size} hangs; before: {failed}")
                time.sleep(0.005)
            if not os.path.exists(place):
                assert rank in may_die, f"rank {rank} ended without a result"
                results.append(None)
                continue
            with open(place, "rb") as file:
                kind, value = pickle.load(file)
            if kind == "raised":
                failed.append(f"rank {rank}: {value}")
            results.append(value)
        assert not failed, "\n".join(failed)
        return results
