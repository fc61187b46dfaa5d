# SPDX-License-Identifier: Apache-2.0
"""Every failure raises on every rank, with its kind, a built-in base and the rank at fault."""

import time

import numpy as np
import pytest
from support import ranks

import ccoll

BASES = {
    "invalid_argument": ValueError, "unsupported": NotImplementedError, "timed_out": TimeoutError,
    "peer_lost": ConnectionError, "exhausted": MemoryError, "mismatch": RuntimeError, "aborted": RuntimeError,
    "corrupt": RuntimeError, "internal": RuntimeError,
}  # fmt: skip


def test_a_thing_that_is_no_work_is_named():
    with pytest.raises(TypeError, match=r"works\[0\] is int: expected a Work"):
        ccoll.wait_all([1])


@pytest.mark.parametrize("kind", BASES)
def test_each_kind_has_a_built_in_base(kind):
    from ccoll import _errors

    error = _errors.make(kind, "rank 3 was lost")
    assert isinstance(error, BASES[kind]) and isinstance(error, ccoll.Error) and error.kind == kind
    assert str(error) == "rank 3 was lost"
    with pytest.raises(BASES[kind]):
        raise error


def test_different_calls_raise_mismatch_everywhere():
    def check(comm):
        with pytest.raises(ccoll.Mismatch, match="rank") as raised:
            if comm.rank == 0:
                comm.all_reduce(np.ones(3, np.float32), label="gradients")
            else:
                comm.all_reduce(np.ones(4, np.float32))
            comm.barrier()  # a rank may get the error only from its next call
        assert raised.value.kind == "mismatch" and raised.value.culprit in (0, 1)
        assert comm.error
        with pytest.raises(ccoll.Mismatch):
            comm.all_reduce(np.ones(1))
        fresh = comm.shrink()
        assert fresh.all_reduce(np.ones(1)).tolist() == [2]

    ranks(2, check, close=False)


def test_a_time_limit_names_the_rank_that_is_missing():
    def check(comm):
        if comm.rank == 2:
            time.sleep(1)
            return
        began = time.monotonic()
        with pytest.raises(ccoll.TimeoutError, match="rank 2") as raised:
            comm.all_reduce(np.ones(3), timeout=0.3)
        assert time.monotonic() - began < 5
        assert raised.value.kind == "timed_out" and raised.value.culprit == 2

    ranks(3, check, close=False)


def test_a_wait_with_a_limit_breaks_nothing():
    def check(comm):
        if comm.rank == 1:
            time.sleep(0.5)
        work = comm.all_reduce_async(np.ones(3))
        if comm.rank == 0:
            with pytest.raises(ccoll.TimeoutError, match="goes on"):
                work.wait(0.05)
            with pytest.raises(ccoll.TimeoutError):
                work.wait(0)
            assert work.exception() is None
        assert work.wait().tolist() == [2, 2, 2]

    ranks(2, check)


def test_an_abort_ends_waits_of_other_threads():
    def check(comm):
        if comm.rank == 1:
            time.sleep(0.2)
            comm.abort("enough")
        with pytest.raises(ccoll.Aborted, match="rank 1.*enough") as raised:
            comm.recv(np.ones(3), 1 - comm.rank)
        assert raised.value.culprit == 1

    ranks(2, check, close=False)


def test_a_rank_that_leaves_is_named():
    def check(comm):
        if comm.rank == 1:
            comm.leave("had enough")
            return
        with pytest.raises(ccoll.PeerLost, match="rank 1") as raised:
            comm.barrier()
        assert raised.value.culprit == 1

    ranks(2, check, close=False)


def test_what_a_reduction_raises_ends_the_call_on_all_ranks():
    def fails(a, b):
        raise KeyError("no such thing")

    def check(comm):
        with pytest.raises(ccoll.Aborted, match="KeyError.*no such thing"):
            comm.all_reduce(np.ones(3), op=ccoll.Reduction.custom(fails, "fails"))

    ranks(2, check, close=False)


def test_a_reduction_must_not_use_its_communicator():
    def check(comm):
        def uses(a, b):
            comm.barrier()

        with pytest.raises(ccoll.Aborted, match="InvalidArgument"):
            comm.all_reduce(np.ones(3), op=ccoll.Reduction.custom(uses, "uses"))

    ranks(2, check, close=False)


def test_an_exception_leaves_the_communicator():
    def check(comm):
        if comm.rank == 0:
            with pytest.raises(KeyError), comm:
                raise KeyError
            assert comm.closed
        else:
            with pytest.raises(ccoll.PeerLost):
                comm.barrier()

    ranks(2, check, close=False)


def test_wait_all_waits_for_all_and_raises_the_first():
    def check(comm):
        into = [np.zeros(2, np.int32) for _ in range(2)]
        other = 1 - comm.rank
        works = [comm.recv_async(each, other, tag) for tag, each in enumerate(into)]
        comm.send(np.ones(3, np.int32), other, 0)
        comm.send(np.ones(2, np.int32), other, 1)
        with pytest.raises(ccoll.Mismatch):
            ccoll.wait_all(works, timeout=10)
        assert works[1].done() and into[1].tolist() == [1, 1]

    ranks(2, check, close=False)
