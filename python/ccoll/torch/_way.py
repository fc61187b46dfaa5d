# SPDX-License-Identifier: Apache-2.0
"""Which of the two ways makes a process: the plugin in C++, where the package has one for this torch, or Python."""

from __future__ import annotations

import atexit
import functools
import os
import re
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import ccoll

NAME = "ccoll"
VARIABLE = "CCOLL_TORCH_WAY"
PYTHON, CPP = "python", "c++"
_CPU = torch.device("cpu")


@functools.cache
def way() -> str:
    """The way of this process. Loads the plugin, if it is to be that one."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", PYTHON, CPP):
        raise ValueError(f"{VARIABLE}={asked}: expected {PYTHON} or {CPP}")
    if asked == PYTHON:
        return PYTHON
    why = _load()
    if why and asked == CPP:
        raise RuntimeError(f"{VARIABLE}={CPP}: {why}")
    return PYTHON if why else CPP


def _load() -> str:
    """Loads the plugin; returns why it cannot, or nothing."""
    # C++ code of torch differs from minor version to minor version, and in what was no release.
    release = re.fullmatch(r"(\d+)\.(\d+)\.\d+(\+.*)?", torch.__version__)
    if release is None:
        return f"there is a plugin for releases of torch alone, not for {torch.__version__}"
    plugin = f"ccoll_torch_{release[1]}_{release[2]}.so"
    path = os.path.join(os.path.dirname(__file__), plugin)
    if not os.path.exists(path):
        return f"the package has no plugin for torch {torch.__version__} ({plugin})"
    try:
        torch.ops.load_library(path)
    except OSError as error:
        return str(error)
    # Threads of the library must have ended before the interpreter does.
    atexit.register(torch.ops.ccoll.close_all)
    _add_nocolor_split()
    return ""


def _add_nocolor_split() -> None:
    """Adds a method that torch's new_group calls and torch's class for backends in C++ lacks.

    Ranks outside the new group call it, if the job's group has a device_id and its backend can be split. Other
    backends in C++ lack the method as before.
    """

    def of(backend: Any) -> Any:
        if backend.name() == NAME:
            # Members meet through the store, so the other ranks have no part in it.
            return lambda device: None
        raise AttributeError(f"the backend {backend.name()!r} has no perform_nocolor_split")

    if not hasattr(c10d.Backend, "perform_nocolor_split"):
        c10d.Backend.perform_nocolor_split = property(of)


def devices() -> list[str]:
    """The kinds of devices whose tensors this process's way takes."""
    return ["cpu", "cuda"] if way() == CPP else ["cpu"]


def create(options: Any, more: Any = None) -> Any:
    """torch calls it for each group of this backend, on its members."""
    if way() == PYTHON:
        from ._older import check

        check()
        from ._group import create as create_group

        return create_group(options, more)
    return _create(options)


def _create(options: Any) -> Any:
    from ._host import interface_of_job

    # torch has no other way to hand a backend from C++ to Python.
    bearer = c10d.ProcessGroup(options.store, options.group_rank, options.group_size)
    timeout_ms = max(1, round(options.timeout.total_seconds() * 1000))
    torch.ops.ccoll.attach(bearer.boxed(), options.group_id, interface_of_job(options.store), timeout_ms)
    backend = bearer._get_backend(_CPU)
    if not dist.is_initialized():
        # init_process_group tells what is wrong, not the first call. In between, Ctrl-C ends it.
        try:
            while not torch.ops.ccoll.is_made(options.group_id, 50):
                pass
        except BaseException:
            backend.shutdown()
            raise
    return backend


def communicator_of(group: Any) -> tuple[ccoll.Communicator, float]:
    """The communicator of a process group of either way, and the time limit of its calls in seconds."""
    if way() == PYTHON:
        # torch itself makes the group around a backend of ours, by split_group or shrink_group.
        core = group.core if hasattr(group, "core") else group._get_backend(_CPU).core
        return core.communicator(), core.limit(None, None)
    ops = torch.ops.ccoll
    return ccoll._native._take_over(ops.communicator(group.group_name)), ops.timeout_ms(group.group_name) / 1000
