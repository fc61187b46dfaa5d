# SPDX-License-Identifier: Apache-2.0
"""All that differs between versions of torch for the backend in Python.

From torch 2.14 on, a class of Python may be a backend of a process group. Before, only a process group may be one.
Then torch's C++ code finds a stand-in where it looks for the group's backend, and Python code finds ours.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

CPU = torch.device("cpu")
CUSTOM = c10d.ProcessGroup.BackendType.CUSTOM


def _has_backends() -> bool:
    try:
        c10d.Backend(0, 1)
    except TypeError:  # it has no constructor
        return False
    return True


HAS_BACKENDS = _has_backends()


def check() -> None:
    """Raises where neither a backend nor the stand-in can be made. Other modules of the backend may not even be
    imported there, so they are imported after this."""
    options = getattr(getattr(c10d, "FakeProcessGroup", None), "Options", None)
    if not HAS_BACKENDS and not hasattr(options, "error_on_collective"):
        raise RuntimeError(f"ccoll: the backend in Python needs torch 2.10 or newer, this is {torch.__version__}")


class _NoBackend:
    """In the place of torch's class, for Python alone."""

    def __init__(self, rank: int, size: int) -> None:
        pass


BackendBase: Any = c10d.Backend if HAS_BACKENDS else _NoBackend


class GroupBase(c10d.ProcessGroup):
    """torch's class, with `backend` as its backend for the CPU."""

    def __init__(self, store: c10d.Store, rank: int, size: int, backend: Any) -> None:
        try:
            super().__init__(store, rank, size)
        except TypeError:  # before torch 2.14
            super().__init__(rank, size)
        self.backend = backend
        self._register_backend(CPU, CUSTOM, backend if HAS_BACKENDS else _stand_in(rank, size))
        self._set_default_backend(CUSTOM)

    if not HAS_BACKENDS:

        def _get_backend(self, device: torch.device) -> Any:
            if torch.device(device).type != CPU.type:
                raise RuntimeError(f"ccoll: the process group has no backend for {device}")
            return self.backend


def _stand_in(rank: int, size: int) -> Any:
    """A backend of torch's own that connects to nothing. Calls of torch's C++ code reach the group's own methods. A
    collective that has none there must raise, for it would be left undone in silence.

    Messages cannot be made to raise: the stand-in returns a Work and does nothing. But send and recv have methods in
    the group, so only a caller that asks for the backend itself (torch.ops.c10d.send) reaches the stand-in's."""
    options = c10d.FakeProcessGroup.Options()
    options.error_on_collective = True
    return c10d.FakeProcessGroup._create_internal(rank, size, options)


def factor_of(op: Any) -> float:
    """The factor of a PREMUL_SUM, which may be a tensor of one element."""
    # Before torch 2.13 the factor has no name.
    return float(op.factor if hasattr(op, "factor") else op.__getstate__()[1])
