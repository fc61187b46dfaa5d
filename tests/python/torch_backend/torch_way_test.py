# SPDX-License-Identifier: Apache-2.0
"""Which of the two backends runs, how it is chosen, and what the C++ one does beyond the other."""

import os
import subprocess
import sys
import threading
import time

import pytest
from torch_support import dist, free_port, implementation, ranks, sequence, torch

from torch._C import _distributed_c10d as c10d

from ccoll.torch._older import HAS_BACKENDS

in_cpp = pytest.mark.skipif(implementation() != "c++", reason="the package has no backend in C++ for this torch")
ASK = "import torch\n{}\nimport ccoll.torch\nprint(ccoll.torch.implementation())"


def asked(way, before=""):
    environment = {each: value for each, value in os.environ.items() if each != "CCOLL_TORCH_WAY"}
    return subprocess.run(
        [sys.executable, "-c", ASK.format(before)], env=environment | ({"CCOLL_TORCH_WAY": way} if way else {}),
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_backend_in_python_can_be_chosen():
    done = asked("python")
    assert (done.stdout, done.stderr) == ("python\n", "")


def test_an_unknown_way_is_refused_with_those_there_are():
    done = asked("rust")
    assert done.returncode != 0 and "CCOLL_TORCH_WAY=rust: expected python or c++" in done.stderr


@pytest.mark.parametrize("version", ["2.99.0", "2.15.0a0+git1234567", "2.15.0.dev20260101"])
def test_where_no_plugin_fits_python_runs_and_nothing_is_said(version):
    other = f"torch.__version__ = {version!r}"
    done = asked("", other)
    assert (done.stdout, done.stderr) == ("python\n", "")
    done = asked("c++", other)
    assert done.returncode != 0 and "CCOLL_TORCH_WAY=c++: " in done.stderr and version in done.stderr


SUM = """
import datetime, os, torch, torch.distributed as dist, ccoll.torch
dist.init_process_group("ccoll", timeout=datetime.timedelta(seconds=30))
t = torch.ones(2)
dist.all_reduce(t)
newer = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)
barrier = dist.monitored_barrier if newer else dist.group.WORLD.monitored_barrier
for _ in range(2):
    barrier(timeout=datetime.timedelta(seconds=20))
print(ccoll.torch.implementation(), t.tolist())
dist.destroy_process_group()
"""


@in_cpp
def test_ranks_of_one_job_may_differ(tmp_path):
    program = tmp_path / "sum.py"
    program.write_text(SUM)
    common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    common["OMP_NUM_THREADS"] = "1"
    running = [
        subprocess.Popen([sys.executable, program], env=common | {"RANK": str(r), "CCOLL_TORCH_WAY": way}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for r, way in enumerate(("python", "c++"))
    ]  # fmt: skip
    assert [each.communicate(timeout=90)[0] for each in running] == ["python [2.0, 2.0]\n", "c++ [2.0, 2.0]\n"]


def beside_messages(rank, size):
    t, sent = torch.ones(1), torch.full((1,), 5.0)
    if rank == 0:
        began = threading.Thread(target=lambda: dist.all_reduce(t))
        began.start()
        dist.send(sent, 1)  # the other thread is in its call until rank 1 has this
        began.join()
    else:
        got = torch.zeros(1)
        dist.recv(got, 0)
        assert got.item() == 5
        dist.all_reduce(t)
    assert t.item() == size


def test_a_call_that_waits_keeps_no_message_back():
    ranks(2, beside_messages)


def ended_by_another_thread(rank, size):
    if rank == 0:
        raised = []

        def call():
            try:
                dist.all_reduce(torch.ones(1))
            except RuntimeError as error:
                raised.append(str(error))

        waiting = threading.Thread(target=call)
        waiting.start()
        while sequence() == 0:
            pass
        dist.distributed_c10d._abort_process_group()
        waiting.join(10)
        assert not waiting.is_alive() and "aborted" in raised[0], raised
    else:
        with pytest.raises(RuntimeError, match="aborted"):
            dist.recv(torch.ones(1), 0)


@in_cpp
def test_abort_ends_a_call_of_another_thread():
    ranks(2, ended_by_another_thread)


def asked_early(rank, size):
    t = torch.zeros(1)
    if rank == 0:
        work = dist.irecv(t, 1)
        for ask in (work.result, work.source_rank):
            with pytest.raises(RuntimeError, match="wait for it first"):
                ask()
        work.synchronize()
        assert not work.is_completed()
        dist.barrier()
        assert work.wait() and work.result()[0].item() == 3 and work.source_rank() == 1
    else:
        dist.barrier()
        dist.send(torch.full((1,), 3.0), 0)


@in_cpp
def test_what_torch_asks_with_the_gil_is_answered_at_once():
    ranks(2, asked_early)


def forks(rank, size):
    dist.barrier()
    kept = dist.irecv(torch.zeros(1), 1 - rank)  # pending when the child begins
    child = os.fork()
    if child == 0:
        began = time.monotonic()
        torch.ops.ccoll.close_all()
        dist.distributed_c10d._abort_process_group()
        os._exit(0 if time.monotonic() - began < 0.5 else 1)
    assert os.waitpid(child, 0)[1] == 0
    # The parent's group is unchanged.
    t = torch.ones(1)
    dist.all_reduce(t)
    assert t.item() == size
    dist.send(torch.ones(1), 1 - rank)
    assert kept.wait()


@in_cpp
def test_a_forked_child_leaves_its_parents_groups_alone():
    ranks(2, forks)


def hooks(rank, size):
    seen = []
    dist.group.WORLD.register_pre_hook(7, seen.append)
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    assert len(seen) == 2, seen


@in_cpp
@pytest.mark.skipif(not hasattr(dist.ProcessGroup, "register_pre_hook"), reason="torch has such hooks from 2.14 on")
def test_hooks_see_every_call():
    ranks(2, hooks)


def profiled(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    assert "ccoll:all_reduce" in [each.name for each in profiler.events()]


@in_cpp
def test_the_profiler_shows_calls_by_their_names():
    ranks(2, profiled)


def both_devices(rank, size):
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    group = dist.group.WORLD
    names = [group._get_backend(torch.device(device)).name() for device in ("cpu", "cuda")]
    return tensor.tolist(), names


@in_cpp
def test_another_backend_serves_the_other_device():
    # gloo stands for nccl, which makes nothing without a GPU.
    assert ranks(2, both_devices, backend="cpu:ccoll,cuda:gloo") == [([2.0, 2.0], ["ccoll", "gloo"])] * 2


no_backends = pytest.mark.skipif(
    implementation() == "c++" or HAS_BACKENDS, reason="torch finds ccoll's own backend"
)  # fmt: skip


def in_torchs_own_code(rank, size):
    """The method of torch's class, which looks for the group's backend as its C++ callers do."""
    group, t = dist.group.WORLD, torch.ones(1)
    with pytest.raises(RuntimeError, match="error_on_collective"):
        c10d.ProcessGroup.reduce(group, [t])
    assert group._get_backend(torch.device("cpu")).name() == "ccoll"
    with pytest.raises(RuntimeError, match="no backend for cuda"):
        group._get_backend(torch.device("cuda"))


@no_backends
def test_a_stand_in_leaves_no_collective_undone_in_silence():
    ranks(2, in_torchs_own_code)


def messages_of_the_stand_in(rank, size):
    group, t = dist.group.WORLD, torch.zeros(1)
    torch.ops.c10d.send([torch.ones(1)], group.boxed(), 1 - rank, 0)
    torch.ops.c10d.recv_([t], group.boxed(), 1 - rank, 0)
    torch.ops.c10d.recv_any_source_([t], group.boxed(), 0)
    assert t.item() == 0
    # Torch's class, as its C++ callers do, finds the group's own methods.
    if rank == 0:
        c10d.ProcessGroup.send(group, [torch.ones(1)], 1, 0).wait()
    else:
        c10d.ProcessGroup.recv(group, [t], 0, 0).wait()
    assert t.item() == rank


@no_backends
def test_a_stand_in_leaves_messages_undone_in_silence():
    ranks(2, messages_of_the_stand_in)


OLD = """
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
class Backend:
    def __init__(self):
        pass
c10d.Backend = Backend
for missing in ("FakeProcessGroup", "ErrorType"):
    if hasattr(c10d, missing):
        delattr(c10d, missing)
import ccoll.torch
dist.init_process_group("ccoll", store=dist.HashStore(), rank=0, world_size=1)
"""


def test_a_torch_that_is_too_old_is_refused_by_name():
    done = subprocess.run(
        [sys.executable, "-c", OLD], env=os.environ | {"CCOLL_TORCH_WAY": "python"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    refusal = f"ccoll: the backend in Python needs torch 2.10 or newer, this is {torch.__version__}"
    assert done.stderr.strip().endswith(f"RuntimeError: {refusal}"), done.stderr
