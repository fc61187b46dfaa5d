# SPDX-License-Identifier: Apache-2.0
"""Messages between two ranks."""

import numpy as np
import pytest
from support import ranks

import ccoll


def test_messages_arrive_with_their_sender_and_tag():
    def check(comm):
        other = 1 - comm.rank
        if comm.rank == 0:
            comm.send(np.arange(5), 1, 7)
            comm.send(b"text", 1, 8)
        else:
            out = np.zeros(9, np.int64)
            assert comm.probe(0, 7) == comm.probe(tag=7)
            received = comm.recv(out, ccoll.ANY_RANK, 7)
            assert (received.source, received.tag, received.count, received.bytes) == (0, 7, 5, 40)
            assert out.tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0]
            text = bytearray(4)
            comm.recv(text, 0, ccoll.ANY_TAG)
            assert bytes(text) == b"text"
            assert comm.try_probe(0, 99) is None
        out = np.zeros(3, np.complex64)
        received = comm.send_recv(np.full(3, 1j * comm.rank, np.complex64), other, out, other)
        assert received.count == 3 and out.tolist() == [1j * other] * 3

    ranks(2, check)


def test_a_batch_never_deadlocks():
    def check(comm):
        size, rank = comm.size, comm.rank
        into = [np.zeros(20_000, np.int32) for _ in range(size)]
        own = [np.full(20_000, 10 * rank + to, np.int32) for to in range(size)]
        requests = [ccoll.Send(own[to], to) for to in range(size)]
        requests += [ccoll.Recv(into[source], source) for source in range(size)]
        received = comm.batch(requests)
        assert [each.source for each in received] == list(range(size))
        assert [each[0] for each in into] == [10 * source + rank for source in range(size)]
        with pytest.raises(TypeError, match="neither a ccoll.Send nor a ccoll.Recv"):
            comm.batch([1])

    ranks(3, check)


def test_a_probe_ends_with_its_time_limit_and_breaks_nothing():
    def check(comm):
        with pytest.raises(TimeoutError):
            comm.probe(timeout=0.12)
        comm.barrier()

    ranks(2, check)


def test_a_message_that_is_too_long_is_named():
    def check(comm):
        if comm.rank == 0:
            comm.send(np.arange(5), 1)
        else:
            with pytest.raises(ccoll.Mismatch, match="40"):
                comm.recv(np.zeros(4, np.int64), 0)
            assert comm.recv(np.zeros(5, np.int64), 0).count == 5
        comm.barrier()

    ranks(2, check)
