# SPDX-License-Identifier: Apache-2.0
"""Which library makes the calls: torch.distributed where torch is installed, else _numpy, which has the same calls.

Neither is imported before a call needs it.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import sys
from typing import Any

log = logging.getLogger("ccoll.dist")


@functools.cache
def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@functools.cache
def library() -> Any:
    """torch.distributed, or ccoll.dist._numpy."""
    if not is_installed("torch"):
        from . import _numpy

        return _numpy
    import torch.distributed

    return torch.distributed


def is_distributed() -> bool:
    """Whether this process is in a process group. Imports nothing."""
    for name in ("torch.distributed", "ccoll.dist._numpy"):
        is_initialized = getattr(sys.modules.get(name), "is_initialized", None)
        if is_initialized is not None and is_initialized():
            return True
    return False


@functools.cache
def tell_if_forgotten() -> None:
    """Says once, in the log, that the environment describes a job which this process has not joined."""
    if is_distributed():
        return
    for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "CCOLL_SIZE"):
        size = os.environ.get(name, "1")
        if size not in ("", "1"):
            log.warning("%s is %s, but this process is in no group: its calls stay local", name, size)
            return


def has_torch() -> bool:
    return bool(library().__name__ == "torch.distributed")
