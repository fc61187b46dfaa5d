# SPDX-License-Identifier: Apache-2.0
"""Tensors of a GPU: results, the order of streams, graphs, errors. tools/torch-matrix gpu runs this over a GPU that
the host plays, whose streams go on in any order that events allow. torch's own kernels do not run there, so tensors
are made on the CPU and copied."""

import contextlib
import ctypes
import datetime
import os
import time

import pytest
from torch_support import dist, implementation, ranks, torch

# torch must not be asked: a process that has looked for GPUs may not fork any more.
pytestmark = pytest.mark.skipif(
    "CCOLL_TEST_GPU" not in os.environ or implementation() != "c++",
    reason="CCOLL_TEST_GPU is not set (tools/torch-matrix gpu does so), or there is no backend in C++",
)

SIZES = (0, 1, 1000, 300_000)
TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8)
BOTH = pytest.mark.parametrize("is_async", [False, True])


def gpu(tensor):
    return tensor.to(f"cuda:{torch.cuda.current_device()}")


def full(count, value, dtype=torch.float32):
    return gpu(torch.full((count,), value, dtype=dtype))


def done(work):
    """Waits for an asynchronous call."""
    if work is not None:
        work.wait()


def expect(tensor, expected):
    assert tensor.device.type == "cuda"
    assert torch.equal(tensor.cpu(), torch.as_tensor(expected, dtype=tensor.dtype).expand(tensor.shape)), tensor.cpu()


def by_rank(size, count, dtype):
    return torch.arange(size).to(dtype).repeat_interleave(count)


def collectives(is_async):
    def run(rank, size):
        for dtype in TYPES:
            for count in SIZES:
                own = full(count, rank + 1, dtype)
                done(dist.all_reduce(own, async_op=is_async))
                expect(own, size * (size + 1) // 2)
                most = full(count, rank, dtype)
                done(dist.reduce(most, 1, dist.ReduceOp.MAX, async_op=is_async))
                expect(most, size - 1 if rank == 1 else rank)
                all_of_it = full(size * count, 99, dtype)
                done(dist.all_gather_into_tensor(all_of_it, full(count, rank, dtype), async_op=is_async))
                expect(all_of_it, by_rank(size, count, dtype))
                part = full(count, 99, dtype)
                done(dist.reduce_scatter_tensor(part, all_of_it, async_op=is_async))
                expect(part, rank * size)
                done(dist.broadcast(part, 1, async_op=is_async))
                expect(part, size)
                swapped = full(size * count, 99, dtype)
                done(dist.all_to_all_single(swapped, full(size * count, rank, dtype), async_op=is_async))
                expect(swapped, by_rank(size, count, dtype))

    return run


@BOTH
@pytest.mark.parametrize("size", [2, 3])
def test_collectives_by_type_and_count(size, is_async):
    ranks(size, collectives(is_async))


def lists(rank, size):
    uneven = [full(r + 1, 0) for r in range(size)]
    dist.all_gather(uneven, full(rank + 1, rank))
    for r, each in enumerate(uneven):
        expect(each, r)
    dist.all_to_all(uneven, [full(rank + 1, 10 * rank + r) for r in range(size)])
    for r, each in enumerate(uneven):
        expect(each, 10 * r + rank)
    at_root = [full(2, 0) for _ in range(size)] if rank == 0 else None
    dist.gather(full(2, rank), at_root)
    for r, each in enumerate(at_root or []):
        expect(each, r)
    mine = full(2, 0)
    dist.scatter(mine, [full(2, r) for r in range(size)] if rank == 0 else None)
    expect(mine, rank)
    rows = full(size * (size + 1) // 2, rank)
    received = full(size * (rank + 1), 99)
    dist.all_to_all_single(received, rows, [rank + 1] * size, [r + 1 for r in range(size)])
    expect(received, by_rank(size, rank + 1, torch.float32))


def test_lists_and_uneven_splits():
    ranks(3, lists)


def messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in SIZES:
        got = full(count, 99)
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, full(count, rank), after), dist.P2POp(dist.irecv, got, before)]
        ):
            work.wait()
        expect(got, before)
    # Two messages to one rank keep their order, and a receive does not hold back a send.
    first, second = full(5, 99), full(300_000, 99)
    receives = [dist.irecv(first, before), dist.irecv(second, before)]
    for value, count in ((rank, 5), (rank + 10, 300_000)):
        dist.isend(full(count, value), after).wait()
    for work in receives:
        work.wait()
    expect(first, before)
    expect(second, before + 10)


@pytest.mark.parametrize("size", [2, 3])
def test_messages(size):
    ranks(size, messages)


def streams(rank, size):
    side = torch.cuda.Stream()
    for _ in range(20):
        # Each call sees what its own stream has put there, and the waiting stream sees the result.
        x = full(1000, rank)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = full(1000, 1)
            work = dist.all_reduce(y, async_op=True)
        dist.all_reduce(x)
        expect(x, size * (size - 1) / 2)
        work.wait()
        expect(y, size)


def test_streams_keep_their_order():
    ranks(2, streams)


def works(rank, size):
    x = full(1000, 1)
    work = dist.all_reduce(x, async_op=True)
    deadline = time.monotonic() + 20
    while not work.is_completed():  # without a wait
        assert time.monotonic() < deadline
    assert work.is_success() and work.result()[0] is not None
    expect(x, size)
    assert dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=20))  # blocks the host
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0])
    expect(future.wait(), size**3)
    outcome = dist.all_reduce(x, async_op=True).get_future_result()
    outcome.wait()
    assert outcome.value() == 0
    sequence = dist.group.WORLD._get_sequence_number_for_group()
    work = dist.all_reduce(x, async_op=True)
    assert dist.group.WORLD._get_sequence_number_for_group() == sequence + 1 == work._get_sequence_number()
    work.wait()
    for barrier in (lambda: dist.barrier(), lambda: dist.barrier(device_ids=[torch.cuda.current_device()])):
        for _ in range(20):
            dist.all_reduce(x)
        barrier()
        assert torch.cuda.current_stream().query()  # it blocks the host until the stream is empty


def test_works_can_be_polled_and_waited_for():
    ranks(2, works)


def dropped(rank, size):
    for _ in range(20):
        total = full(100_000, 1)
        # Elsewhere than at the root nobody has the tensor any more, and its memory may be used again.
        work = dist.reduce(total if rank == 0 else full(100_000, 1), 0, async_op=True)
        if rank == 0:
            work.wait()
            expect(total, size)
        del work, total
        full(100_000, 77)


def test_works_and_tensors_may_be_dropped():
    ranks(2, dropped)


def ends_at_once(rank, size):
    x = full(300_000, 1)
    dist.all_reduce(x)
    dist.all_reduce(full(300_000, 1), async_op=True)
    dist.destroy_process_group()  # waits for what is under way
    expect(x, size)


def test_a_group_ends_once_its_calls_are_over():
    ranks(2, ends_at_once)


def in_another_stream(rank, size):
    x = full(100_000, 1)
    side = torch.cuda.Stream()
    work = dist.all_reduce(x, async_op=True)
    with torch.cuda.stream(side):
        work.wait()
        got = x.to("cpu", non_blocking=True)
    side.synchronize()
    assert got.eq(size).all()


def test_another_stream_may_wait():
    ranks(2, in_another_stream)


def of_several(rank, size):
    group, device = dist.group.WORLD, torch.device("cuda:0")
    for wait in (lambda w: w.wait(), lambda w: w.synchronize(), lambda w: w.get_future().wait()):
        a, b = full(1000, 1), full(1000, rank)
        group._start_coalescing(device)
        group.allreduce([a])
        group.broadcast(b, 1)
        work = group._end_coalescing(device)
        wait(work)
        expect(a, size)
        expect(b, 1)
        assert [each.device.type for each in work.get_future().value()] == ["cuda", "cuda"]
        torch.cuda.synchronize()
        while not work.is_completed():
            pass


def test_a_batch_of_calls():
    ranks(2, of_several)


def failing(rank, size):
    """An error of CUDA's own, of a kernel for example, comes from CUDA's calls. A Work that ends meanwhile does not
    end the process."""
    if not hasattr(ctypes.CDLL(None), "cuda_on_host_fails"):
        return  # a real GPU
    x = full(1000, 1)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    work = dist.all_reduce(x, async_op=True)
    fails = ctypes.CDLL(None).cuda_on_host_fails
    fails(719)
    del work
    with contextlib.suppress(RuntimeError):  # only if something was still to be done
        torch.cuda.synchronize()
    fails(0)
    dist.all_reduce(x)
    expect(x, size**3)


def test_an_error_of_cuda_ends_no_process():
    ranks(2, failing)


def both_devices(rank, size):
    on_cpu, on_gpu = torch.ones(10), full(10, 1)
    works = [dist.all_reduce(each, async_op=True) for each in (on_cpu, on_gpu, on_cpu, on_gpu)]
    for work in works:
        work.wait()
    expect(on_gpu, size**2)
    assert on_cpu.eq(size**2).all()
    with pytest.raises(ValueError, match="tensors on cuda:0 and on cpu: expected all tensors of a call on one device"):
        dist.all_to_all([on_gpu] * size, [on_cpu] * size)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    with dist._coalescing_manager(device=torch.device("cuda:0"), async_ops=True) as batch:
        a, b = full(4, 1), full(5, 2)
        dist.all_reduce(a)
        dist.all_reduce(b)
    batch.wait()
    expect(a, size)
    expect(b, 2 * size)


def test_a_group_serves_both_devices():
    ranks(2, both_devices)


def groups(rank, size):
    everybody = list(range(size))
    for group in (dist.new_group(everybody), dist.split_group(None, [everybody])):
        x = full(4, 1)
        dist.all_reduce(x, group=group)
        expect(x, size)
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = full(4, rank)
        dist.broadcast(x, 1, group=pair)
        expect(x, 1)


def test_groups():
    ranks(3, groups)


def captured(mode):
    def run(rank, size):
        x = full(100, 1)
        dist.all_reduce(x)  # makes the communicator, which must not be captured
        torch.cuda.synchronize()
        y, sent, got = full(100, 1), full(100, rank), full(100, 99)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            dist.all_reduce(y)
            work = dist.all_reduce(y, async_op=True)
            assert work.is_completed()  # as far as the host is concerned
            work.wait()
            messages = [dist.isend(sent, 1 - rank), receive := dist.irecv(got, 1 - rank)]
            for message in messages:
                message.wait()
        with pytest.raises(RuntimeError, match="part of a graph"):
            receive.source_rank()
        for replay in range(1, 4):
            graph.replay()
            torch.cuda.synchronize()
            expect(y, size ** (2 * replay))
            expect(got, 1 - rank)
            got.copy_(sent)

    return run


@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_calls_can_be_captured_in_a_graph(mode):
    ranks(2, captured(mode))


def lost(rank, size):
    x = full(1000, 1)
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if rank == size - 1:
        os._exit(1)
    began = time.monotonic()
    with pytest.raises(dist.DistBackendError, match=f"peer_lost: .*rank {size - 1} "):
        for _ in range(100):
            dist.all_reduce(x)
            torch.cuda.synchronize()
    assert time.monotonic() - began < 10
    smaller = dist.shrink_group([size - 1])
    dist.barrier(group=smaller)  # torch knows the new group for one device until its first call
    y = full(10, 1)
    dist.all_reduce(y, group=smaller)
    expect(y, size - 1)


def test_a_lost_rank_is_named_and_the_others_go_on():
    ranks(3, lost, may_die={2})
