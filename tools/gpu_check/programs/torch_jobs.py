#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch as it is, over the libnccl.so.2 that it has by LD_PRELOAD: several processes share one GPU.

    torch_jobs.py LIBRARY [--ranks 4] [--limit 100] [--on-host]

Prints a line for each job. Status 0, 1 if anything is wrong, 78 if there is no PyTorch that can use a GPU.
--on-host rehearses all that goes without one: by gloo, on the CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ImportError as error:
    print(f"there is no PyTorch here: {error}")
    sys.exit(78)

INCOMPLETE = 78
STEPS = 5


class World:
    """One rank, and the device of its tensors."""

    def __init__(self, given: argparse.Namespace):
        self.rank, self.size, self.on_host = given.rank, given.ranks, given.on_host
        self.device = torch.device("cpu") if self.on_host else torch.device("cuda", 0)
        self.library = os.path.realpath(given.library)
        if not self.on_host: torch.cuda.set_device(0)
        dist.init_process_group("gloo" if self.on_host else "nccl", init_method=f"file://{given.store}",
                                rank=self.rank, world_size=self.size,
                                device_id=None if self.on_host else self.device)

    def full(self, value: float, count: int = 1000) -> torch.Tensor:
        return torch.full((count,), float(value), device=self.device)


def expect(is_right: bool, what: str) -> None:
    if not is_right: raise AssertionError(what)


def expect_equal(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    expect(torch.equal(found, expected), f"{what}: {found[:4].tolist()}, not {expected[:4].tolist()}")


class Found(ctypes.Structure):
    """The linker's Dl_info."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def library(world: World) -> str:
    """The calls go to the given library."""
    everywhere = ctypes.CDLL(None)
    version, found = ctypes.c_int(), Found()
    expect(everywhere.ncclGetVersion(ctypes.byref(version)) == 0, "ncclGetVersion")
    everywhere.dladdr(ctypes.cast(everywhere.ncclGetVersion, ctypes.c_void_p), ctypes.byref(found))
    expect(os.path.realpath(os.fsdecode(found.file)) == world.library, f"ncclGetVersion is {found.file!r}'s")
    return f"version {version.value}, torch {torch.__version__}"


def network(world: World) -> nn.Module:
    torch.manual_seed(1)
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 16)]
    return nn.Sequential(*layers).to(world.device)


def batch(world: World) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.Generator().manual_seed(2)
    inputs, targets = (torch.randn(8 * world.size, width, generator=source) for width in (64, 16))
    return inputs.to(world.device), targets.to(world.device)


def train(net: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of the last step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), targets)
        loss.backward()
        optimizer.step()
    return loss.detach()


def compare_with_one_process(world: World, net: nn.Module) -> str:
    """Each rank trains on its part of the batch, and one also trains alone on the whole batch."""
    inputs, targets = batch(world)
    own = slice(8 * world.rank, 8 * world.rank + 8)
    loss = train(net, inputs[own], targets[own])
    dist.all_reduce(loss)
    loss, alone = (loss / world.size).item(), train(network(world), inputs, targets).item()
    expect(abs(loss - alone) <= 1e-4 * abs(alone), f"the loss is {loss}, and {alone} in one process")
    return f"loss {loss:.6f}, in one process {alone:.6f}"


def ddp(world: World) -> str:
    return compare_with_one_process(world, nn.parallel.DistributedDataParallel(network(world)))


def fsdp2(world: World) -> str:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(world.device.type, (world.size,))
    net = network(world)
    for layer in net:
        if isinstance(layer, nn.Linear): fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return compare_with_one_process(world, net)


def pipeline(world: World) -> str:
    """A stage for each rank; then a ring of messages in a batch."""
    stages = []
    for stage in range(world.size):
        torch.manual_seed(stage)
        stages.append(nn.Linear(64, 64).to(world.device))
    inputs, _ = batch(world)
    with torch.no_grad():
        for part in inputs.split(8):
            passed = part if world.rank == 0 else torch.empty_like(part)
            if world.rank > 0: dist.recv(passed, world.rank - 1)
            passed = stages[world.rank](passed)
            if world.rank + 1 < world.size: dist.send(passed, world.rank + 1)
            if world.rank + 1 == world.size:
                for stage in stages: part = stage(part)
                expect(torch.allclose(passed, part, rtol=1e-4, atol=1e-5), "what the last stage has")
    mine, got = world.full(world.rank), world.full(-1)
    requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (world.rank + 1) % world.size),
                                       dist.P2POp(dist.irecv, got, (world.rank - 1) % world.size)])
    for request in requests: request.wait()
    expect_equal(got, world.full((world.rank - 1) % world.size), "a message of the ring")
    return f"{world.size} stages"


def all_to_all(world: World) -> str:
    mine = torch.arange(world.size * 100, device=world.device) + 10_000 * world.rank
    got = torch.empty_like(mine)
    dist.all_to_all_single(got, mine)
    own = torch.arange(100, device=world.device) + 100 * world.rank
    expect_equal(got, torch.cat([own + 10_000 * rank for rank in range(world.size)]), "equal parts")
    # Each rank gets as many elements as its number says, plus one.
    sent = torch.cat([world.full(world.rank, rank + 1) for rank in range(world.size)])
    got = torch.empty(world.size * (world.rank + 1), device=world.device)
    dist.all_to_all_single(got, sent, [world.rank + 1] * world.size, [rank + 1 for rank in range(world.size)])
    expect_equal(got, torch.cat([world.full(rank, world.rank + 1) for rank in range(world.size)]), "unequal parts")
    return "equal and unequal parts"


def new_group(world: World) -> str:
    halves = [dist.new_group(list(range(first, world.size, 2))) for first in range(2)]
    values = world.full(world.rank)
    dist.all_reduce(values, group=halves[world.rank % 2])
    expect_equal(values, world.full(sum(range(world.rank % 2, world.size, 2))), "a half's sum")
    return f"{len(halves)} groups"


def coalescing(world: World) -> str:
    from torch.distributed.distributed_c10d import _coalescing_manager

    values = [world.full(world.rank + i, 10 + i) for i in range(20)]
    with _coalescing_manager(device=world.device, async_ops=True) as work:
        for each in values: dist.all_reduce(each)
    work.wait()
    for i, each in enumerate(values):
        expect_equal(each, world.full(sum(range(world.size)) + world.size * i, 10 + i), f"the sum of tensor {i}")
    return f"{len(values)} all_reduces"


def graphs(world: World) -> str:
    values, scratch = world.full(0), world.full(1)
    # PyTorch requires a warm-up on another stream.
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream): dist.all_reduce(scratch)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        values.add_(1)
        dist.all_reduce(values)
    expected = 0
    for _ in range(5):
        graph.replay()
        expected = (expected + 1) * world.size
        torch.cuda.synchronize()
        expect_equal(values, world.full(expected), "a replay's sum")
    # A plain call beside it.
    dist.all_reduce(values)
    expect_equal(values, world.full(expected * world.size), "a call after replays")
    return "5 replays"


# The second list needs a GPU.
JOBS = [library, ddp, fsdp2, pipeline, all_to_all, new_group]
JOBS_OF_STREAMS = [coalescing, graphs]


def run_rank(given: argparse.Namespace) -> None:
    world = World(given)
    for job in [] if given.part == "exit" else JOBS + ([] if world.on_host else JOBS_OF_STREAMS):
        begun = time.monotonic()
        try:
            found = job(world)
        except Exception as error:
            print(f"WRONG: torch {job.__name__}, rank {world.rank}: {error}", flush=True)
            os._exit(1)
        dist.barrier()
        if world.rank == 0: print(f"torch {job.__name__}: right, {found}, {time.monotonic() - begun:.1f} s", flush=True)
    if given.part == "jobs":
        dist.destroy_process_group()
        return
    # Exits without notice to the others, after its last call is over.
    values = world.full(1)
    dist.all_reduce(values)
    expect_equal(values, world.full(world.size), "the last call's sum")
    # torch's watchdog lets go of the call's tensors up to 0.1 s later. If Python has begun to end by then, it takes the
    # thread's exit for a crash: "terminate called without an active exception".
    time.sleep(0.5)


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run_part(given: argparse.Namespace, part: str, until: float) -> bool:
    """Runs all ranks; returns whether all succeed."""
    with tempfile.TemporaryDirectory() as folder:
        common = [sys.executable, __file__, given.library, "--ranks", str(given.ranks), "--part", part,
                  "--store", f"{folder}/store", *(["--on-host"] if given.on_host else [])]
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "LD_PRELOAD": given.library}
        ranks = [subprocess.Popen([*common, "--rank", str(rank)], env=environment, preexec_fn=die_with_parent)
                 for rank in range(given.ranks)]
        codes = [None] * len(ranks)
        while None in codes and time.monotonic() < until:
            codes = [rank.poll() for rank in ranks]
            # After one has failed the others get only a short time.
            if any(codes): until = min(until, time.monotonic() + 5)
            time.sleep(0.02)
        for rank in ranks: rank.kill()
        for rank in ranks: rank.wait()
    for rank, code in enumerate(codes):
        if code is None: print(f"WRONG: torch {part}: rank {rank} has not ended in time")
        elif code != 0: print(f"WRONG: torch {part}: rank {rank} ended with status {code}")
    if not any(code != 0 for code in codes):
        print(f"torch {'destroy' if part == 'jobs' else 'exit without destroy'}: right", flush=True)
    return not any(code != 0 for code in codes)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("library")
    arguments.add_argument("--ranks", type=int, default=4)
    arguments.add_argument("--limit", type=float, default=100)
    arguments.add_argument("--on-host", action="store_true")
    # For one of the ranks alone:
    arguments.add_argument("--rank", type=int)
    arguments.add_argument("--part")
    arguments.add_argument("--store")
    given = arguments.parse_args()
    if given.rank is not None:
        run_rank(given)
        return 0
    if not given.on_host and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} sees no GPU")
        return INCOMPLETE
    until = time.monotonic() + given.limit
    parts = [run_part(given, part, until) for part in ("jobs", "exit")]
    return 0 if all(parts) else 1


if __name__ == "__main__":
    sys.exit(main())
