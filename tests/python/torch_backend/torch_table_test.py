# SPDX-License-Identifier: Apache-2.0
"""What torch asks of a backend besides collectives: it works, or is refused with an alternative."""

import datetime
import os
import signal

import pytest
from torch_support import CPU, dist, implementation, ranks, tells_errors, torch

from torch._C import _distributed_c10d as c10d

from ccoll.torch._older import HAS_BACKENDS


def refusals(rank, size):
    group = dist.group.WORLD
    backend = group._get_backend(CPU)
    asked = c10d.ReconfigureOptions() if hasattr(c10d, "ReconfigureOptions") else None
    for holder in (group, backend):
        for call, words in (
            (lambda: holder.new_window(), "isend and irecv"),
            (lambda: holder.get_reconfigure_handle(), "shrink_group"),
            (lambda: holder.reconfigure(asked), "shrink_group"),
        ):
            with pytest.raises(NotImplementedError, match=words):
                call()
    for name in ("_supports_window", "_supports_reconfigure"):
        if hasattr(dist, name):
            assert getattr(dist, name)() is False
    if hasattr(dist.distributed_c10d, "_time_estimator"):
        with pytest.raises(NotImplementedError, match="time estimator"), dist.distributed_c10d._time_estimator():
            pass
    t = torch.ones(2)
    dist.all_reduce(t)  # nothing is broken
    assert t.tolist() == [size, size]


@pytest.mark.skipif(
    implementation() == "c++" and not hasattr(c10d.Backend, "new_window"),
    reason="torch asks a backend in C++ for windows and for other ranks from 2.14 on",
)
def test_what_there_is_not_is_refused_by_name():
    ranks(2, refusals)


def when_told(tell):
    """Rank 0 writes to the store when it has its error; until then another rank stays."""
    store = dist.distributed_c10d._get_default_store()
    if tell:
        store.set("told", "1")
    else:
        store.wait(["told"], datetime.timedelta(seconds=30))


def error_of_group():
    # torch's own group, around a backend in C++, has no such method.
    group = dist.group.WORLD
    found = {each.get_error() for each in (group, group._get_backend(CPU)) if hasattr(each, "get_error")}
    assert len(found) == 1, found
    return found.pop()


def told_timeout(rank, size):
    assert error_of_group() == c10d.ErrorType.SUCCESS
    dist.barrier()
    if rank == 0:
        with pytest.raises(dist.DistBackendError):
            dist.all_reduce(torch.ones(1))
        assert error_of_group() == c10d.ErrorType.TIMEOUT
    when_told(rank == 0)


@tells_errors
def test_get_error_tells_a_time_limit_that_has_passed():
    ranks(2, told_timeout, timeout=1)


def told_loss(rank, size):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1))
    assert error_of_group() == c10d.ErrorType.REMOTE_ERROR


@tells_errors
def test_get_error_tells_a_rank_that_was_lost():
    ranks(2, told_loss, may_die=(1,))


def told_mismatch(rank, size):
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1 + rank))
        dist.barrier()
    assert error_of_group() == c10d.ErrorType.COMM_ERROR
    dist.destroy_process_group()


@tells_errors
def test_get_error_tells_other_failures():
    ranks(2, told_mismatch)


CAN_SHRINK = hasattr(dist, "shrink_group") and (implementation() == "c++" or HAS_BACKENDS)
needs_shrink = pytest.mark.skipif(
    not CAN_SHRINK, reason="torch's shrink_group takes a backend in Python from 2.14 on, one in C++ where there is one"
)


def shrinks(rank, size):
    if rank == 1:
        return None
    group = dist.shrink_group([1])
    new = {0: 0, 2: 1, 3: 2}[rank]
    assert dist.get_rank() == new and dist.get_world_size() == 3 and group is dist.group.WORLD
    t = torch.full((3,), float(new))
    dist.all_reduce(t)
    assert t.tolist() == [3.0] * 3
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    assert t.tolist() == [9.0] * 3
    out = [torch.zeros(1) for _ in range(3)]
    dist.all_gather(out, torch.full((1,), float(rank)))
    assert [each.item() for each in out] == [0, 2, 3]
    told = [None] * 3
    dist.all_gather_object(told, rank)
    assert told == [0, 2, 3]
    return trains_alike()


def trains_alike():
    torch.manual_seed(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.ones(3, 4) * dist.get_rank()).sum().backward()
    return [each.grad.tolist() for each in model.parameters()]


@needs_shrink
def test_a_group_shrinks_and_trains_on():
    results = ranks(4, shrinks)
    assert results[0] == results[2] == results[3] and results[0] is not None


def shrinks_after_a_loss(rank, size):
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1))
    dist.shrink_group([0], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    t = torch.ones(1)
    dist.all_reduce(t)
    assert t.item() == 2


@needs_shrink
def test_a_broken_group_shrinks():
    ranks(3, shrinks_after_a_loss, may_die=(0,))


def one_more_is_gone(rank, size):
    dist.barrier()
    if rank in (1, 2):
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1))
        dist.all_reduce(torch.ones(1))
    with pytest.raises(RuntimeError, match=r"ranks \[2\] are lost, too: exclude \[1, 2\]"):
        dist.shrink_group([1])


@needs_shrink
def test_a_rank_that_is_gone_and_was_not_excluded_is_named():
    ranks(4, one_more_is_gone, may_die=(1, 2))


def does_not_shrink(rank, size):
    with pytest.raises(TypeError, match="does not support shrinking"):
        dist.shrink_group([1])
    dist.barrier()


@pytest.mark.skipif(CAN_SHRINK or not hasattr(dist, "shrink_group"), reason="shrink_group works")
def test_where_a_group_cannot_shrink_torch_says_so():
    ranks(2, does_not_shrink)


def limits(rank, size):
    group = dist.group.WORLD
    group._get_backend(CPU).set_timeout(datetime.timedelta(milliseconds=300))
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="timed out"):
            dist.all_reduce(torch.ones(1))
    when_told(rank == 0)


def test_set_timeout_is_for_later_calls():
    ranks(2, limits)
