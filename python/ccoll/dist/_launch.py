# SPDX-License-Identifier: Apache-2.0
"""How a process joins its job: under torchrun, Slurm or MPI."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from numbers import Real
from typing import Any

from ._library import has_torch, library

_PORT = "29500"


def infer_launcher() -> str:
    """The launcher that started this process, by its environment: "pytorch", "slurm", "mpi" or "none"."""
    if "WORLD_SIZE" in os.environ:
        return "pytorch"
    if "SLURM_NTASKS" in os.environ:
        return "slurm"
    if "OMPI_COMM_WORLD_LOCAL_RANK" in os.environ:
        return "mpi"
    return "none"


def init_dist(launcher: str, backend: str | None = None, init_backend: str = "torch", **kwargs: Any) -> None:
    """Joins the job that a launcher started.

    launcher: "pytorch" (torchrun), "slurm" or "mpi" (Open MPI). backend: None takes the GPU's own where there is
    one, else "ccoll". init_backend: "torch" alone. kwargs: as init_process_group takes them, but timeout is in
    seconds; Slurm has port, too.

    Raises ValueError for another launcher, TypeError for a timeout that is no number, KeyError where the
    environment lacks what the launcher sets, and what init_process_group raises.
    """
    import multiprocessing

    describe = {"pytorch": _by_torchrun, "slurm": _by_slurm, "mpi": _by_mpi}.get(launcher)
    if describe is None:
        raise ValueError(
            f"init_dist: launcher is {launcher!r}: expected 'pytorch', 'slurm' or 'mpi'; "
            "a process that is alone does not call init_dist"
        )
    if init_backend != "torch":
        raise ValueError(f"init_dist: init_backend is {init_backend!r}: expected 'torch'")
    _set_timeout(kwargs)
    chosen = _choose_device(describe(kwargs), backend)
    if multiprocessing.get_start_method(allow_none=True) is None:
        multiprocessing.set_start_method("spawn")
    init_process_group(chosen, **kwargs)


def init_process_group(backend: str | None = None, *arguments: Any, launcher: str | None = None, **named: Any) -> None:
    """init_dist() where a launcher is given, else torch's own init_process_group.

    Without torch it joins the job that the environment describes, whatever started it (cc-run, too).
    """
    if launcher is not None:
        if arguments:
            raise TypeError(f"init_process_group: {len(arguments)} more positional arguments beside launcher: expected names, as in timeout=60")
        init_dist(launcher, backend, **named)
        return
    if has_torch() and backend is not None and "ccoll" in backend:
        import ccoll.torch  # noqa: F401  # torch before 2.14 does not find the backend by itself
    library().init_process_group(backend, *arguments, **named)


def _set_timeout(named: dict[str, Any]) -> None:
    timeout = named.get("timeout")
    if timeout is None or isinstance(timeout, timedelta):
        return
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise TypeError(
            f"init_dist: timeout is {type(timeout).__name__}: expected seconds, as init_dist('pytorch', timeout=1800)"
        )
    named["timeout"] = timedelta(seconds=float(timeout))


def _need(launcher: str, *names: str) -> list[str]:
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise KeyError(f"init_dist: launcher is {launcher!r}, and the environment lacks {', '.join(missing)}")
    return [os.environ[name] for name in names]


def _by_torchrun(named: dict[str, Any]) -> int:
    (rank,) = [str(named["rank"])] if "rank" in named else _need("pytorch", "RANK")
    _number("RANK", rank)
    return _number("LOCAL_RANK", os.environ.get("LOCAL_RANK", rank))


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"init_dist: {name} is {value!r}: expected the number of a rank")
    return int(value)


def _tell(rank: str, size: str, local_rank: str) -> int:
    """Sets what env:// reads."""
    local = _number("the local rank", local_rank)
    os.environ.update(RANK=rank, WORLD_SIZE=size, LOCAL_RANK=local_rank)
    return local


def _by_mpi(_: dict[str, Any]) -> int:
    prefix = "OMPI_COMM_WORLD_"
    rank, size, local_rank = _need("mpi", *(prefix + each for each in ("RANK", "SIZE", "LOCAL_RANK")))
    if os.environ.get(prefix + "LOCAL_SIZE") == size:  # all are on this host
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    _need("mpi", "MASTER_ADDR")
    os.environ.setdefault("MASTER_PORT", _PORT)
    return _tell(rank, size, local_rank)


def _by_slurm(named: dict[str, Any]) -> int:
    port = named.pop("port", None)
    rank, size, local_rank = _need("slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    if "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"] = _first_host(*_need("slurm", "SLURM_NODELIST"))
    if port is not None:
        os.environ["MASTER_PORT"] = str(port)
    os.environ.setdefault("MASTER_PORT", _PORT)
    return _tell(rank, size, local_rank)


def _first_host(nodes: str) -> str:
    try:
        said = subprocess.run(
            ["scontrol", "show", "hostname", nodes], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        return said.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError) as error:
        why = f"{error} {getattr(error, 'stderr', None) or ''}".strip()
        raise RuntimeError(
            f"init_dist: scontrol does not name the hosts of {nodes!r} ({why}): set MASTER_ADDR to the first one"
        ) from None


def _choose_device(local_rank: int, backend: str | None) -> str | None:
    """The backend; makes the GPU of this rank the current one where there is any."""
    if not has_torch():
        return backend
    torch = sys.modules["torch"]
    for kind, own in (("cuda", "nccl"), ("npu", "hccl"), ("mlu", "cncl"), ("musa", "mccl")):
        if hasattr(torch, kind) and getattr(torch, kind).is_available():
            getattr(torch, kind).set_device(local_rank % getattr(torch, kind).device_count())
            return backend or own
    if backend in ("nccl", "smddp"):
        raise RuntimeError(f"init_dist: backend {backend!r} needs a GPU, and there is none: give 'ccoll' or None")
    return backend or "ccoll"
