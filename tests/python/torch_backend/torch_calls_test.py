# SPDX-License-Identifier: Apache-2.0
"""Every call of torch.distributed over ccoll: values by type, count and form."""

import itertools

import pytest
from torch_support import VERSION, dist, implementation, ranks, sequence, torch

FLOATS = [torch.float16, torch.float32, torch.float64, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
TYPES = [*FLOATS, *INTEGERS, torch.bool]
# Types that are moved but not reduced.
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
Op = dist.ReduceOp


def filled(count, value, dtype):
    return torch.full((count,), value, dtype=torch.float32).to(dtype)


def over(call, is_async, *arguments, **named):
    """Makes the call and waits for it; without async_op torch returns None."""
    work = call(*arguments, async_op=is_async, **named)
    if is_async:
        assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    else:
        assert work is None


def same(got, expected):
    as_bytes = [each.contiguous().view(torch.uint8) if each.dtype in FLOAT8 else each for each in (got, expected)]
    assert torch.equal(*as_bytes), f"{got} instead of {expected}"


FORMS = list(itertools.product((0, 4), (False, True)))


def movers(rank, size):
    for dtype, (count, is_async) in itertools.product([*TYPES, *COMPLEX, *FLOAT8], FORMS):
        mine = filled(count, rank + 1, dtype)
        blocks = [filled(count, r + 1, dtype) for r in range(size)]
        t = mine.clone()
        over(dist.broadcast, is_async, t, src=1)
        same(t, blocks[1])
        outs = [torch.zeros_like(mine) for _ in range(size)]
        over(dist.all_gather, is_async, outs, mine)
        for got, expected in zip(outs, blocks):
            same(got, expected)
        out = torch.zeros(size * count).to(dtype)
        over(dist.all_gather_into_tensor, is_async, out, mine)
        same(out, torch.cat(blocks))
        outs = [torch.zeros_like(mine) for _ in range(size)]
        over(dist.gather, is_async, mine, outs if rank == 1 else None, dst=1)
        for got, expected in zip(outs, blocks if rank == 1 else outs):
            same(got, expected)
        t = torch.zeros_like(mine)
        over(dist.scatter, is_async, t, blocks if rank == 0 else None, src=0)
        same(t, mine)
        parts = [filled(count, 10 * rank + r, dtype) for r in range(size)]
        expected = [filled(count, 10 * r + rank, dtype) for r in range(size)]
        outs = [torch.zeros_like(mine) for _ in range(size)]
        over(dist.all_to_all, is_async, outs, parts)
        for each in zip(outs, expected):
            same(*each)
        out = torch.zeros(size * count).to(dtype)
        over(dist.all_to_all_single, is_async, out, torch.cat(parts))
        same(out, torch.cat(expected))
        if hasattr(dist, "gather_single"):
            for shape in ((size * count,), (size, count)):
                out = torch.zeros(shape).to(dtype)
                over(dist.gather_single, is_async, mine, out if rank == 0 else None, dst=0)
                if rank == 0:
                    same(out, torch.cat(blocks).reshape(shape))


@pytest.mark.parametrize("size", [2, 3])
def test_calls_that_move(size):
    ranks(size, movers)


def expected_of(op, values, dtype):
    """The result by torch's own arithmetic."""
    if dtype == torch.bool:
        stacked = torch.stack(values)
        if op in (Op.SUM, Op.MAX, Op.BOR):
            return stacked.any(0)
        return stacked.sum(0) % 2 == 1 if op == Op.BXOR else stacked.all(0)
    result = values[0].clone()
    for each in values[1:]:
        if op in (Op.SUM, Op.AVG):
            result = result + each
        elif op == Op.PRODUCT:
            result = result * each
        elif op == Op.MIN:
            result = torch.minimum(result, each)
        elif op == Op.MAX:
            result = torch.maximum(result, each)
        else:
            result = {Op.BAND: torch.bitwise_and, Op.BOR: torch.bitwise_or, Op.BXOR: torch.bitwise_xor}[op](
                result, each
            )
    return result / len(values) if op == Op.AVG else result


def reductions(rank, size):
    plain = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX]
    bits = [Op.BAND, Op.BOR, Op.BXOR]
    cases = [(dtype, op) for dtype in FLOATS for op in [*plain, Op.AVG]]
    cases += [(dtype, op) for dtype in [*INTEGERS, torch.bool] for op in plain + bits]
    cases += [(dtype, op) for dtype in COMPLEX for op in (Op.SUM, Op.AVG)]
    for (dtype, op), (count, is_async) in itertools.product(cases, FORMS):
        values = [filled(count, r + 1, dtype) for r in range(size)]
        expected, mine = expected_of(op, values, dtype), values[rank]
        t = mine.clone()
        over(dist.all_reduce, is_async, t, op=op)
        same(t, expected)
        t = mine.clone()
        over(dist.reduce, is_async, t, dst=1, op=op)
        same(t, expected if rank == 1 else mine)
        out = torch.zeros_like(mine)
        over(dist.reduce_scatter, is_async, out, [mine] * size, op=op)
        same(out, expected)
        out = torch.zeros_like(mine)
        over(dist.reduce_scatter_tensor, is_async, out, mine.repeat(size), op=op)
        same(out, expected)
    t = torch.full((3,), 2.0)
    dist.all_reduce(t, op=dist._make_nccl_premul_sum(0.5))
    same(t, torch.full((3,), float(size)))


@pytest.mark.parametrize("size", [2, 3])
def test_calls_that_reduce(size):
    ranks(size, reductions)


def uneven(rank, size):
    outs = [torch.zeros(r + 1) for r in range(size)]
    dist.all_gather(outs, torch.full((rank + 1,), float(rank)))
    assert [each.tolist() for each in outs] == [[float(r)] * (r + 1) for r in range(size)]
    out = torch.zeros(sum(r + 1 for r in range(size)), 2)
    rows = [rank + 1] * size
    dist.all_to_all_single(out, torch.full((size * (rank + 1), 2), rank + 1.0), [r + 1 for r in range(size)], rows)
    assert out[:, 0].tolist() == [r + 1.0 for r in range(size) for _ in range(r + 1)]
    outs = [torch.zeros(r) for r in range(size)]
    dist.all_to_all(outs, [torch.full((rank,), float(rank)) for _ in range(size)])
    assert [each.tolist() for each in outs] == [[float(r)] * r for r in range(size)]


def test_blocks_of_different_sizes():
    ranks(3, uneven)


def splits_on_one_rank(rank, size):
    """Rank 0 keeps more rows than it sends; the others' rows are even, and they give no splits."""
    own = 5 if rank == 0 else 2
    splits = [own if peer == rank else 2 for peer in range(size)]
    rows = torch.cat([torch.full((count, 3), 10.0 * rank + peer) for peer, count in enumerate(splits)])
    out = torch.zeros(sum(splits), 3)
    for is_async in (False, True):
        out.zero_()
        over(dist.all_to_all_single, is_async, out, rows, *([splits, splits] if rank == 0 else [None, None]))
        expected = [torch.full((count, 3), 10.0 * peer + rank) for peer, count in enumerate(splits)]
        same(out, torch.cat(expected))


def test_splits_on_one_rank_only():
    ranks(3, splits_on_one_rank)


def layouts(rank, size):
    base = torch.arange(6.0).reshape(2, 3)
    for make in (lambda t: t.clone(), lambda t: t.t().contiguous().t(), lambda t: torch.zeros(2, 6)[:, ::2].copy_(t)):
        t = make(base + rank)
        dist.all_reduce(t)
        same(t, size * base + sum(range(size)))
        out = [make(torch.zeros(2, 3)) for _ in range(size)]
        dist.all_gather(out, make(base + rank))
        for r, each in enumerate(out):
            same(each, base + r)
        w = dist.broadcast(t := make(base + rank), 1, async_op=True)
        w.get_future().wait()
        same(t, base + 1)
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar)
    assert scalar.item() == 2 * size


def test_tensors_that_are_not_contiguous_and_scalars():
    ranks(2, layouts)


def columns(rank, size):
    """Two columns of a matrix, of which no copy is made."""

    def matrix():
        return torch.arange(5 * 6, dtype=torch.float64).reshape(5, 6)

    def check(whole, expected):
        same(whole[:, 2:4], expected)
        whole[:, 2:4] = matrix()[:, 2:4]
        same(whole, matrix())  # nothing else is written

    mine = matrix()[:, 2:4] + rank
    for is_async in (False, True):
        whole = matrix()
        whole[:, 2:4] += rank
        over(dist.all_reduce, is_async, whole[:, 2:4])
        check(whole, size * matrix()[:, 2:4] + sum(range(size)))
        whole[:, 2:4] += rank
        over(dist.broadcast, is_async, whole[:, 2:4], 1)
        check(whole, matrix()[:, 2:4] + 1)
        whole[:, 2:4] += rank
        over(dist.reduce, is_async, whole[:, 2:4], 0)
        check(whole, (size * matrix()[:, 2:4] + sum(range(size))) if rank == 0 else mine)
        wide = torch.full((5 * size, 4), 99.0, dtype=torch.float64)
        whole[:, 2:4] += rank
        over(dist.all_gather_into_tensor, is_async, wide[:, 1:3], whole[:, 2:4])
        same(wide[:, 1:3], torch.cat([matrix()[:, 2:4] + r for r in range(size)]))
        assert wide[:, 0].eq(99).all() and wide[:, 3].eq(99).all()
        check(whole, mine)
        over(dist.reduce_scatter_tensor, is_async, whole[:, 2:4], wide[:, 1:3])
        check(whole, size * (matrix()[:, 2:4] + rank))
        blocks = [matrix() for _ in range(size)]
        whole[:, 2:4] += rank
        over(dist.all_gather, is_async, [each[:, 2:4] for each in blocks], whole[:, 2:4])
        for r, each in enumerate(blocks):
            check(each, matrix()[:, 2:4] + r)
        if rank == 0:
            dist.send(whole[:, 2:4], 1)
        elif rank == 1:
            got = matrix()
            dist.recv(got[:, 2:4], 0)
            check(got, matrix()[:, 2:4])


def test_columns_of_a_matrix():
    ranks(2, columns)
    ranks(3, columns)


def inference(rank, size):
    with torch.inference_mode():
        t = torch.zeros(2, 6)[:, ::2].add_(rank + 1)
        t = torch.zeros(2, 6)[:, ::2].copy_(t)
        dist.all_reduce(t)
        assert t.tolist() == [[sum(range(1, size + 1))] * 3] * 2
        t.copy_(torch.full((2, 3), float(rank)))
        dist.broadcast(t, 1, async_op=True).get_future().wait()
        assert t.tolist() == [[1.0] * 3] * 2
    # A program may also wait outside of the mode.
    work = dist.all_reduce(t, async_op=True)
    assert work.wait() and t.tolist() == [[float(size)] * 3] * 2


def test_tensors_of_inference_mode_that_are_not_contiguous():
    ranks(2, inference)


def messages(rank, size):
    t = torch.zeros(2)
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=7)
        w = dist.isend(torch.full((2,), 3.0), 1)
        assert w.wait()
    elif rank == 1:
        assert dist.recv(t, tag=7) == 0 and t.tolist() == [1, 1]
        dist.irecv(t, 0).wait()
        assert t.tolist() == [3, 3]
    for reverse in (False, True):
        out, back = torch.full((2,), float(rank)), torch.zeros(2)
        both = [
            dist.P2POp(dist.isend, out, (rank + 1) % size), dist.P2POp(dist.irecv, back, (rank - 1) % size)
        ]  # fmt: skip
        for w in dist.batch_isend_irecv(both[::-1] if reverse else both):
            w.wait()
        assert back.tolist() == [float((rank - 1) % size)] * 2
    assert sequence() == 0


def test_messages():
    ranks(2, messages)
    ranks(3, messages)


def coalesced(rank, size):
    tensors = [torch.full((n,), float(rank + 1)) for n in (1, 5)] + [torch.full((3,), rank + 1)]
    with dist._coalescing_manager() as manager:
        for t in tensors:
            dist.all_reduce(t)
    total = sum(range(1, size + 1))
    assert all((t == total).all() for t in tensors)
    with dist._coalescing_manager(async_ops=True) as manager:
        outs = [torch.zeros(2 * size) for _ in range(2)]
        for out in outs:
            dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    manager.wait()
    for out in outs:
        assert out.tolist() == [float(r) for r in range(size) for _ in range(2)]


def test_coalesced_calls():
    ranks(2, coalesced)


def works(rank, size):
    t = torch.ones(4)
    w = dist.all_reduce(t, async_op=True)
    future = w.get_future()
    assert [each.tolist() for each in future.wait()] == [[size] * 4]
    assert future.then(lambda each: each.value()[0].sum()).wait().item() == 4 * size
    assert w.get_future_result().wait() == 0
    # Completes by polling alone.
    w = dist.all_reduce(t, async_op=True)
    while not w.is_completed():
        pass
    assert w.result()[0] is t
    # A callback may begin a call and wait for it.
    def nested(future):
        second = torch.ones(2)
        dist.all_reduce(second, async_op=True).get_future().wait()
        return second

    first = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(nested)
    assert first.wait().tolist() == [size, size]
    # Works are dropped with their tensors.
    for _ in range(100):
        dist.all_reduce(torch.ones(1000), async_op=True)
    before = sequence()
    dist.barrier()
    assert sequence() == before + 1


def test_works():
    ranks(2, works)


def groups(rank, size):
    for members in ([0, 1], [2, 1, 0], [1]):
        group = dist.new_group(members)
        if rank in members:
            t = torch.ones(1)
            dist.all_reduce(t, group=group)
            assert t.item() == len(members)
    mesh = dist.device_mesh.init_device_mesh("cpu", (1, size), mesh_dim_names=("a", "b"))
    t = torch.ones(1)
    dist.all_reduce(t, group=mesh.get_group("b"))
    assert t.item() == size
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": r} for r in range(size)]
    listed = ["foo", 12, {1: 2}] if rank == 0 else [None] * 3
    dist.broadcast_object_list(listed)
    assert listed == ["foo", 12, {1: 2}]


def test_groups_and_objects():
    ranks(3, groups)


def groups_on_a_device(rank, size):
    for members in ([0], [2, 1], [0, 1, 2]):
        group = dist.new_group(members)  # torch has the other ranks split the job's group, too
        if rank in members:
            t = torch.ones(1)
            dist.all_reduce(t, group=group)
            dist.barrier(group)
            assert t.item() == len(members)


@pytest.mark.skipif(VERSION < (2, 15), reason="torch takes a device_id of the CPU from 2.15 on")
@pytest.mark.parametrize("detail", ["OFF", "DETAIL"])
def test_groups_of_a_job_with_a_device(detail, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", detail)
    ranks(3, groups_on_a_device, device_id=torch.device("cpu", 0))


def outside_a_group(rank, size):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_splitting and backend.perform_nocolor_split(torch.device("cuda", 0)) is None


def test_a_rank_outside_a_new_group_has_nothing_to_split():
    ranks(1, outside_a_group)


def splits(rank, size):
    group = dist.split_group(split_ranks=[[0, 2]])
    if rank == 1:
        assert group is dist.GroupMember.NON_GROUP_MEMBER
        return
    t = torch.ones(1)
    dist.all_reduce(t, group=group)
    assert t.item() == 2 and dist.get_group_rank(group, rank) == rank // 2
    if implementation() == "c++" or rank == 0:
        assert (dist.split_group(group, [[0]]) is dist.GroupMember.NON_GROUP_MEMBER) == (rank != 0)
    else:
        with pytest.raises(NotImplementedError, match="use new_group"):
            dist.split_group(group, [[0]])


@pytest.mark.skipif(VERSION < (2, 15), reason="torch splits groups without a device_id from 2.15 on")
def test_a_group_is_split_with_a_rank_left_out():
    ranks(3, splits)


def test_other_backends_lack_what_they_lacked():
    gloo = dist.ProcessGroupGloo
    assert not hasattr(gloo(dist.HashStore(), 0, 1), "perform_nocolor_split")


def small_complex(rank, size):
    mine = torch.full((2 * size,), rank + 1j).to(torch.complex32)
    out = torch.zeros_like(mine)
    dist.all_to_all_single(out, mine)
    assert out.to(torch.complex64).tolist() == [r + 1j for r in range(size) for _ in range(2)]
    columns = torch.zeros(size, 2, 3).to(torch.complex32)[:, :, ::2]
    dist.all_gather_into_tensor(columns, mine[: 2 * 2 : 1].reshape(2, 2).t())
    assert columns.to(torch.complex64).tolist() == [[[r + 1j] * 2] * 2 for r in range(size)]


def test_types_that_ccoll_only_moves():
    ranks(2, small_complex)
