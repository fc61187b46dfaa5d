# SPDX-License-Identifier: Apache-2.0
"""What else programs run over a backend: older and hybrid sharding, ZeRO, pipelines, compiled collectives, threads,
the profiler and the flight recorder. Trained parameters are compared with those of one process."""

import json
import threading

import pytest
from torch_support import VERSION, dist, implementation, ranks, torch
from torch_training_test import batch, close, expected_after, model, train

from torch import nn
from torch._C import _distributed_c10d as c10d

in_cpp = pytest.mark.skipif(implementation() != "c++", reason="torch sees calls of a backend in C++ alone")


def fsdp1(rank, size):
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    sharded = FSDP(model(), device_id=torch.device("cpu"), use_orig_params=True)
    train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), rank)
    with FSDP.summon_full_params(sharded):
        close(sharded.module.parameters(), expected_after(size))


def test_fsdp1():
    ranks(2, fsdp1, limit=180)


def hybrid(rank, size):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    sharded = model()
    fully_shard(sharded, mesh=mesh)
    train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), rank)
    close([each.full_tensor() for each in sharded.parameters()], expected_after(size))


def test_hybrid_sharding():
    ranks(4, hybrid, limit=180)


def zero(rank, size):
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel as DDP

    wrapped = DDP(model())
    optimiser = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.SGD, lr=0.1)
    train(wrapped, optimiser, rank)
    close(wrapped.module.parameters(), expected_after(size))
    optimiser.consolidate_state_dict(to=0)


def test_zero():
    ranks(2, zero, limit=180)


def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    x = torch.cat([batch(r)[0] for r in range(4)])
    y = torch.cat([batch(r)[1] for r in range(4)])
    reference = model()
    nn.functional.mse_loss(reference(x), y).backward()
    layers = [[0, 1], [2]][rank]
    for schedule in (ScheduleGPipe, Schedule1F1B):
        part = nn.Sequential(*(model()[layer] for layer in layers))
        stage = PipelineStage(part, rank, size, torch.device("cpu"))
        losses = []
        runs = schedule(stage, 4, loss_fn=nn.functional.mse_loss)
        runs.step(x) if rank == 0 else runs.step(target=y, losses=losses)
        assert rank == 0 or len(losses) == 4
        expected = nn.Sequential(*(reference[layer] for layer in layers))
        for one, other in zip(part.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)


def test_pipelines():
    ranks(2, pipeline, limit=180)


def compiled(rank, size):
    import torch.distributed._functional_collectives as funcol

    def step(x):
        total = funcol.all_reduce(x * 2, "sum", dist.group.WORLD)
        everybody = funcol.all_gather_tensor(total + rank, 0, dist.group.WORLD)
        return funcol.reduce_scatter_tensor(everybody, "sum", 0, dist.group.WORLD)

    x = torch.full((4,), float(rank + 1))
    made = torch.compile(step, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(made(x), step(x))


def test_compiled_collectives():
    ranks(2, compiled, limit=180)


def threads(rank, size):
    """Calls of several threads in one group. Any order of equal calls gives the same sums."""
    failed = []

    def calls():
        try:
            for _ in range(50):
                x = torch.ones(1000)
                dist.all_reduce(x)
                assert x.eq(size).all()
                x.fill_(1)
                dist.all_reduce(x, async_op=True).wait()
                assert x.eq(size).all()
        except BaseException as error:
            failed.append(error)

    def messages(number):
        try:
            for i in range(50):
                got = torch.zeros(10)
                sent = dist.isend(torch.full((10,), float(i)), (rank + 1) % size, tag=number)
                dist.recv(got, (rank - 1) % size, tag=number)
                sent.wait()
                assert got.eq(i).all()
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=calls) for _ in range(2)]
    running += [threading.Thread(target=messages, args=(number,)) for number in (1, 2)]
    for each in running:
        each.start()
    for each in running:
        each.join(60)
        assert not each.is_alive()
    assert not failed, failed


def test_threads_in_one_group():
    ranks(2, threads, limit=120)


def profiled(rank, size):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        x = torch.ones(1000)
        dist.all_reduce(x)
        dist.broadcast(x, 0, async_op=True).wait()
    names = {each.name for each in profile.events()}
    assert {"ccoll:all_reduce", "ccoll:broadcast"} <= names, sorted(names)


@in_cpp
def test_the_profiler_shows_calls():
    ranks(2, profiled)


def recorded(rank, size):
    x = torch.ones(1000)
    for _ in range(3):
        dist.all_reduce(x)
    dist.barrier()
    entries = json.loads(c10d._dump_fr_trace_json(backend="ccoll"))["entries"]
    said = [each for each in entries if "all_reduce" in each["profiling_name"]]
    assert len(said) >= 3 and all(each["process_group"][0] == "0" for each in said), entries


@in_cpp
@pytest.mark.skipif(VERSION < (2, 15), reason="an older torch has one recorder for all backends")
def test_the_flight_recorder_sees_calls(monkeypatch):
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", "100")
    ranks(2, recorded)
