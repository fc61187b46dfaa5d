# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over ccoll: init_process_group("ccoll").

From torch 2.14 on no import is needed. With an older one, import ccoll.torch before init_process_group.
"""

from __future__ import annotations

import torch.distributed as _dist

__all__ = ["implementation", "register"]


def register() -> None:
    """Makes "ccoll" a backend of torch.distributed, and takes over the name in CCOLL_TORCH_AS. Called again, it
    does nothing. Tensors of GPUs need the backend in C++ and a package that was built with CUDA."""
    from ._name import take_over
    from ._way import NAME, create, devices

    if NAME not in _dist.Backend.backend_list:
        take_over()
        _dist.Backend.register_backend(NAME, create, extended_api=True, devices=devices())


def implementation() -> str:
    """Which of the two ways serves torch in this process: "python", or "c++"."""
    from ._way import way

    return way()


register()
