# SPDX-License-Identifier: Apache-2.0
"""Arrays of any strides: transposed, reversed, with steps in several dimensions. Calls copy what no block can be."""

import random
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import ccoll
from support import in_threads, ranks


def be_told(work):
    told = threading.Event()
    work.on_done(lambda error: told.set())
    assert told.wait(60)


@pytest.fixture
def alone():
    with ccoll.create_all(1)[0] as comm:
        yield comm


def view(matrix, chance):
    """A view of an array of three dimensions: axes in any order, any steps, either direction."""
    cuts = tuple(slice(None, None, chance.choice([-3, -2, -1, 1, 2, 3])) for _ in range(3))
    return matrix[cuts].transpose(chance.sample(range(3), 3))


def whole(chance, dtype=np.int32):
    return np.arange(5 * 6 * 8).reshape(5, 6, 8).astype(dtype)


CALLS = {
    "all_reduce": lambda comm, x, out: comm.all_reduce(x, out),
    "all_reduce in place": lambda comm, x, out: comm.all_reduce(out, out),
    "all_reduce of a list": lambda comm, x, out: comm.all_reduce([x, x], [out, np.empty_like(x)]),
    "reduce": lambda comm, x, out: comm.reduce(x, 1, "sum", out if comm.rank == 1 else None),
    "broadcast": lambda comm, x, out: comm.broadcast(x, 1, out),
    "broadcast in place": lambda comm, x, out: comm.broadcast(out, 1),
    "async": lambda comm, x, out: comm.all_reduce_async(x, out).wait(),
    "messages": lambda comm, x, out: comm.send_recv(x, (comm.rank + 1) % 3, out, (comm.rank + 2) % 3),
    "batch": lambda comm, x, out: comm.batch([ccoll.Send(x, comm.rank ^ 1), ccoll.Recv(out, comm.rank ^ 1)])
    if comm.rank < 2
    else None,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_views_does_what_it_does_on_copies(name):
    call = CALLS[name]

    def rank(comm):
        chance, same = random.Random(f"{name} {comm.rank}"), random.Random(name)
        for _ in range(30):
            dtype = same.choice([np.int32, np.int8, np.complex64, ml_dtypes.bfloat16])
            shape = view(whole(same), random.Random(state := same.random())).shape
            views = [view(whole(chance, dtype) + k, random.Random(state)) for k in (comm.rank, 0)]
            x, out = views
            assert x.shape == shape
            copies = [np.ascontiguousarray(each) for each in views]
            memory, before = out.base.copy(), out.copy()
            call(comm, *copies)
            call(comm, *views)
            assert np.array_equal(out, copies[1]), (name, out.strides)
            out[...] = before
            assert np.array_equal(out.base, memory), "what is between the elements is as it was"

    ranks(3, rank)


def test_blocks_of_ranks():
    def rank(comm):
        x = np.arange(12).reshape(3, 4) + 100 * comm.rank
        gathered = np.zeros((3, 4, 3), np.int64)[:, :, ::-1]
        comm.all_gather(x.T, gathered)
        assert gathered.tolist() == [((x % 100) + 100 * r).T.tolist() for r in range(3)]
        by_columns = np.zeros((4, 9), np.int64)
        comm.gather_v(x.T, [by_columns[::-1, 3 * r : 3 * r + 3] for r in range(3)], root=0)
        if comm.rank == 0:
            assert by_columns[::-1].tolist() == np.hstack([(x + 100 * r).T for r in range(3)]).tolist()
        flat = np.zeros((2, 6), np.int64).T
        comm.all_gather_v(x[::2, ::-2], flat, counts=[4] * 3)
        assert flat.ravel().tolist() == [v + 100 * r for r in range(3) for v in (3, 1, 11, 9)]
        parts = np.arange(12).reshape(4, 3).T
        part = np.zeros(4, np.int64)[::-1]
        comm.reduce_scatter(parts, part)
        assert part.tolist() == (3 * parts[comm.rank]).tolist()

    ranks(3, rank)


def test_a_short_message_leaves_the_rest(alone):
    out = np.full((2, 3), 9)
    alone.send_async(np.arange(4), 0)
    got = alone.recv(out.T, 0)
    assert got.count == 4 and out.T.ravel().tolist() == [0, 1, 2, 3, 9, 9]


def test_the_result_is_there_however_its_end_is_learnt(alone):
    x = np.arange(6).reshape(2, 3)

    def poll(work):
        while not work.done():
            pass

    for learn in (lambda work: work.wait(), poll, lambda work: work.exception(), be_told):
        out = np.zeros((2, 3), np.int64)
        learn(alone.all_reduce_async(x.T, out.T))
        assert out.tolist() == x.tolist()

    out = np.zeros((2, 3), np.int64)
    alone.all_reduce_async(x.T, out.T)  # nobody has its Work
    end = time.monotonic() + 60
    while out.tolist() != x.tolist():
        assert time.monotonic() < end
        time.sleep(0.001)
    out = np.zeros((2, 3), np.int64)
    with ccoll.CallGroup():
        alone.all_reduce(x.T, out.T)
        alone.broadcast(out[::-1, ::-1].T)
    assert out.tolist() == x.tolist()


def test_two_threads_may_wait_for_one_work(alone):
    x = np.arange(60000).reshape(200, 300)
    for _ in range(20):
        out = np.zeros_like(x)
        work = alone.all_reduce_async(x.T, out.T)

        def wait(_number, work=work, out=out):
            work.wait()
            assert np.array_equal(out, x)

        _, errors = in_threads(3, wait)
        assert errors == [None] * 3


def test_a_failed_call_leaves_its_output_alone(alone):
    out = np.full((3, 2), 7)
    alone.send_async(np.arange(8), 0, 1)
    with pytest.raises(ccoll.Mismatch):
        alone.recv(out.T, 0, 1)
    assert (out == 7).all()
    work = alone.recv_async(out.T, 0, 1)
    with pytest.raises(ccoll.Mismatch):
        work.wait()
    out[...] = 1  # it is the caller's again
    assert work.done() and isinstance(work.exception(), ccoll.Mismatch)
    assert (out == 1).all()


def test_elements_that_share_memory_are_read_only(alone):
    wide = np.broadcast_to(np.float32([[1], [2]]), (2, 3))
    assert alone.all_reduce(wide).tolist() == [[1, 1, 1], [2, 2, 2]]
    windows = np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8))
    for call in (lambda: alone.all_reduce(np.zeros((3, 3)), windows), lambda: alone.all_reduce(windows, windows)):
        references = sys.getrefcount(windows)
        for _ in range(20):
            with pytest.raises(ValueError, match=r"out is .*strides \(8, 8\): expected elements that do not share"):
                call()
        assert sys.getrefcount(windows) < references + 5, "a refused array is let go"
    frozen = np.zeros((2, 3)).T
    frozen.flags.writeable = False
    assert alone.all_reduce(frozen).shape == (3, 2)
    with pytest.raises(ValueError, match="out is .*may be written, this is read-only"):
        alone.all_reduce(frozen, frozen)


def test_nothing_is_kept(alone):
    x, out = np.ones((3, 2)).T, np.ones((3, 2)).T
    before = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(50):
        alone.all_reduce(x, out)
        alone.all_reduce_async(x, out).wait()
    assert (sys.getrefcount(x), sys.getrefcount(out)) == before


def test_torch(alone):
    torch = pytest.importorskip("torch", reason="there is no torch (pip install torch)")
    x = torch.arange(120).reshape(2, 3, 4, 5)
    for dtype in (torch.int64, torch.bfloat16, torch.complex64):
        each = x.to(dtype)
        for given in (each.permute(0, 2, 3, 1), each[:, ::2, :, ::2], each[:, :, 1].expand(2, 3, 5)[:, :1].expand(2, 3, 5)):
            assert torch.equal(alone.all_reduce(given), given.contiguous())
        out = torch.zeros(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last)
        alone.all_reduce(each, out)
        assert torch.equal(out, each) and not out.is_contiguous()
    with pytest.raises(ValueError, match="do not share memory"):
        alone.all_reduce(torch.ones(2, 2), torch.zeros(2, 1).expand(2, 2))
    weights = torch.ones(2, 3, requires_grad=True)
    alone.all_reduce(torch.full((3, 2), 5.0), weights.t())
    assert weights.tolist() == [[5.0] * 3] * 2
    number = torch.tensor([1 + 2j, 3 - 1j])
    assert torch.equal(alone.all_reduce(number.conj()), number.conj().resolve_conj())
    assert torch.equal(alone.all_reduce(number.conj().imag), torch.tensor([-2.0, 1.0]))
    into = torch.zeros(2, dtype=torch.complex64)
    alone.all_reduce(number, into.conj())
    assert torch.equal(into, number.conj().resolve_conj())
    with torch.inference_mode():
        inferred = torch.zeros(2, 3)
    for learn in (lambda work: work.wait(), be_told):
        learn(alone.all_reduce_async(torch.ones(3, 2), inferred.t()))
        assert inferred.tolist() == [[1] * 3] * 2
