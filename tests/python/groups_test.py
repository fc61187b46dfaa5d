# SPDX-License-Identifier: Apache-2.0
"""Communicators made from others, and how they end."""

import gc
import json
import weakref

import numpy as np
import pytest
from support import ranks

import ccoll


def total(comm):
    return comm.all_reduce(np.array([comm.rank])).tolist()[0]


def test_split_duplicate_and_subgroup():
    def check(comm):
        rank = comm.rank
        odd = comm.split(rank % 2, key=-rank, name="halves")
        assert odd.size == 2 and odd.rank == (1 if rank < 2 else 0) and "halves" in odd.name
        assert odd.rank_in(comm, 0) == (3 if rank % 2 else 2) and odd.job_rank(1) == rank % 2
        assert total(odd) == 1
        with pytest.raises(ccoll.InvalidArgument, match="-5: expected 0 or more, or None"):
            comm.split(-5)
        none = comm.split(None if rank == 0 else 1)
        assert (none is None) == (rank == 0)
        if none is not None:
            assert none.size == 3 and none.rank_in(comm, 0) == 1 and comm.rank_in(none, 0) is None
        with comm.duplicate(timeout=5) as same:
            assert total(same) == 6
        assert same.closed
        if rank in (3, 1):
            assert comm.subgroup([3, 1]).rank == (0 if rank == 3 else 1)
        else:
            with pytest.raises(ValueError, match=r"\b3\b"):
                comm.subgroup([3, 1])

    ranks(4, check)


def test_shrink_leaves_out_who_is_excluded():
    def check(comm):
        if comm.rank == 1:
            return None
        smaller = comm.shrink([1])
        assert smaller.size == 2 and total(smaller) == 1
        return smaller

    ranks(3, check, close=False)


def test_a_mesh_has_a_communicator_along_each_axis():
    def check(comm):
        mesh = ccoll.Mesh(comm, {"data": 2, "model": 3})
        row, column = divmod(comm.rank, 3)
        assert mesh.coordinates == (row, column) and mesh.size("model") == 3
        assert mesh.coordinates_of(4) == (1, 1) and mesh.rank_at([1, 2]) == 5
        along = mesh.axis("model")
        assert along.rank == column and along.all_reduce(np.array([comm.rank])).tolist() == [9 * row + 3]
        del mesh
        assert along.size == 3 and total(along) == 3
        with pytest.raises(ValueError, match="6"):
            ccoll.Mesh(comm, [("data", 4)])
        with pytest.raises(TypeError, match="axes is neither"):
            ccoll.Mesh(comm, 3)

    ranks(6, check)


def test_closed_communicators_say_so():
    comm = ccoll.create_all(1)[0]
    work = comm.all_reduce_async(np.ones(3))
    work.wait()
    comm.close()
    comm.close()
    assert comm.closed and "closed" not in repr(work)
    for call in (lambda: comm.rank, comm.barrier, lambda: comm.all_reduce(np.ones(3)), comm.duplicate):
        with pytest.raises(ccoll.Aborted, match="closed"):
            call()


def test_questions():
    def check(comm):
        comm.all_reduce(np.ones(100, np.float32))
        assert comm.size == 2 and comm.name and comm.error == ""
        assert comm.transport_to(1 - comm.rank) == "inproc"
        chosen = comm.algorithm_for("all_reduce", 100, "float32")
        assert chosen in comm.explain("all_reduce", 100)
        assert json.loads(comm.dump())
        comm.barrier()
        counted = comm.counters()
        assert counted["collectives"] >= 2 and counted["peers"][0]["bytes_sent"] > 0

    ranks(2, check)


def test_stores_and_ids_bring_ranks_together():
    store = ccoll.inproc_store()
    store.set("key", b"\0value")
    assert store.get("key") == b"\0value" and store.add("n", 3) == 3 and store.check(["key"]) is True
    assert store.remove("key") is True and store.remove("key") is False
    with pytest.raises(TimeoutError):
        store.get("key", timeout=0.1)
    with ccoll.create(store=ccoll.prefix_store(store, "job/"), rank=0, size=1) as comm:
        assert comm.size == 1
    server = ccoll.serve_store()
    assert ccoll.tcp_store(server.address).add("x", 2) == 2
    given = ccoll.UniqueId.create()
    again = ccoll.UniqueId(bytes(given))
    assert len(bytes(given)) == 128 and again == given
    with ccoll.create(bytes(given), rank=0, size=1) as comm:
        assert total(comm) == 0


def test_start_up_names_who_is_missing():
    with pytest.raises(ccoll.TimeoutError, match="1") as raised:
        ccoll.create(store=ccoll.inproc_store(), rank=0, size=2, start_timeout=0.3)
    assert raised.value.kind == "timed_out" and isinstance(raised.value, TimeoutError)


def test_what_nobody_needs_goes():
    def check(comm):
        part = comm.duplicate()
        gone = weakref.ref(part)
        x = np.ones(10)
        held = weakref.ref(x)
        part.all_reduce_async(x).wait()
        del x, part
        gc.collect()
        assert gone() is None and held() is None

    ranks(2, check)
