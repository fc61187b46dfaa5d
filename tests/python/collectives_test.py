# SPDX-License-Identifier: Apache-2.0
"""Every collective against numpy, over random shapes, types and operations."""

import functools
import itertools
import os
import random

import ml_dtypes
import numpy as np
import pytest
from support import ranks

import ccoll

SEED = int(os.environ.get("CCOLL_TEST_SEED", random.randrange(1 << 30)))
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
SMALL = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
MOVED = [*INTEGERS, *FLOATS, *SMALL, np.bool_, np.complex64, np.complex128]
FUNCTIONS = {
    "sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor,
}  # fmt: skip


@pytest.fixture
def rng(request):
    print(f"CCOLL_TEST_SEED={SEED}")
    return np.random.default_rng([SEED, *request.node.name.encode()])


def random_array(rng, shape, dtype):
    """Small whole numbers: a sum is the same in every order."""
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape)).astype(np.bool_)
    if np.dtype(dtype).kind == "c":
        return np.asarray(rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)).astype(dtype)
    low = 0 if np.dtype(dtype).kind == "u" else -2
    return np.asarray(rng.integers(low, 3, shape)).astype(dtype)


def random_shape(rng):
    shapes = [(), (0,), (1,), (7,), (3, 0, 2), (2, 3), (4, 1, 5), (1000,), (17, 301)]
    return shapes[rng.integers(len(shapes))]


def same(given, expected):
    """Whether all elements are equal, and the type and the shape, too."""
    assert given.dtype == expected.dtype and given.shape == expected.shape
    assert (given == expected).all(), (given, expected)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reductions_are_as_numpy_has_them(size, rng):
    cases = []
    for dtype, (op, function) in itertools.product([*INTEGERS, np.float32, np.float64], FUNCTIONS.items()):
        if op.startswith("bit") and np.dtype(dtype).kind == "f":
            continue
        inputs = [random_array(rng, random_shape(rng), dtype)]
        inputs += [random_array(rng, inputs[0].shape, dtype) for _ in range(size - 1)]
        cases.append((op, inputs, np.asarray(functools.reduce(function, inputs), dtype)))

    def check(comm):
        for turn, (op, inputs, expected) in enumerate(cases):
            own = inputs[comm.rank]
            before = own.copy()
            same(comm.all_reduce(own, op=op), expected)
            same(own, before)
            root = turn % size
            at_root = comm.reduce(own, root, op)
            assert (at_root is not None) == (comm.rank == root)
            if at_root is not None:
                same(at_root, expected)
            assert comm.all_reduce(own, own, op=ccoll.ReduceOp[op]) is own
            same(own, expected)

    ranks(size, check)


@pytest.mark.parametrize("dtype", MOVED, ids=lambda each: np.dtype(each).name)
def test_data_are_moved_whatever_their_type(dtype, rng):
    size = 3
    shapes = [random_shape(rng) for _ in range(8)]
    data = [[random_array(rng, shape, dtype) for _ in range(size)] for shape in shapes]
    wide = [[random_array(rng, (size, *shape), dtype) for _ in range(size)] for shape in shapes]

    def check(comm):
        rank = comm.rank
        for turn, (own, parts) in enumerate(zip(data, wide)):
            root = turn % size
            same(comm.all_gather(own[rank]), np.stack(own))
            gathered = comm.gather(own[rank], root)
            assert (gathered is not None) == (rank == root)
            if gathered is not None:
                same(gathered, np.stack(own))
            same(comm.all_to_all(parts[rank]), np.stack([each[rank] for each in parts]))
            into = np.empty_like(own[rank])
            assert comm.scatter(parts[rank] if rank == root else None, into, root) is into
            same(into, parts[root][rank])
            copy = own[rank].copy()
            assert comm.broadcast(copy, root) is copy
            same(copy, own[root])
            into = np.empty_like(own[rank])
            comm.broadcast(own[rank] if rank == root else None, root, into)
            same(into, own[root])

    ranks(size, check)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, *SMALL], ids=lambda each: np.dtype(each).name)
def test_small_floats_are_summed(dtype, rng):
    inputs = [random_array(rng, (33,), dtype) for _ in range(3)]
    expected = sum(each.astype(np.float32) for each in inputs).astype(dtype)

    def check(comm):
        same(comm.all_reduce(inputs[comm.rank]), expected)

    ranks(3, check)


@pytest.mark.parametrize("factor", ["a", [1], 1j, None, 10**40])
def test_a_factor_that_is_no_number_is_named(factor):
    with pytest.raises((TypeError, ValueError), match="factor"):
        ccoll.Reduction.premultiplied_sum(factor)


def test_averages_factors_and_complex_numbers(rng):
    def check(comm):
        size = comm.size
        assert comm.all_reduce(np.full(3, comm.rank, np.float32), op="avg").tolist() == [(size - 1) / 2] * 3
        factor = ccoll.Reduction.premultiplied_sum(comm.rank + 0.5)
        assert comm.all_reduce(np.ones(2), op=factor).tolist() == [sum(r + 0.5 for r in range(size))] * 2
        whole = ccoll.Reduction.premultiplied_sum(3)
        assert comm.all_reduce(np.ones(2, np.int64), op=whole).tolist() == [3 * size] * 2
        assert comm.all_reduce(np.array([1 + 2j])).tolist() == [size * (1 + 2j)]
        with pytest.raises(ValueError, match="op is max.*expected sum or avg"):
            comm.all_reduce(np.array([1 + 2j]), op="max")

    ranks(3, check)


def test_a_function_of_one_array_is_refused():
    with ccoll.create_all(1)[0] as comm, pytest.raises(TypeError, match="'sin'.* takes 1 arrays: expected .* two"):
        comm.all_reduce(np.ones(3), op=np.sin)


def test_a_function_of_python_reduces_in_rank_order(rng):
    lines = rng.integers(1, 9, (4, 6)).astype(np.float64)

    def follow(a, b):
        """b after a, each the first digit and the last: associative, not commutative."""
        b[:] = np.where(a % 10 == b // 10, a // 10 * 10 + b % 10, np.nan)

    chain = [np.full(3, 12.0), np.full(3, 23.0), np.full(3, 34.0), np.full(3, 41.0)]
    ordered = ccoll.Reduction.custom(follow, "follow", commutative=False)
    op = ccoll.Reduction.custom(np.maximum, "maximum")

    def check(comm):
        own = lines[comm.rank]
        assert comm.all_reduce(own, op=op).tolist() == lines.max(0).tolist()
        assert comm.all_reduce(own, op=np.minimum).tolist() == lines.min(0).tolist()
        assert comm.all_reduce_async(own, op=op).wait(20).tolist() == lines.max(0).tolist()
        assert comm.all_reduce(chain[comm.rank], op=ordered).tolist() == [11] * 3

    ranks(4, check)


def test_reduce_scatter_and_parts_of_a_buffer(rng):
    size = 3
    wide = [random_array(rng, (size, 2, 5), np.int32) for _ in range(size)]

    def check(comm):
        expected = sum(wide)[comm.rank]
        same(comm.reduce_scatter(wide[comm.rank]), expected)
        own = wide[comm.rank].copy()
        part = own[comm.rank]
        assert comm.reduce_scatter(own, part) is part
        same(part, expected)
        whole = np.zeros((size, 4), np.int16)
        whole[comm.rank] = comm.rank
        comm.all_gather(whole[comm.rank], whole)
        assert whole.tolist() == [[rank] * 4 for rank in range(size)]

    ranks(size, check)


def test_v_forms_take_lists_or_counts(rng):
    size = 3
    counts = [int(each) for each in rng.integers(0, 6, size)]
    own = [np.arange(count, dtype=np.int64) + 10 * rank for rank, count in enumerate(counts)]
    matrix = rng.integers(0, 4, (size, size))
    sent = [[np.full(matrix[r][t], 10 * r + t, np.float32) for t in range(size)] for r in range(size)]

    def check(comm):
        rank = comm.rank
        same(comm.all_gather_v(own[rank], counts=counts), np.concatenate(own))
        outputs = [np.empty(count, np.int64) for count in counts]
        comm.all_gather_v(own[rank], outputs)
        for given, expected in zip(outputs, own):
            same(given, expected)
        gathered = comm.gather_v(own[rank], root=1, counts=counts)
        if rank == 1:
            same(gathered, np.concatenate(own))
        into = np.empty(counts[rank], np.int64)
        comm.scatter_v(own if rank == 2 else None, into, 2)
        same(into, own[rank])
        comm.scatter_v(np.concatenate(own) if rank == 0 else None, into, 0, counts=counts if rank == 0 else None)
        same(into, own[rank])
        got = comm.all_to_all_v(sent[rank], out_counts=[int(matrix[r][rank]) for r in range(size)])
        same(got, np.concatenate([sent[r][rank] for r in range(size)]))
        flat = comm.all_to_all_v(
            np.concatenate(sent[rank]), counts=matrix[rank].tolist(), out_counts=matrix[:, rank].tolist()
        )
        same(flat, got)
        same(comm.reduce_scatter_v(np.concatenate(own), counts=counts), own[rank] * size)
        same(comm.reduce_scatter_v(own, op="max"), own[rank])

    ranks(size, check)


def test_lists_of_arrays_are_one_call(rng):
    arrays = [random_array(rng, shape, np.float32) for shape in [(3,), (0,), (2, 2)]]

    def check(comm):
        for given, each in zip(comm.all_reduce(arrays), arrays):
            same(given, each * 2)
        own = [each.copy() for each in arrays]
        assert all(one is other for one, other in zip(comm.all_reduce(own, own), own))
        gathered = comm.all_gather([each * comm.rank for each in arrays])
        for given, each in zip(gathered, arrays):
            same(given, np.stack([each * 0, each]))
        copies = [each * comm.rank for each in arrays]
        comm.broadcast(copies, 1)
        for given, each in zip(copies, arrays):
            same(given, each)
        halves = comm.reduce_scatter([np.stack([each, each + 1]) for each in arrays])
        for given, each in zip(halves, arrays):
            same(given, (each + comm.rank) * 2)
        before = comm.counters()["collectives"]
        comm.all_reduce(arrays)
        assert comm.counters()["collectives"] == before + 1

    ranks(2, check)


def test_asynchronous_calls_keep_their_arrays(rng):
    def check(comm):
        works = [comm.all_reduce_async(np.full(50_000, index, np.float32)) for index in range(20)]
        for index, total in enumerate(ccoll.wait_all(works, timeout=20)):
            assert total[0] == index * comm.size and total[-1] == index * comm.size
        for _ in range(20):
            comm.all_reduce_async(np.ones(30_000))  # nothing holds the Work or the arrays
        work = comm.barrier_async()
        assert work.wait() is None and work.done() and work.exception() is None

    ranks(3, check)
