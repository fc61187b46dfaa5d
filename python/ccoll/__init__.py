# SPDX-License-Identifier: Apache-2.0
"""Collective communication: all_reduce and its kin, for numpy, torch and whatever has the buffer protocol or DLPack.

    import ccoll, numpy
    with ccoll.create() as comm:
        total = comm.all_reduce(numpy.ones(3))

`python -m ccoll.run -n 4 script.py` starts four ranks on this host.
"""

import atexit as _atexit

from ccoll import _arrays, _awaiting, _errors, _native, _objects
from ccoll._errors import (
    Aborted,
    Corrupt,
    Error,
    Exhausted,
    Internal,
    InvalidArgument,
    Mismatch,
    PeerLost,
    TimeoutError,
    Unsupported,
)
from ccoll._native import (
    ANY_RANK,
    ANY_TAG,
    CallGroup,
    Communicator,
    DataType,
    Memory,
    Mesh,
    Options,
    Received,
    Recv,
    ReduceOp,
    Reduction,
    Send,
    Store,
    StoreServer,
    UniqueId,
    Work,
    allocate,
    file_store,
    inproc_store,
    prefix_store,
    serve_store,
    tcp_store,
)

__version__ = _native.version()
__all__ = [
    "ANY_RANK", "ANY_TAG", "Aborted", "CallGroup", "Communicator", "Corrupt", "DataType", "Error", "Exhausted",
    "Internal", "InvalidArgument", "Memory", "Mesh", "Mismatch", "Options", "PeerLost", "Received", "Recv", "ReduceOp",
    "Reduction", "Send", "Store", "StoreServer", "TimeoutError", "UniqueId", "Unsupported", "Work", "allocate",
    "create", "create_all", "file_store", "inproc_store", "launch", "prefix_store", "serve_store", "tcp_store",
    "wait_all",
]  # fmt: skip

_native._use(
    {
        "error": _errors.make,
        "describe": _arrays.describe,
        "empty": _arrays.empty,
        "pack": _arrays.pack,
        "copies": _arrays.Copies,
        "torch_map": _arrays.torch_map,
        "combine": _arrays.combine,
        "finish_all": _arrays.finish_all,
    }
)
for _method in _objects.METHODS:
    setattr(Communicator, _method.__name__, _method)
Work.__await__ = _awaiting.await_work
# Threads of the library must have ended before the interpreter does.
_atexit.register(_native._close_all)


def _options(options, settings):
    made = Options() if options is None else options
    for name, value in settings.items():
        if name.startswith("_") or not hasattr(made, name):
            known = ", ".join(each for each in dir(Options) if not each.startswith("_"))
            raise TypeError(f"'{name}' is not an option: expected one of {known}")
        try:
            setattr(made, name, value)
        except TypeError:
            expected = type(getattr(made, name)).__name__
            raise TypeError(f"option {name} is {value!r}: expected {expected}") from None
    return made


def create(id=None, *, store=None, rank=None, size=None, options=None, **settings):
    """A communicator of all ranks of the job. Collective: returns when all have come.

    Without arguments the environment says who takes part (cc-run, torchrun, mpirun, Slurm); where it says
    nothing, one rank is alone. With `store` or `id`, also give this process's rank and the number of ranks.

    id: a UniqueId, or its bytes, which every rank was handed.
    store: a Store that all ranks reach.
        Any object serves that has a Store's methods set, get, compare_set and list.
    options: an Options; settings: its attributes by name, which count beside the environment. `start_timeout=60`
        limits this call, `timeout=30` those of the communicator, in seconds.

    Raises InvalidArgument, TimeoutError (names the ranks that are missing), Mismatch (different options),
    Unsupported, Exhausted, PeerLost. Ctrl-C ends it.
    """
    if id is None and store is None:
        if rank is not None or size is not None:
            given = "size" if rank is None else "rank" if size is None else "rank and size"
            raise TypeError(f"create: {given} given without an id or a store: expected one of these, too")
    elif id is not None and store is not None:
        raise TypeError("create: id and store are given: expected one of them")
    elif rank is None or size is None:
        raise TypeError("create: rank or size is missing: expected both beside an id or a store")
    if id is not None and not isinstance(id, UniqueId):
        id = UniqueId(bytes(id))
    if store is not None and not isinstance(store, Store):
        store = _native.own_store(store)
    return _native.create(id, store, rank or 0, size or 1, _options(options, settings))


def create_all(size, *, options=None, **settings):
    """All `size` ranks in this process, by rank: for threads that take one each. As create() otherwise."""
    return _native.create_all(size, _options(options, settings))


def wait_all(works, timeout=None):
    """Waits for all of a list of Works; returns their results in order.

    timeout: of all together, in seconds. All are waited for before the first error is raised.
    """
    import time

    end = None if timeout is None else time.monotonic() + timeout
    results, failure = [], None
    for number, work in enumerate(works):
        if not callable(getattr(work, "wait", None)):
            raise TypeError(f"wait_all: works[{number}] is {type(work).__name__}: expected a Work")
        try:
            results.append(work.wait(None if end is None else max(0.0, end - time.monotonic())))
        except Error as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return results


def launch(program, ranks, *options, timeout=None):
    """Starts `ranks` processes of a program on this host by cc-run; returns the exit status. See ccoll.run.launch."""
    from ccoll import run

    return run.launch(program, ranks, *options, timeout=timeout)
