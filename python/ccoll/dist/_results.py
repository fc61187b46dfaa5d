# SPDX-License-Identifier: Apache-2.0
"""The results of all ranks' shares of a data set, put in its order at rank 0."""

from __future__ import annotations

import contextlib
import os
import pickle
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
    on every rank where tmpdir is not shared.
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
    """All parts at rank 0. What a rank cannot do, all raise. The files are removed, and the directory if empty."""
    paths = [os.path.join(tmpdir, f"part_{each}.pkl") for each in range(ranks)]
    try:
        _raise_first(_tried(lambda: _write(part, tmpdir, paths[rank])))
        parts: list[Any] = []
        _raise_first(_tried(lambda: parts.extend(map(_read, paths)) if rank == 0 else None))
        return parts if rank == 0 else None
    finally:
        with contextlib.suppress(OSError):
            os.remove(paths[rank])
        with contextlib.suppress(OSError):
            os.rmdir(tmpdir)


def _tried(step: Any) -> OSError | None:
    try:
        step()
    except OSError as error:
        return error
    return None


def _raise_first(failure: OSError | None) -> None:
    """Waits for all ranks; raises the failure of the first that has one."""
    for rank, each in enumerate(all_gather_object(failure)):
        if each is not None:
            raise type(each)(each.errno, f"collect_results: rank {rank}: {each.strerror}", each.filename)


def _write(part: list[Any], folder: str, path: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        pickle.dump(part, file)


def _read(path: str) -> Any:
    if not os.path.exists(path):
        raise FileNotFoundError(2, "the directory must be one that all ranks share; no such file", path)
    with open(path, "rb") as file:
        return pickle.load(file)
