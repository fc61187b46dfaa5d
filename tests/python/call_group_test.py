# SPDX-License-Identifier: Apache-2.0
"""Calls that are begun in order and waited for together."""

import gc
import threading

import numpy as np
import pytest

import ccoll


@pytest.fixture
def pair():
    comms = ccoll.create_all(2, timeout=20)
    yield comms
    for each in comms:
        if not each.closed:
            each.abort()


def test_one_thread_drives_two_ranks(pair):
    x = [np.full(3, float(rank + 1)) for rank in range(2)]
    with ccoll.CallGroup():
        made = [comm.all_reduce(each) for comm, each in zip(pair, x)]
        assert all(isinstance(each, np.ndarray) for each in made)
    assert [each.tolist() for each in made] == [[3.0] * 3] * 2
    # By now the call is a repeated one.
    for _ in range(3):
        with ccoll.CallGroup():
            for comm, each in zip(pair, x):
                comm.broadcast(each, 1)
        assert x[0].tolist() == [2.0] * 3


def test_messages_in_any_order_and_groups_within_groups(pair):
    got = [np.zeros(40000), np.zeros(2)]
    with ccoll.CallGroup():
        assert pair[1].recv(got[0], 0, 5) is None
        with ccoll.CallGroup():
            pair[0].recv(got[1], 1)
            pair[1].send(np.ones(2), 0)
        pair[0].send(np.ones(40000), 1, 5)
    assert got[0].sum() == 40000 and got[1].tolist() == [1, 1]


def test_the_end_raises_the_first_error_when_all_are_over(pair):
    small, fits = np.zeros(1), np.zeros(2)
    with pytest.raises(ccoll.Mismatch) as raised, ccoll.CallGroup():
        pair[1].recv(small, 0, 1)
        pair[1].recv(fits, 0, 2)
        pair[0].send(np.ones(2), 1, 1)
        pair[0].send(np.ones(2), 1, 2)
    assert raised.value.culprit == 0
    assert fits.tolist() == [1, 1]


def test_an_exception_ends_the_group_without_waiting(pair):
    out = np.zeros(1)
    with pytest.raises(KeyError), ccoll.CallGroup():
        pair[1].recv(out, 0)
        raise KeyError
    # The receive goes on, and later calls wait as usual.
    pair[0].send(np.full(1, 7.0), 1)
    assert pair[1].recv_async(np.zeros(1), 0).done() is False
    assert out.tolist() == [7]


def test_groups_that_end_in_another_order_are_refused_and_left(pair):
    outer, inner = ccoll.CallGroup(), ccoll.CallGroup()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(ccoll.InvalidArgument, match="innermost first"):
        outer.__exit__(None, None, None)
    del outer
    gc.collect()
    got = np.zeros(1)
    pair[1].recv(got, 0)
    pair[0].send(np.ones(1), 1)
    inner.__exit__(None, None, None)
    assert got.tolist() == [1]
    pair[1].send(np.ones(1), 0)
    assert pair[0].probe().source == 1  # no group is open any more
    with pytest.raises(ccoll.InvalidArgument, match="innermost first"):
        inner.__exit__(None, None, None)


def test_a_group_without_an_end_lives_on(pair):
    got = np.zeros(1)

    def begin():
        ccoll.CallGroup().__enter__()
        gc.collect()
        pair[0].send(np.full(1, 5.0), 1)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    pair[1].recv(got, 0)
    assert got.tolist() == [5]


def test_what_cannot_wait_is_refused(pair):
    with ccoll.CallGroup():
        for call in (
            lambda: pair[0].duplicate(),
            lambda: pair[0].probe(),
            lambda: pair[0].broadcast_object(1),
            lambda: pair[0].recv_object(1),
        ):
            with pytest.raises(ccoll.InvalidArgument, match="in a CallGroup only begin"):
                call()
    group = ccoll.CallGroup()
    with group, pytest.raises(ccoll.InvalidArgument, match="open already"):
        group.__enter__()
