# SPDX-License-Identifier: Apache-2.0
"""Distributed calls for training scripts, which work the same where the process is alone.

    from ccoll import dist
    dist.init_dist("pytorch")
    dist.all_reduce(loss, "mean")

Compatible with mmengine.dist and scaletorch.dist; over torch's tensors and any backend of torch.distributed, and
over numpy's arrays where torch is not installed.
"""

from __future__ import annotations

from typing import Any

from . import dist, utils
from .dist import *  # noqa: F403
from .utils import *  # noqa: F403

__all__ = sorted(["ReduceOp", *dist.__all__, *utils.__all__])


def __getattr__(name: str) -> Any:
    if name == "ReduceOp":
        from ._library import library

        return library().ReduceOp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
