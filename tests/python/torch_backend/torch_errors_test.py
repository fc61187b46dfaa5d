# SPDX-License-Identifier: Apache-2.0
"""Errors that torch's programs get for calls that cannot be made or fail: each raises in the call itself."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from torch_support import CPU, dist, free_port, implementation, monitored_barrier, ranks, tells_errors, torch

from torch._C import _distributed_c10d as c10d

SECOND = datetime.timedelta(seconds=1)
# tools/gpu_check/programs/backend_jobs.py expects the same of a GPU's tensor.
ON_META = (
    "ccoll: all_reduce: a tensor on meta: the backend in Python takes CPU tensors only; "
    "the one in C++ takes those of GPUs, too"
)


def refused(rank, size):
    ones = torch.ones(4)
    for call, words in (
        (lambda: dist.all_reduce(ones, op=dist.ReduceOp.BAND), "bit_and of torch.float32"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool), op=dist.ReduceOp.AVG), "avg of bool"),
        (lambda: dist.all_gather_into_tensor(torch.zeros(3), ones), "8 elements are expected"),
        (lambda: dist.all_gather_into_tensor(torch.zeros(8, dtype=torch.int32), ones), "one type"),
        (lambda: dist.reduce_scatter_tensor(torch.zeros(3), ones), "6 elements are expected"),
        (lambda: dist.all_to_all_single(torch.zeros(3), torch.ones(3)), "does not divide equally"),
        (lambda: dist.all_to_all_single(torch.zeros(()), torch.ones(())), "without dimensions"),
        (lambda: dist.all_to_all_single(torch.zeros(()), torch.ones(()), [0, 0], [0, 0]), "without dimensions"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.bool).to_sparse()), "bool"),
        (lambda: dist.all_to_all_single(torch.zeros(4), ones, [1, 2], [2, 2]), "split sizes"),
        (lambda: dist.all_to_all_single(torch.zeros(4, 2).t(), torch.ones(2, 4)), "contiguous"),
        (lambda: dist.all_gather([torch.zeros(4)], ones), "list of 2 tensors"),
        (lambda: dist.all_reduce(torch.ones(2, device="meta")), ON_META),
    ):
        if words == ON_META and implementation() == "c++":
            continue  # torch answers such calls itself, before any backend in C++
        try:
            call()
        except (ValueError, RuntimeError, TypeError) as error:
            assert words in str(error), (words, str(error))
        else:
            raise AssertionError(f"not refused: {words}")
    dist.all_reduce(ones)  # nothing was sent, and nothing is broken
    assert ones.tolist() == [size] * 4


def test_wrong_arguments_are_refused_before_anything_is_sent():
    ranks(2, refused)


def failing(call, words, within=10):
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError) as raised:
        call()
    assert time.monotonic() - began < within
    for word in words:
        assert word in str(raised.value), (word, str(raised.value))


def mismatch(rank, size):
    def calls():
        if rank == 0:
            dist.all_reduce(torch.ones(4))
        else:
            dist.broadcast(torch.ones(4), 1)
        dist.barrier()  # a root that only sends may get the error here

    failing(calls, ["mismatch", "all_reduce", "broadcast"])


def test_different_calls_are_told_on_every_rank():
    ranks(2, mismatch)


def late(rank, size):
    if rank == 1:
        time.sleep(3)
        return
    began = time.monotonic()
    failing(lambda: dist.all_reduce(torch.ones(4)), ["timed out", "timeout", "rank 1"])
    assert time.monotonic() - began > 0.5


def test_a_call_that_others_do_not_make_names_them():
    ranks(2, late, timeout=1)


def waits_briefly(rank, size):
    t = torch.ones(1)
    if rank == 0:
        w = dist.irecv(t, 1)
        with pytest.raises(RuntimeError, match="timed out"):
            w.wait(datetime.timedelta(milliseconds=100))
        assert w.wait() and t.item() == 7  # it still completes
    else:
        time.sleep(0.5)
        dist.send(torch.full((1,), 7.0), 0)


def test_a_wait_with_a_limit_leaves_the_operation_under_way():
    ranks(2, waits_briefly)


def dies(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    failing(lambda: dist.all_reduce(torch.ones(4)), ["peer_lost", "rank 1"])
    # Later calls fail at once; the end does not hang.
    failing(lambda: dist.barrier(), ["rank 1"], within=2)
    w = None
    try:
        w = dist.all_reduce(torch.ones(4), async_op=True)
    except dist.DistBackendError:
        pass
    if w is not None:
        with pytest.raises(RuntimeError):
            w.get_future().wait()


def test_a_rank_that_dies_is_named_by_all_others():
    ranks(3, dies, may_die=(1,))


def missing(rank, size):
    if rank in (1, 2):
        time.sleep(2)
        return
    with pytest.raises(RuntimeError) as raised:
        monitored_barrier(SECOND, wait_all_ranks=True)
    assert "1, 2" in str(raised.value), str(raised.value)


def test_a_monitored_barrier_names_all_that_are_missing():
    ranks(4, missing)


UNDESTROYED = """
import os, torch, torch.distributed as dist, ccoll.torch
dist.init_process_group("ccoll")
w = dist.all_reduce(torch.ones(3), async_op=True)
if os.environ["RANK"] == "1":
    w.get_future().then(lambda each: None)
w.wait()
"""


def test_exit_without_destroy_neither_hangs_nor_prints(tmp_path):
    program = tmp_path / "undestroyed.py"
    program.write_text(UNDESTROYED)
    common = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    common["OMP_NUM_THREADS"] = "1"
    running = [
        subprocess.Popen([sys.executable, program], env=common | {"RANK": str(r)}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for r in range(2)
    ]  # fmt: skip
    for each in running:
        said, _ = each.communicate(timeout=60)
        assert each.returncode == 0 and said == "", said


def half_a_batch(rank, size):
    out, back, sparse = torch.full((2,), float(rank)), torch.zeros(2), torch.eye(2).to_sparse()
    other = 1 - rank
    with pytest.raises((ValueError, NotImplementedError)):  # torch's own, if the backend is in C++
        dist.batch_isend_irecv([dist.P2POp(dist.isend, out, other), dist.P2POp(dist.isend, sparse, other)])
    # Neither is in a batch that remains open.
    works = [dist.isend(out, other), dist.irecv(back, other)]
    assert all(w.wait() for w in works) and back.tolist() == [other] * 2
    # Collectives are really made, not only recorded by torch.
    t = torch.ones(2)
    dist.all_reduce(t)
    assert t.tolist() == [size] * 2


def test_a_batch_that_raises_leaves_later_calls_as_they_are():
    ranks(2, half_a_batch)


def opaque(rank, size):
    t = torch.ones(4).to(torch.float8_e4m3fnuz)
    factor = dist._make_nccl_premul_sum(0.5)
    for call in (
        lambda: dist.all_reduce(t), lambda: dist.all_reduce_coalesced([t]), lambda: dist.all_reduce(t, op=factor)
    ):  # fmt: skip
        with pytest.raises(ValueError, match="moved, not reduced"):
            call()
    with pytest.raises(ValueError, match="share memory"):
        dist.all_reduce(torch.ones(1).expand(3))


def test_what_cannot_be_reduced_is_refused_in_every_form():
    ranks(2, opaque)


def sparse_of_other_shapes(rank, size):
    for dense in (torch.ones(3 + rank), torch.ones((4, 1) if rank else 4), torch.ones(2, 2 + rank)):
        with pytest.raises(ValueError, match="sparse tensors of one shape"):
            dist.all_reduce(dense.to_sparse())
    with pytest.raises(ValueError, match="as many sparse dimensions"):
        dist.all_reduce(torch.ones(2, 2).to_sparse(1 + rank))
    t = torch.eye(2).to_sparse()
    dist.all_reduce(t)
    assert t.to_dense().tolist() == [[size, 0], [0, size]]


def test_sparse_tensors_of_other_shapes_are_refused_on_every_rank():
    ranks(2, sparse_of_other_shapes)


def alone(way):
    """A backend of a group whose other rank never comes."""
    store, limit = dist.HashStore(), datetime.timedelta(milliseconds=300)
    if way == "python":
        from ccoll.torch._core import Core
        from ccoll.torch._group import Backend

        return Backend(Core(store, 0, 2, "alone", limit))
    bearer = dist.ProcessGroup(store, 0, 2)
    torch.ops.ccoll.attach(bearer.boxed(), "alone", "=lo", 300)
    return bearer._get_backend(CPU)


@tells_errors
def test_get_error_tells_that_a_group_could_not_be_made():
    backend = alone(implementation())
    assert backend.get_error() == c10d.ErrorType.SUCCESS
    with pytest.raises(dist.DistBackendError):
        backend.eager_connect_single_device(CPU)
    assert backend.get_error() == c10d.ErrorType.TIMEOUT
    backend.shutdown()


def again(rank, size, port):
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0, wait_for_workers=False)
    dist.destroy_process_group()
    for _ in range(3):
        dist.init_process_group("ccoll", store=store, rank=rank, world_size=size, timeout=SECOND * 20)
        monitored_barrier(SECOND * 5)
        t = torch.ones(1)
        dist.all_reduce(t)
        assert t.item() == size
        dist.destroy_process_group()
    if rank == 1:
        time.sleep(0.5)  # rank 0 has the store


def test_groups_made_again_in_one_store_do_not_meet_earlier_ones():
    port = free_port()
    ranks(2, lambda rank, size: again(rank, size, port))


UNFINISHED = """
import datetime, sys, torch, torch.distributed as dist, ccoll.torch
store = dist.FileStore(sys.argv[1], 2)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
from ccoll.torch._core import Core
core = Core(store, 0, 2, "never", datetime.timedelta(seconds=100))
import time
time.sleep(0.3)
print("ends", flush=True)
"""


def test_exit_while_a_group_is_being_made_is_quiet(tmp_path):
    program = tmp_path / "unfinished.py"
    program.write_text(UNFINISHED)
    done = subprocess.run(
        [sys.executable, program, tmp_path / "store"], capture_output=True, text=True, timeout=60,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("[Gloo]")]  # torch 2.10
    assert done.returncode == 0 and said == ["ends"], done.stdout + done.stderr


def test_interfaces():
    from ccoll.torch._host import interface_towards

    assert interface_towards("127.0.0.1") == "=lo"
    assert interface_towards("no such host.invalid") == ""
    # A host's route to itself is loopback, which is useless to others: the address's own interface is named.
    for address, interface in own_addresses():
        assert interface_towards(address) == "=" + interface


def own_addresses():
    """Addresses of this host with their interfaces; empty if nothing reports them."""
    if shutil.which("ip") is None:
        return []
    listed = subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True).stdout
    return [(words[3].split("/")[0], words[1]) for words in map(str.split, listed.splitlines())]
