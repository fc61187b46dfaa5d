#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the package's backend, with CUDA tensors: 2, 4 and 1 processes share one GPU.

    backend_jobs.py PACKAGE [--limit 60] [--results FILE --phase NAME] [--on-host | --no-kernels]

PACKAGE is a folder with wheels, or one in which the package lies unpacked. Prints a line for each job. Status 0, 1 if
anything is wrong, 78 if something is not there: torch, or a backend in C++ for this torch. --on-host rehearses it with
the CPU's tensors; --no-kernels over a GPU that runs copies but none of torch's own kernels.
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import signal
import sys
import time

from package import CALL_LIMIT, Absent, Expectations, Launch, arguments, job, package, run_rank, start_all

TYPES = ("float32", "bfloat16", "float16", "int64", "uint8")
COUNTS = (1, 1000, 300_000)
REFUSAL = ("ccoll: all_reduce: a tensor on cuda:0: the backend in Python takes CPU tensors only; "
           "the one in C++ takes those of GPUs, too")


class World:
    """One rank, and the device of its tensors."""

    def __init__(self, given):
        try:
            import torch
            import torch.distributed as dist
        except ImportError as error:
            raise Absent(f"there is no PyTorch here: {error}") from None
        self.torch, self.dist, self.given, self.expect = torch, dist, given, Expectations()
        torch.set_num_threads(1)
        if not given.on_host and not torch.cuda.is_available(): raise Absent(f"PyTorch {torch.__version__} sees no GPU")
        from ccoll.torch import implementation

        self.way = implementation()
        self.rank, self.size = int(os.environ["CCOLL_RANK"]), int(os.environ["CCOLL_SIZE"])
        # The backend in Python has the CPU's tensors alone.
        self.on_device = not given.on_host and self.way == "c++"
        self.device = torch.device("cuda", 0) if self.on_device else torch.device("cpu")
        self.has_kernels, self.why = self.on_device and not given.no_kernels, ""
        if self.on_device: torch.cuda.set_device(0)
        if self.has_kernels:
            try:
                found = (torch.ones(4).to(self.device) + 1).tolist()
                if found != [2.0] * 4: raise ArithmeticError(f"1 + 1 is {found}")
            except Exception as error:
                self.has_kernels = False
                self.why = f", torch's own kernels do not run here ({str(error)[:200]})"
        dist.init_process_group("ccoll", init_method=f"file://{given.store}", rank=self.rank, world_size=self.size,
                                timeout=datetime.timedelta(seconds=CALL_LIMIT * given.patience))

    def ints(self, count: int, rank: int):
        """Small numbers: their sums are exact in every type."""
        return (self.torch.arange(count) * 7 + rank * 3) % 11

    def host(self, count: int, rank: int, kind: str = "float32"): return self.ints(count, rank).to(getattr(self.torch, kind))
    def tensor(self, count: int, rank: int, kind: str = "float32"): return self.host(count, rank, kind).to(self.device)
    def empty(self, count: int, kind: str = "float32"):
        return self.torch.empty(count, dtype=getattr(self.torch, kind), device=self.device)

    def total(self, count: int, kind: str = "float32", ranks=None):
        return sum(self.ints(count, r) for r in ranks or range(self.size)).to(getattr(self.torch, kind))

    def synchronize(self) -> None:
        if self.on_device: self.torch.cuda.synchronize()

    def compare(self, found, expected, what: str) -> None:
        self.expect(found.device == self.device, f"{what}: the result is on {found.device}")
        got = found.cpu()
        self.expect(self.torch.equal(got, expected), f"{what}: {got[:6].tolist()}…, expected {expected[:6].tolist()}…")


def each_collective(world: World, count: int, kind: str, is_async: bool) -> None:
    torch, dist, rank, size = world.torch, world.dist, world.rank, world.size
    # Their names since torch 2.15, and before.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    hosts = [world.host(count, r, kind) for r in range(size)]

    def check(name: str, call, *given, found, expected, **options) -> None:
        work = call(*given, async_op=is_async, **options)
        if is_async: work.wait()
        world.compare(found, expected, f"{name} of {count} {kind}{', async' if is_async else ''}")

    x = world.tensor(count, rank, kind)
    check("all_reduce", dist.all_reduce, x, found=x, expected=world.total(count, kind))
    x = world.tensor(count, rank, kind)
    most = torch.stack([each.to(torch.float64) for each in hosts]).amax(0).to(hosts[0].dtype)
    check("all_reduce of max", dist.all_reduce, x, op=dist.ReduceOp.MAX, found=x, expected=most)
    x = world.tensor(count, rank, kind)
    check("broadcast", dist.broadcast, x, src=size - 1, found=x, expected=hosts[-1])
    mine, whole = world.tensor(count, rank, kind), world.empty(size * count, kind)
    check("all_gather_single", gather, whole, mine, found=whole, expected=torch.cat(hosts))
    part = world.empty(count, kind)
    check("reduce_scatter_single", scatter, part, whole, found=part, expected=(world.ints(count, rank) * size).to(part.dtype))
    # Part r of rank s begins at number s + r of the pattern.
    sent = torch.cat([world.host(count, rank + r, kind) for r in range(size)])
    got = world.empty(size * count, kind)
    check("all_to_all_single", dist.all_to_all_single, got, sent.to(world.device), found=got, expected=sent)
    mine = world.tensor(count, rank, kind)
    check("reduce", dist.reduce, mine, dst=0, found=mine, expected=world.total(count, kind) if rank == 0 else hosts[rank])


def collectives(world: World) -> str:
    for kind in TYPES:
        for count in COUNTS:
            for is_async in (False, True): each_collective(world, count, kind, is_async)
    world.dist.barrier()
    return f"6 collectives of {', '.join(TYPES)}, {COUNTS[0]} to {COUNTS[-1]} elements, also async"


def messages(world: World) -> str:
    dist, rank, size = world.dist, world.rank, world.size
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (1, 1000, 1_000_000):
        mine, expected = world.tensor(count, rank), world.host(count, before)
        got = world.empty(count)
        if rank % 2 == 0: dist.send(mine, after)
        dist.recv(got, before)
        if rank % 2: dist.send(mine, after)
        world.compare(got, expected, f"send and recv of {count}")
        got = world.empty(count)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, after), dist.P2POp(dist.irecv, got, before)]):
            work.wait()
        world.compare(got, expected, f"a batch of {count}")
    dist.barrier()
    return "send, recv, isend and irecv of up to 4 MB"


def streams(world: World) -> str:
    """A call keeps its place between a kernel before it and a kernel after it. The host waits for none of them."""
    torch, dist, count, rounds = world.torch, world.dist, 100_000, 20
    before, late = world.tensor(count, world.rank), world.tensor(count, 5)
    kernels = world.has_kernels
    expected = (world.total(count) + (world.size + 1) * kernels)
    side = torch.cuda.Stream()
    results = []
    for i in range(rounds):
        x, after = world.empty(count), world.empty(count)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            if kernels: torch.cuda._sleep(2_000_000)
            x.copy_(before, non_blocking=True)
            if kernels: x.add_(1)
            work = dist.all_reduce(x, async_op=i % 2 == 1)
            if work is not None: work.wait()
            if kernels: x.add_(1)
            after.copy_(x, non_blocking=True)
            # Too late to be part of the result.
            x.copy_(late, non_blocking=True)
        results.append((x, after))
    torch.cuda.synchronize()
    for i, (_, after) in enumerate(results): world.compare(after, expected, f"round {i}")
    dist.barrier()
    return f"{rounds} rounds between {'kernels' if kernels else 'copies'}{world.why}"


def graph(world: World) -> str:
    torch, dist = world.torch, world.dist
    x, y = world.tensor(1000, world.rank), world.empty(1000)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream): dist.all_reduce(world.tensor(1000, world.rank))
    torch.cuda.synchronize()
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        y.copy_(x)
        dist.all_reduce(y)
    for _ in range(5):
        y.copy_(x)
        made.replay()
        torch.cuda.synchronize()
        world.compare(y, world.total(1000), "a replay's sum")
    dist.barrier()
    return "5 replays"


def group(world: World) -> str:
    dist = world.dist
    halves = [dist.new_group(list(range(first, world.size, 2))) for first in range(2)]
    x = world.tensor(1000, world.rank)
    dist.all_reduce(x, group=halves[world.rank % 2])
    world.compare(x, world.total(1000, ranks=range(world.rank % 2, world.size, 2)), "a half's sum")
    dist.barrier()
    return "a group for each half"


def ddp(world: World) -> str:
    """Each rank trains on its part of a batch; each also trains alone on the whole."""
    torch, nn, dist = world.torch, world.torch.nn, world.dist

    def network():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16)).to(world.device)

    def train(net, inputs, targets):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(inputs), targets)
            loss.backward()
            optimizer.step()
        return loss.detach()

    source = torch.Generator().manual_seed(2)
    inputs, targets = (torch.randn(8 * world.size, width, generator=source).to(world.device) for width in (64, 16))
    own = slice(8 * world.rank, 8 * world.rank + 8)
    loss = train(nn.parallel.DistributedDataParallel(network()), inputs[own], targets[own])
    dist.all_reduce(loss)
    loss, alone = (loss / world.size).item(), train(network(), inputs, targets).item()
    world.expect(abs(loss - alone) <= 1e-4 * abs(alone), f"the loss is {loss}, and {alone} in one process")
    return f"5 steps, loss {loss:.6f}, in one process {alone:.6f}"


def refusal(world: World) -> str:
    """The backend in Python says that it does not take these tensors."""
    x = world.torch.ones(4).to("cuda:0")
    try:
        world.dist.all_reduce(x)
    except Exception as error:
        world.expect(str(error) == REFUSAL, f"what is said of CUDA tensors: {str(error)[:400]}")
        return "CUDA tensors are refused"
    raise AssertionError("all_reduce of a CUDA tensor does nothing and says nothing")


def killed(world: World) -> str:
    """The last rank is killed while calls are under way: the others name it within their limit."""
    dist, last = world.dist, world.size - 1
    x = world.tensor(300_000, world.rank)
    dist.all_reduce(x)
    world.synchronize()
    if world.rank == last: os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    try:
        for _ in range(100):
            dist.all_reduce(x)
            world.synchronize()
    except dist.DistBackendError as error:
        took = time.monotonic() - begun
        said = str(error).splitlines()[0]
        world.expect("peer_lost" in said and f"rank {last} " in said, f"rank {last} is not named: {said}")
        world.expect(took < CALL_LIMIT * world.given.patience + 5, f"it took {took:.1f} s")
        return f"rank {last} is named after {took:.2f} s"
    raise AssertionError("nobody notices that a rank was killed")


def jobs_of(given):
    made = []

    def start() -> str:
        made.append(World(given))
        made[0].expect(True, "")
        world = made[0]
        return f"{package()}, torch {world.torch.__version__}, the backend in {'C++' if world.way == 'c++' else 'Python'}"

    yield job(made, start)
    world = made[0]
    yield job(made, collectives, world)
    if world.size > 1: yield job(made, messages, world)
    if world.on_device:
        yield job(made, streams, world)
        yield job(made, graph, world)
    if world.has_kernels or not world.on_device: yield job(made, ddp, world)
    if world.size > 2: yield job(made, group, world)
    is_refused = not world.on_device and not given.on_host
    if is_refused: yield job(made, refusal, world)
    if given.last_dies:
        yield job(made, killed, world)
        os._exit(0)  # without a word to the rank that is lost
    world.dist.destroy_process_group()
    if is_refused and world.size == 1:
        raise Absent(f"CUDA tensors were not tried: the package has no backend in C++ for torch {world.torch.__version__}, "
                     "only the one in Python (tools/setup torch-headers brings the headers for one)")


def main() -> int:
    given = arguments(__doc__).parse_args()
    if given.rank_of:
        run_rank(int(os.environ["CCOLL_RANK"]), given, jobs_of(given))
        return 0
    absent = {} if importlib.util.find_spec("torch") else {"torch": "torch is not installed"}
    launches = [Launch("torch", 2), Launch("torch", 4, last_dies=True), Launch("torch", 1)]
    return start_all(__file__, given, launches, 40, absent)


if __name__ == "__main__":
    sys.exit(main())
