#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package's native interface over arrays of torch, CuPy and JAX: 2, 4 and 1 processes share one GPU.

    array_jobs.py PACKAGE [--limit 60] [--results FILE --phase NAME] [--on-host | --no-kernels]

PACKAGE is a folder with wheels, or one in which the package lies unpacked. Prints a line for each job. Status 0, 1 if
anything is wrong, 78 if something is not there. --on-host rehearses it on the CPU, with numpy's arrays for CuPy's;
--no-kernels over a GPU that runs copies but none of the libraries' own kernels.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import signal
import sys
import time

from package import CALL_LIMIT, Absent, Expectations, Launch, arguments, job, package, run_rank, start_all

COUNTS = (1, 1000, 300_000)


class Library:
    """Arrays of one library, and the library of the host's arrays that they are compared with."""

    name = ""
    types: tuple[str, ...] = ()
    writes = True  # arrays can be written by ccoll
    has_streams = True  # which ccoll finds by itself
    has_kernels = True

    def ints(self, count: int, rank: int):
        """Small numbers: their sums are exact in every type."""
        return (self.host.arange(count) * 7 + rank * 3) % 11

    def sum_of(self, parts: list):
        return sum(parts[1:], parts[0])

    def try_kernels(self, attempt) -> None:
        """`attempt` adds 1 to ones, and returns the host's list."""
        try:
            if (found := attempt()) != [2.0] * 4: raise ArithmeticError(f"1 + 1 is {found}")
        except Exception as error:
            self.has_kernels = False
            self.why = f", its own kernels do not run here ({type(error).__name__}: {str(error)[:200]})"


class Torch(Library):
    name = "torch"
    types = ("float32", "bfloat16", "float16", "float64", "int64", "int32", "uint8", "complex64", "bool")

    def __init__(self, given):
        try:
            import torch
        except ImportError as error:
            raise Absent(f"there is no PyTorch here: {error}") from None
        self.host = self.torch = torch
        torch.set_num_threads(1)
        if not given.on_host and not torch.cuda.is_available(): raise Absent(f"PyTorch {torch.__version__} sees no GPU")
        self.device = "cpu" if given.on_host else "cuda:0"
        self.has_streams = not given.on_host
        self.has_kernels = not given.on_host and not given.no_kernels
        if self.has_kernels: self.try_kernels(lambda: (torch.ones(4).to(self.device) + 1).tolist())
        exchanges = "with" if hasattr(torch.Tensor, "__dlpack_c_exchange_api__") else "without"
        self.version = f"torch {torch.__version__}, {exchanges} DLPack's exchange API"

    def cast(self, host, type_name: str): return host.to(getattr(self.torch, type_name))
    def to_device(self, host): return host.to(self.device)
    def to_host(self, array): return array.cpu()
    def is_equal(self, one, other) -> bool: return self.torch.equal(one, other)
    def maximum(self, one, other): return self.torch.maximum(one, other)
    def stack(self, arrays): return self.torch.cat(arrays)
    def empty_like(self, array, count: int): return self.torch.empty(count, dtype=array.dtype, device=array.device)
    def is_own(self, array) -> bool: return isinstance(array, self.torch.Tensor) and str(array.device) == self.device
    def synchronize(self) -> None: self.torch.cuda.synchronize()
    def side_stream(self): return self.torch.cuda.stream(self.torch.cuda.Stream())
    def copy(self, into, source) -> None: into.copy_(source, non_blocking=True)
    def add(self, array, value) -> None: array.add_(value)
    def spin(self) -> None: self.torch.cuda._sleep(20_000_000)


class Cupy(Library):
    name = "cupy"
    types = ("float32", "float16", "float64", "int64", "int32", "uint8", "complex64")

    def __init__(self, given):
        try:
            import numpy

            if given.on_host:
                cupy = numpy
            else:
                import cupy
        except ImportError as error:
            raise Absent(f"there is no CuPy here: {error}") from None
        self.host, self.cupy, self.on_host = numpy, cupy, given.on_host
        self.has_streams = not given.on_host
        self.has_kernels = not given.on_host and not given.no_kernels
        self.version = f"{'numpy' if given.on_host else 'CuPy'} {cupy.__version__}"
        if given.on_host: return
        try:
            cupy.cuda.Device(0).use()
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise Absent(f"CuPy {cupy.__version__} sees no GPU: {error}") from None
        if self.has_kernels: self.try_kernels(lambda: (cupy.asarray(numpy.ones(4)) + 1).tolist())

    def cast(self, host, type_name: str): return host.astype(type_name)
    def to_device(self, host): return self.cupy.asarray(host.copy())
    def to_host(self, array): return array if self.on_host else array.get()
    def is_equal(self, one, other) -> bool: return one.dtype == other.dtype and self.host.array_equal(one, other)
    def maximum(self, one, other): return self.host.maximum(one, other)
    def stack(self, arrays): return self.host.concatenate(arrays)
    def empty_like(self, array, count: int): return self.cupy.empty(count, array.dtype)
    def is_own(self, array) -> bool: return isinstance(array, self.cupy.ndarray)
    def synchronize(self) -> None: self.cupy.cuda.runtime.deviceSynchronize()
    def side_stream(self): return self.cupy.cuda.Stream(non_blocking=True)
    def copy(self, into, source) -> None: into.data.copy_from_device_async(source.data, source.nbytes)
    def add(self, array, value) -> None: array += value

    def spin(self) -> None:
        # Some milliseconds of a GPU.
        large = self.cupy.zeros(1 << 26, self.cupy.float32)
        for _ in range(20): large += 1


class Jax(Library):
    """Its arrays cannot be written: those of another library take the results, or the host's."""

    name = "jax"
    types = ("float32", "bfloat16", "float16", "int32", "uint8", "complex64")
    writes = False
    has_streams = False
    has_kernels = False

    def __init__(self, given):
        try:
            import jax
            import numpy
        except ImportError as error:
            raise Absent(f"there is no JAX here: {error}") from None
        self.host, self.jax = numpy, jax
        try:
            self.device = jax.devices("cpu" if given.on_host else "cuda")[0]
        except RuntimeError as error:
            raise Absent(f"JAX {jax.__version__} sees no GPU: {str(error)[:300]}") from None
        self.cupy = None
        if not given.on_host:
            with contextlib.suppress(Exception):
                import cupy

                cupy.empty(1)
                self.cupy = cupy
        self.version = f"JAX {jax.__version__}, results in {'CuPy' if self.cupy else 'numpy'}'s arrays"

    def cast(self, host, type_name: str): return host.astype(self.jax.numpy.dtype(type_name))
    def to_device(self, host): return self.jax.block_until_ready(self.jax.device_put(host, self.device))
    def to_host(self, array): return array.get() if hasattr(array, "get") else self.host.asarray(array)
    def is_equal(self, one, other) -> bool: return one.dtype == other.dtype and self.host.array_equal(one, other)
    def maximum(self, one, other): return self.host.maximum(one, other)
    def stack(self, arrays): return self.host.concatenate(arrays)
    def is_own(self, array) -> bool: return isinstance(array, self.taker_of(array.dtype).ndarray)
    def empty_like(self, array, count: int): return self.taker_of(array.dtype).empty(count, array.dtype)

    def taker_of(self, dtype):
        """The library whose arrays take results. Only numpy's know every type of JAX."""
        return self.cupy if self.cupy is not None and dtype.kind in "fiuc" else self.host


LIBRARIES = {each.name: each for each in (Torch, Cupy, Jax)}


class World:
    """One rank of a communicator, and its library."""

    def __init__(self, given):
        self.library = LIBRARIES[given.rank_of](given)
        import ccoll

        self.ccoll, self.given, self.expect = ccoll, given, Expectations()
        place = {} if given.on_host else {"device": 0}
        self.comm = ccoll.create(timeout=CALL_LIMIT * given.patience, start_timeout=30 * given.patience, **place)
        self.rank, self.size = self.comm.rank, self.comm.size

    def host(self, count: int, rank: int, type_name: str):
        return self.library.cast(self.library.ints(count, rank), type_name)

    def array(self, count: int, rank: int, type_name: str):
        return self.library.to_device(self.host(count, rank, type_name))

    def compare(self, found, expected, what: str) -> None:
        self.expect(self.library.is_own(found), f"{what}: the result is {type(found)}")
        got = self.library.to_host(found).reshape(-1)
        self.expect(self.library.is_equal(got, expected), f"{what}: {got[:6].tolist()}…, expected {expected[:6].tolist()}…")


def each_collective(world: World, count: int, kind: str, new: bool) -> None:
    """`new`: the package makes the arrays of results."""
    library, comm, rank, size = world.library, world.comm, world.rank, world.size
    mine = world.array(count, rank, kind)
    hosts = [world.host(count, r, kind) for r in range(size)]
    last = size - 1

    def out(elements: int): return None if new else library.empty_like(mine, elements)

    def check(name: str, found, expected) -> None: world.compare(found, expected, f"{name} of {count} {kind}")

    whole = library.stack(hosts)
    most = hosts[0]
    for each in hosts[1:]: most = library.maximum(most, each) if kind != "complex64" else most
    if kind != "bool":
        total = library.cast(library.sum_of([library.ints(count, r) for r in range(size)]), kind)
        check("all_reduce", comm.all_reduce(mine, out(count)), total)
        if kind != "complex64": check("all_reduce of max", comm.all_reduce(mine, out(count), "max"), most)
        reduced = comm.reduce(mine, last, out=out(count))
        if rank == last: check("reduce", reduced, total)
        # Each rank gets its own part of what all have: `size` times that.
        parts = library.to_device(whole.reshape(size, count))
        times = library.cast(library.ints(count, rank) * size, kind)
        check("reduce_scatter", comm.reduce_scatter(parts, out(count)), times)
    check("all_gather", comm.all_gather(mine, out(size * count)), whole)
    gathered = comm.gather(mine, last, out(size * count) if rank == last or new else None)
    if rank == last: check("gather", gathered, whole)
    # Part r of rank s begins at number s + r of the pattern.
    sent = library.to_device(library.stack([world.host(count, rank + r, kind) for r in range(size)]).reshape(size, count))
    received = library.stack([world.host(count, rank + r, kind) for r in range(size)])
    check("all_to_all", comm.all_to_all(sent, out(size * count)), received)
    check("scatter", comm.scatter(sent, library.empty_like(mine, count), last), world.host(count, last + rank, kind))
    if library.writes:
        check("broadcast", comm.broadcast(mine, last), hosts[last])
    else:
        given = mine if rank == last else None
        check("broadcast", comm.broadcast(given, last, library.empty_like(mine, count)), hosts[last])


def collectives(world: World) -> str:
    kinds = world.library.types
    for at, (kind, count) in enumerate(itertools.product(kinds, COUNTS)):
        each_collective(world, count, kind, new=world.library.writes and at % 2 == 0)
    world.comm.barrier()
    return f"8 collectives of {', '.join(kinds)}, {COUNTS[0]} to {COUNTS[-1]} elements"


def large(world: World) -> str:
    """A call that passes in many pieces, in place where that can be."""
    library, count = world.library, 5_000_000
    total = library.cast(library.sum_of([library.ints(count, r) for r in range(world.size)]), "float32")
    for _ in range(2):
        x = world.array(count, world.rank, "float32")
        out = x if library.writes else library.empty_like(x, count)
        world.comm.barrier()
        begun = time.monotonic()
        world.comm.all_reduce(x, out)
        took = time.monotonic() - begun
        world.compare(out, total, "all_reduce of 20 MB")
    world.comm.barrier()
    return f"all_reduce of 20 MB, the second in {took * 1e3:.1f} ms"


def streams(world: World) -> str:
    """A call keeps its place between a kernel before it and a kernel after it. The host waits for none of them."""
    library, comm = world.library, world.comm
    count, rounds = 100_000, 10
    kernels = library.has_kernels
    start = [world.array(count, r, "float32") for r in range(2)]
    expected = library.sum_of([library.ints(count, r + 1) for r in range(world.size)])
    before, after = world.array(count, world.rank + 1, "float32"), library.empty_like(start[0], count)
    for i in range(rounds):
        x = library.empty_like(start[0], count)
        library.synchronize()
        with library.side_stream():
            library.copy(x, start[i % 2])
            if kernels: library.spin()
            library.copy(x, before)
            if kernels: library.add(x, 1)
            if i % 2 == 0:
                comm.all_reduce(x, x)
            else:
                work = comm.all_reduce_async(x, x)
            if kernels: library.add(x, 1)
            library.copy(after, x)
            # Too late to be part of the result.
            library.copy(x, start[0])
        if i % 2: work.wait()
        library.synchronize()
        world.compare(after, library.cast(expected + (world.size + 1) * kernels, "float32"), f"round {i}")
    comm.barrier()
    return f"{rounds} rounds between {'kernels' if kernels else 'copies'}" + getattr(library, "why", "")


def doors(world: World) -> str:
    """The same memory by CUDA's array interface alone, with a stream and without, and by DLPack alone."""
    library, x = world.library, world.array(1000, world.rank, "float32")
    factor, expected = 1, library.sum_of([library.ints(1000, r) for r in range(world.size)])
    library.synchronize()

    class Interface:
        def __init__(self, **changes):
            shown = {key: value for key, value in x.__cuda_array_interface__.items() if key != "stream"}
            self.__cuda_array_interface__ = {**shown, "stream": None, **changes}

    class Capsule:
        def __dlpack__(self, stream=None, **options): return x.__dlpack__(**options)
        def __dlpack_device__(self): return x.__dlpack_device__()

    for name, one in (("interface", Interface()), ("default stream", Interface(stream=1)), ("DLPack", Capsule())):
        world.comm.all_reduce(one, one)
        library.synchronize()
        world.compare(x, library.cast(expected * factor, "float32"), name)
        factor *= world.size
    world.comm.barrier()
    return "CUDA's array interface, with a stream and without, and DLPack"


def messages(world: World) -> str:
    library, comm, rank, size = world.library, world.comm, world.rank, world.size
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (1, 1000, 1_000_000):
        mine = world.array(count, rank, "float32")
        got = library.empty_like(mine, count)
        expected = world.host(count, before, "float32")
        received = comm.send_recv(mine, after, got, before)
        world.expect(received.count == count and received.source == before, f"what send_recv says: {received}")
        world.compare(got, expected, f"send_recv of {count}")
        got = library.empty_like(mine, count)
        comm.batch([world.ccoll.Send(mine, after, 5), world.ccoll.Recv(got, before, 5)])
        world.compare(got, expected, f"a batch of {count}")
        if size == 1: continue
        got = library.empty_like(mine, count)
        if rank % 2 == 0: comm.send(mine, after)
        comm.recv(got, before)
        if rank % 2: comm.send(mine, after)
        world.compare(got, expected, f"send and recv of {count}")
    comm.barrier()
    return "send_recv, batch, send and recv of up to 4 MB"


def with_host(world: World) -> str:
    """From the GPU to the host, and back."""
    library = world.library
    expected = library.sum_of([library.ints(1000, r) for r in range(world.size)])
    on_host = library.cast(library.ints(1000, 0), "float32")
    world.comm.all_reduce(world.array(1000, world.rank, "float32"), on_host)
    if world.library.has_streams: library.synchronize()
    world.expect(library.is_equal(on_host, library.cast(expected, "float32")), f"to the host: {on_host[:6].tolist()}")
    if library.writes:
        on_device = library.empty_like(world.array(1, 0, "float32"), 1000)
        world.comm.all_reduce(world.host(1000, world.rank, "float32"), on_device)
        world.compare(on_device, library.cast(expected, "float32"), "from the host")
    world.comm.barrier()
    return "to the host" + (" and from it" if library.writes else "")


def groups(world: World) -> str:
    library, half = world.library, world.comm.split(world.rank % 2)
    members = range(world.rank % 2, world.size, 2)
    expected = library.cast(library.sum_of([library.ints(1000, r) for r in members]), "float32")
    mine = world.array(1000, world.rank, "float32")
    world.compare(half.all_reduce(mine, library.empty_like(mine, 1000)), expected, "a half's sum")
    half.close()
    world.comm.barrier()
    return "a communicator for each half"


def killed(world: World) -> str:
    """The last rank is killed while calls are under way: the others name it within their limit, and go on."""
    library, comm, last = world.library, world.comm, world.size - 1
    x = world.array(300_000, world.rank, "float32")
    out = library.empty_like(x, 300_000)
    comm.all_reduce(x, out)
    if world.rank == last:
        comm.all_reduce_async(x, out)
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    try:
        for _ in range(100): comm.all_reduce(x, out)
    except world.ccoll.PeerLost as error:
        took = time.monotonic() - begun
        world.expect(error.culprit == last, f"rank {error.culprit} is named, not {last}: {error}")
        world.expect(took < CALL_LIMIT * world.given.patience + 5, f"it took {took:.1f} s")
    else:
        raise AssertionError("nobody notices that a rank was killed")
    rest = comm.shrink()
    total = library.cast(library.sum_of([library.ints(300_000, r) for r in range(last)]), "float32")
    world.compare(rest.all_reduce(x, library.empty_like(x, 300_000)), total, "the sum of those left")
    rest.barrier()
    return f"rank {last} is named after {took:.2f} s, and the others go on"


def jobs_of(given):
    made = []

    def start() -> str:
        made.append(World(given))
        made[0].expect(True, "")
        return f"{package()}, {made[0].library.version}"

    yield job(made, start)
    world = made[0]
    yield job(made, collectives, world)
    if world.library.has_streams:
        yield job(made, streams, world)
        yield job(made, doors, world)
    yield job(made, messages, world)
    yield job(made, with_host, world)
    if world.size > 1: yield job(made, large, world)
    if world.size > 2: yield job(made, groups, world)
    if given.last_dies:
        yield job(made, killed, world)
        os._exit(0)  # without a word to the rank that is lost
    world.comm.close()


def main() -> int:
    given = arguments(__doc__).parse_args()
    if given.rank_of:
        run_rank(int(os.environ["CCOLL_RANK"]), given, jobs_of(given))
        return 0
    module = {"torch": "torch", "cupy": "numpy" if given.on_host else "cupy", "jax": "jax"}
    there = [name for name in LIBRARIES if importlib.util.find_spec(module[name])]
    absent = {name: f"{name} is not installed" for name in LIBRARIES if name not in there}
    # Those that show the most come first.
    launches = [Launch(name, 2) for name in there] + [Launch(name, 4, last_dies=name == there[0]) for name in there]
    launches += [Launch(name, 1) for name in there]
    return start_all(__file__, given, launches, 30, absent)


if __name__ == "__main__":
    sys.exit(main())
