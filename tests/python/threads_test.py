# SPDX-License-Identifier: Apache-2.0
"""Many threads at once: the package keeps its promises by itself, without Python's GIL."""

import gc
import subprocess
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest
from support import in_threads, ranks

import ccoll

THREADS = 8


def at_once(function, threads=THREADS):
    """The results of function(number) in that many threads at the same moment; raises the first error."""
    results, errors = in_threads(threads, function)
    for error in filter(None, errors):
        raise error
    return results


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_package_leaves_the_gil_off():
    said = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import ccoll, sys; print(sys._is_gil_enabled())"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout.strip() == "False", said.stderr


TYPES = """
import threading, numpy as np, ccoll
types = [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128]
comms, wrong = ccoll.create_all(4, timeout=20), []
gate = threading.Barrier(4)
def rank(comm):
    gate.wait(20)
    for turn in range(200):
        kind = types[(turn * 5) % len(types)]
        total = comm.all_reduce(np.full(7, comm.rank + 1, kind))
        if total.dtype != kind or (total != 10).any():
            wrong.append(total)
threads = [threading.Thread(target=rank, args=(comm,)) for comm in comms]
for each in threads: each.start()
for each in threads: each.join()
print(len(wrong), "wrong")
"""


def test_ranks_in_threads_meet_types_that_the_process_has_not_seen():
    said = subprocess.run([sys.executable, "-c", TYPES], capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout.strip() == "0 wrong", said.stdout + said.stderr


def test_one_work_is_waited_for_by_many_threads():
    def check(comm):
        for turn in range(20):
            memory = ccoll.allocate(8000)
            out = np.frombuffer(memory)
            work = comm.all_reduce_async(np.ones(1000), out)
            told = []
            # It takes the arrays, so every other turn leaves them to the waits.
            if turn % 2:
                work.on_done(told.append)

            def wait(number, work=work):
                while number % 2 and not work.done():
                    pass
                return work.wait(20) if number % 3 else (work.wait(20), work.exception())[0]

            for result in at_once(wait, 4):
                assert result is out and (out == 2).all()
            end = time.monotonic() + 20
            while turn % 2 and told != [None]:
                assert time.monotonic() < end, told
            del work, result, out, wait
            gc.collect()
            memory.free()  # refused while anything exports it
        return True

    assert ranks(2, check) == [True, True]


def test_each_thread_has_a_tag_in_one_communicator():
    def check(comm):
        other = 1 - comm.rank

        def talk(tag):
            for turn in range(50):
                out = np.zeros(10_000, np.int64)
                # It waits for its receive, and nobody for it: the communicator keeps its array.
                comm.send_async(np.full(10_000, 1000 * tag + turn), other, tag)
                comm.recv(out, other, tag)
                assert (out == 1000 * tag + turn).all()

        at_once(talk)

    ranks(2, check)


CALLS = {
    "all_reduce": lambda comm: comm.all_reduce(np.ones(5)),
    "gather": lambda comm: comm.gather(np.ones(5)),
    "send_recv": lambda comm: comm.send_recv(np.ones(5), 0, np.zeros(5), 0),
    "probe": lambda comm: comm.try_probe() or comm.probe(timeout=0.001),
    "counters": lambda comm: comm.counters(),
    "duplicate": lambda comm: comm.duplicate().close(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("end", ["close", "leave", "with"])
def test_a_communicator_ends_while_others_call_it(name, end):
    for _ in range(5):
        (comm,) = ccoll.create_all(1)
        called = threading.Semaphore(0)

        def call(number, comm=comm, called=called):
            if number == 0:
                for _ in range(3):
                    assert called.acquire(timeout=20)
                if end != "with":
                    return getattr(comm, end)()
                with pytest.raises(KeyError), comm:
                    raise KeyError
                return None
            try:
                while True:
                    try:
                        CALLS[name](comm)
                    except (TimeoutError, ccoll.InvalidArgument):  # a probe's; two make groups at once
                        pass
                    called.release()
            except ccoll.Aborted:
                return None

        at_once(call, 4)
        assert comm.closed


def test_communicators_are_made_and_dropped_by_many_threads():
    def make(number):
        for turn in range(5):
            with ccoll.create_all(1, name=f"thread {number} turn {turn}")[0] as comm:
                assert comm.name == f"thread {number} turn {turn}"
                assert comm.duplicate().size == 1

    at_once(make, 4)


def test_options_are_set_by_many_threads():
    options = ccoll.Options()
    names = [f"the name of thread {number}, which is long" for number in range(THREADS)]

    def change(number):
        for _ in range(500):
            options.name = names[number]
            assert options.name in names
            options.timeout = number + 1.0

    at_once(change)
    assert options.name in names and 1 <= options.timeout <= THREADS


def test_one_thread_alone_enters_a_group():
    for _ in range(20):
        group = ccoll.CallGroup()
        inside = threading.Barrier(4)

        def enter(_, group=group, inside=inside):
            try:
                with group:
                    inside.wait(20)
                    return 1
            except ccoll.InvalidArgument:
                inside.wait(20)
                return 0

        assert sum(at_once(enter, 4)) == 1


def test_registered_memory_is_exported_and_freed_by_many_threads():
    freed = 0
    for _ in range(200):
        memory = ccoll.allocate(1 << 14)

        def use(number, memory=memory):
            for _ in range(20):
                try:
                    if number == 0:
                        memory.free()
                        return 1
                    with memoryview(memory) as view:
                        view[7] = 1
                except BufferError as refused:
                    if "freed" in str(refused):
                        return 0
                    assert "still use" in str(refused)
            return 0

        freed += at_once(use, 4)[0]
        memory.free()
    assert freed > 0


def test_a_function_of_python_reduces_in_many_communicators():
    def check(_):
        def longest(comm):
            most = comm.all_reduce(np.array([comm.rank, 5 - comm.rank]), op=lambda a, b: np.maximum(a, b))
            assert most.tolist() == [1, 5]

        for _ in range(5):
            ranks(2, longest)

    at_once(check, 3)
