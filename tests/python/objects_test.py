# SPDX-License-Identifier: Apache-2.0
"""Objects of Python, with large buffers out of band."""

import json
import pickle

import numpy as np
import pytest
from support import ranks


def value_of(rank):
    return {"rank": rank, "large": np.full(20_000, rank), "small": np.arange(rank), "text": "x" * 10 * rank}


def equal(one, other):
    assert one.keys() == other.keys()
    for key in one:
        assert np.array_equal(one[key], other[key]), key


def test_collectives_of_objects():
    def check(comm):
        rank, size = comm.rank, comm.size
        for root in range(size):
            equal(comm.broadcast_object(value_of(root) if rank == root else None, root), value_of(root))
            gathered = comm.gather_object(value_of(rank), root)
            assert (gathered is not None) == (rank == root)
            for source, each in enumerate(gathered or []):
                equal(each, value_of(source))
            values = [value_of(10 * root + each) for each in range(size)] if rank == root else None
            equal(comm.scatter_object(values, root), value_of(10 * root + rank))
        for source, each in enumerate(comm.all_gather_object(value_of(rank))):
            equal(each, value_of(source))
        assert comm.all_gather_object(None) == [None] * size
        # Ranks have different numbers of buffers, of any lengths.
        lists = comm.all_gather_object([np.full(10_000 * each, rank) for each in range(rank + 1)])
        assert [[len(each) for each in some] for some in lists] == [
            [10_000 * each for each in range(source + 1)] for source in range(size)
        ]

    ranks(3, check)


def test_messages_of_objects_and_codecs():
    def check(comm):
        other = 1 - comm.rank
        if comm.rank == 0:
            comm.send_object(value_of(3), other, 5)
            comm.send_object([1, 2], other, codec=json)
        else:
            equal(comm.recv_object(tag=5), value_of(3))
            assert comm.recv_object(0, codec=json) == [1, 2]
        assert comm.broadcast_object({"a": comm.rank}, 1, codec=json) == {"a": 1}
        assert comm.all_gather_object(comm.rank, codec=json) == [0, 1]

    ranks(2, check)


def test_large_buffers_are_not_pickled():
    def check(comm):
        value = np.ones(1_000_000)
        sent = []
        real = pickle.dumps

        def dumps(*arguments, **options):
            sent.append(real(*arguments, **options))
            return sent[-1]

        if comm.rank == 0:
            pickle.dumps = dumps
            try:
                comm.broadcast_object(value)
            finally:
                pickle.dumps = real
            assert len(sent) == 1 and len(sent[0]) < 1000
        else:
            got = comm.broadcast_object()
            assert got.sum() == 1_000_000 and got.flags.writeable

    ranks(2, check)


def test_what_cannot_be_sent_is_refused_before():
    def check(comm):
        with pytest.raises(ValueError, match="2 objects: expected 1"):
            comm.scatter_object([1, 2])
        with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
            comm.broadcast_object(lambda: 0)
        comm.barrier()

    ranks(1, check)
