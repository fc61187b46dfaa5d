# SPDX-License-Identifier: Apache-2.0
"""Arrays of a GPU in every kind of call; torch makes the memory. cc-run starts it."""

import sys
import threading
import time

import ccoll
import numpy as np
import torch


class Interface:
    """An array that shows nothing but CUDA's array interface, as numba's do."""

    def __init__(self, tensor, stream=None, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = dict(tensor.__cuda_array_interface__) | {"stream": stream} | changes


class Capsule:
    """An array that shows nothing but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, stream=None, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def gpu(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to("cuda:0")


def refused(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"not refused: expected {words}")


def columns(comm):
    """Rows that are equally far apart are packed by ccoll, in the array's stream."""
    rank, size = comm.rank, comm.size
    matrix = gpu([[1, 2, 3], [4, 5, 6]])
    comm.all_reduce_async(matrix[:, 1:], matrix[:, 1:]).wait()
    assert matrix.cpu().tolist() == [[1, 2 * size, 3 * size], [4, 5 * size, 6 * size]]
    into = gpu([[-1] * 3] * size)
    comm.all_gather(gpu([rank, rank + 1]), into[:, :2])
    assert into.cpu().tolist() == [[r, r + 1, -1] for r in range(size)]
    comm.send_recv(into[:, 1], (rank + 1) % size, into[:, 2], (rank - 1) % size)
    assert into.cpu().tolist() == [[r, r + 1, r + 1] for r in range(size)]


def views(comm):
    """Other views are packed by torch."""
    size = comm.size
    matrix, into = gpu([[1, 2, 3], [4, 5, 6]]), gpu([[0] * 3] * 4)
    comm.all_reduce(matrix.t(), into.t()[:, ::2])
    assert into.cpu().tolist() == [[size, 2 * size, 3 * size], [0] * 3, [4 * size, 5 * size, 6 * size], [0] * 3]


def main():
    comm = ccoll.create(device=0)
    rank, size = comm.rank, comm.size
    total = size * (size + 1) // 2
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        made = comm.all_reduce(gpu([rank + 1, 0], dtype))
        assert made.device.type == "cuda" and made.dtype == dtype and made.cpu().tolist() == [total, 0]
    assert comm.all_gather(gpu([rank])).cpu().tolist() == [[r] for r in range(size)]
    mine = gpu([rank] * size)
    comm.all_to_all(mine, mine)
    assert mine.cpu().tolist() == list(range(size))
    assert comm.broadcast(gpu([rank]), 1).cpu().tolist() == [1]

    comm.all_reduce(np.full(5, 1.0), on_gpu := gpu([0.0] * 5, torch.float64))  # the host's array is dropped at once
    assert on_gpu.cpu().tolist() == [size] * 5
    assert comm.all_reduce(gpu([1.0], torch.float64), np.empty(1))[0] == size

    columns(comm)
    # A GPU that the host plays runs no kernels of torch's, which copy what has strides.
    if torch.cuda.get_device_capability(0) > (0, 0):
        views(comm)

    # In the stream of the array's library: what comes before and after it there keeps its place.
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x = gpu([1.0] * 5000)
        work = comm.all_reduce_async(x, x)
        comm.all_reduce(x, x)
        assert x.cpu().eq(size * size).all()
        work.wait()
    x = gpu([1.0])
    comm.all_reduce(Interface(x, torch.cuda.current_stream().cuda_stream or 1), Interface(x))
    torch.cuda.synchronize()
    assert x.cpu().tolist() == [size]
    # Without a stream the result is there when the call returns.
    comm.all_reduce(Interface(x), Interface(x))
    assert x.cpu().tolist() == [size**2]
    comm.all_reduce(Capsule(x), Capsule(x))
    assert x.cpu().tolist() == [size**3]

    after, before = (rank + 1) % size, (rank - 1) % size
    got = gpu([9.0] * 3)
    received = comm.send_recv(gpu([float(rank)] * 3), after, got, before)
    assert received.count == 3 and got.cpu().tolist() == [before] * 3
    uneven = comm.all_gather_v(gpu([rank] * (rank + 1)), counts=[r + 1 for r in range(size)])
    assert uneven.cpu().tolist() == [r for r in range(size) for _ in range(r + 1)]
    on_host = torch.zeros(1)
    comm.all_reduce(gpu([1.0]), on_host)  # from the GPU to the host
    torch.cuda.synchronize()
    assert on_host.item() == size

    refused(ValueError, "read-only", lambda: comm.all_reduce(x, Interface(x, data=(x.data_ptr(), True))))
    refused(TypeError, "expected an array as out", lambda: comm.all_reduce(Interface(x)))
    refused(TypeError, "elements that are", lambda: comm.all_reduce(Interface(x, typestr=">f4"), x))
    refused(ValueError, "without a mask", lambda: comm.all_reduce(Interface(x, mask=x), x))
    refused(TypeError, "of the host or of a CUDA device", lambda: comm.all_reduce(torch.ones(1, device="meta")))

    # A call that waits leaves the GIL to other threads.
    ticks, is_over = [], threading.Event()

    def tick():
        while not is_over.wait(0.01):
            ticks.append(time.monotonic())

    other = threading.Thread(target=tick)
    other.start()
    if rank == 0:
        time.sleep(0.5)
    comm.all_reduce(x, x)
    comm.barrier()
    is_over.set()
    other.join()
    assert len(ticks) > 20, len(ticks)
    comm.close()


def threads():
    """Ranks that are threads of one process, with a GPU: each needs the others to have made its call."""

    def rank(comm):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                assert comm.all_reduce(gpu([1.0])).item() == comm.size
                work = comm.all_reduce_async(x := gpu([1.0]), x)
                work.wait()
                assert x.item() == comm.size
        done.append(comm.rank)
        comm.close()

    done = []
    torch.cuda.init()
    each = [threading.Thread(target=rank, args=(comm,)) for comm in ccoll.create_all(3, device=0, timeout=20)]
    for one in each:
        one.start()
    for one in each:
        one.join()
    assert sorted(done) == [0, 1, 2]


threads() if "threads" in sys.argv else main()
