# SPDX-License-Identifier: Apache-2.0
"""The results of all ranks' shares of a data set, put in its order at rank 0."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import uuid
from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Any

from ._objects import all_gather_object, gather_object
from .utils import get_dist_info

_DEVICES = ("cpu", "gpu", "npu")
_NOTHING = object()


def collect_results(results: list[Any], size: int, device: str = "cpu", tmpdir: str | None = None) -> list[Any] | None:
    """All ranks' results at rank 0, None elsewhere: the first of each rank, then the second, cut to `size`.

    This is the order of a DistributedSampler, whose padding the cut removes. device: "cpu", "gpu" or "npu".
    tmpdir: a directory that all ranks share, through which the results then go, on the CPU only. Without one
    they are sent as objects.

    Raises NotImplementedError for another device, AssertionError for tmpdir beside a GPU, and FileNotFoundError
    on every rank where tmpdir is not shared. Where a rank cannot pickle its results, its error is raised there
    and RuntimeError elsewhere; without tmpdir, at rank 0.
    """
    if device not in _DEVICES:
        raise NotImplementedError(f"collect_results: device is {device!r}: expected 'cpu', 'gpu' or 'npu'")
    if device != "cpu":
        assert tmpdir is None, f"collect_results: tmpdir is {tmpdir!r}: expected None where device is {device!r}"
        return collect_results_gpu(results, size)
    return collect_results_cpu(results, size, tmpdir)


def collect_results_cpu(result_part: list[Any], size: int, tmpdir: str | None = None) -> list[Any] | None:
    """As collect_results(result_part, size, "cpu", tmpdir)."""
    rank, ranks = get_dist_info()
    if ranks == 1:
        return result_part[:size]
    parts = gather_object(result_part) if tmpdir is None else _through_files(result_part, tmpdir, rank, ranks)
    return None if parts is None else _in_order(parts, size)


def collect_results_gpu(result_part: list[Any], size: int) -> list[Any] | None:
    """As collect_results(result_part, size, "gpu"): over the group's backend."""
    return collect_results_cpu(result_part, size)


def _in_order(parts: list[list[Any]], size: int) -> list[Any]:
    interleaved = chain.from_iterable(zip_longest(*parts, fillvalue=_NOTHING))
    return [each for each in interleaved if each is not _NOTHING][:size]


def _through_files(part: list[Any], tmpdir: str, rank: int, ranks: int) -> list[Any] | None:
    """All parts at rank 0. What a rank cannot do, all raise. Nothing is left behind; tmpdir goes, too, if empty."""
    # Each call has a folder of its own: a slow rank may still be in this call when others make the next one.
    own = f"results-{uuid.uuid4().hex}" if rank == 0 else ""
    try:
        own = _tell(lambda: _make(tmpdir, own))[0]
        files = [os.path.join(tmpdir, own, f"part_{each}.pkl") for each in range(ranks)]
        _tell(lambda: _write(part, files[rank]))
        parts: list[Any] = []
        _tell(lambda: parts.extend(map(_read, files)) if rank == 0 else None)
        return parts if rank == 0 else None
    finally:
        if rank == 0:
            shutil.rmtree(os.path.join(tmpdir, own), ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(tmpdir)


def _tell(step: Callable[[], Any]) -> list[Any]:
    """The results of all ranks' steps, by rank, when all have made theirs. Raises on every rank where one failed."""
    result: Any = None
    told: Any = None
    failure: Exception | None = None
    try:
        result = step()
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            told = error.errno, str(error.strerror), error.filename
        else:
            failure, told = error, (None, f"{type(error).__name__}: {error}", None)
    everyone = all_gather_object((result, told))
    if failure is not None:
        raise failure
    for rank, (_, each) in enumerate(everyone):
        if each is not None:
            number, text, path = each
            text = f"collect_results: rank {rank}: {text}"
            raise RuntimeError(text) if number is None else OSError(number, text, path)
    return [each for each, _ in everyone]


def _make(tmpdir: str, own: str) -> str:
    """Makes the folder at rank 0, which alone has a name for it; returns the name."""
    if own:
        os.makedirs(os.path.join(tmpdir, own))
    return own


def _write(part: list[Any], path: str) -> None:
    try:
        file = open(path, "wb")
    except FileNotFoundError:
        raise FileNotFoundError(2, "the directory must be one that all ranks share; no such file", path) from None
    with file:
        pickle.dump(part, file)


def _read(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)
