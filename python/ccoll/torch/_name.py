# SPDX-License-Identifier: Apache-2.0
"""CCOLL_TORCH_AS: ccoll serves another backend's name, so that programs written for that one run unchanged."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

if TYPE_CHECKING:
    from ._group import Group

VARIABLE = "CCOLL_TORCH_AS"
NAMES = ("gloo", "nccl")
_has_told = False


def take_over() -> None:
    """Serves the name that the variable has; where it is not set, nothing changes."""
    from ._way import devices

    name = os.environ.get(VARIABLE)
    if not name:
        return
    if name not in NAMES:
        raise ValueError(f"{VARIABLE}={name}: expected {' or '.join(NAMES)}")
    if not hasattr(distributed_c10d, "_register_builtin_gloo_backend"):
        # An older torch makes its own backends by name, before it looks for registered ones.
        raise RuntimeError(
            f"{VARIABLE}={name}: torch {torch.__version__} lets no other backend use that name, torch 2.15 does; "
            'write "ccoll" as the backend\'s name'
        )
    dist.Backend.register_backend(name, _create, extended_api=True, devices=devices())
    # By that backend's own type, torch would read ours in C++ as that one, past its end.
    dist.Backend.backend_type_map[name] = dist.ProcessGroup.BackendType.CUSTOM


def _create(options: Any, more: Any = None) -> Group:
    from ._way import create

    global _has_told
    # The first group of a process is the job's: its rank 0 tells for all.
    if not _has_told and options.group_rank == 0:
        said = f'ccoll: info: serves the backend "{os.environ.get(VARIABLE)}" of torch.distributed ({VARIABLE})'
        print(said, file=sys.stderr, flush=True)
    _has_told = True
    return create(options, more)
