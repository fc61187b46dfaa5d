# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's calls of a process group, made by ccoll's operations.

Methods take what torch's own take: lists of one tensor, and options or their single parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

import ccoll

from ._core import Batch, Core
from ._monitor import monitored_barrier
from ._sparse import all_reduce_sparse
from ._tensors import as_array, as_arrays, only, reduction, refuse, same_type, sizes_fit
from ._work import Batched, Work

Tensor = torch.Tensor
Tensors = Sequence[torch.Tensor]
SUM = c10d.ReduceOp.SUM


def _op(opts: Any) -> Any:
    """The reduction of options, or of a call that gives it alone."""
    return SUM if opts is None else getattr(opts, "reduceOp", opts)


def _root(opts: Any) -> int:
    return opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)


class Calls:
    """The calls; whoever inherits them sets `core`."""

    core: Core

    # Reductions

    def allreduce(self, tensors: Tensors | Tensor, opts: Any = None, timeout: timedelta | None = None) -> Work:
        tensor = only("all_reduce", tensors)
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, opts, timeout)
        flat = as_array("all_reduce", tensor)
        op, limit = reduction("all_reduce", _op(opts), tensor), self.core.limit(opts, timeout)
        return self.core.begin([tensor], lambda on: [on.all_reduce_async(flat, flat, op, timeout=limit)])

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work:
        """One call for each type among the tensors."""
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for each in tensors:
            by_type.setdefault(each.dtype, []).append(as_array("all_reduce_coalesced", each))
        ops = {kind: reduction("all_reduce_coalesced", _op(opts), torch.empty(0, dtype=kind)) for kind in by_type}
        limit = self.core.limit(opts, None)
        return self.core.begin(
            list(tensors),
            lambda on: [
                on.all_reduce_async(all_of, all_of, ops[kind], timeout=limit) for kind, all_of in by_type.items()
            ],
        )

    def allreduce_sparse(self, tensors: Tensors, opts: Any = None) -> Work:
        return self._allreduce_sparse(only("all_reduce", tensors), opts, None)

    def _allreduce_sparse(self, tensor: Tensor, opts: Any, timeout: timedelta | None) -> Work:
        """Over when it returns."""
        op, limit = reduction("all_reduce", _op(opts), tensor), self.core.limit(opts, timeout)

        def call(on: ccoll.Communicator) -> list[Any]:
            all_reduce_sparse(on, tensor, op, limit)
            return []

        return self.core.begin([tensor], call)

    def reduce(
        self, tensors: Tensors | Tensor, opts: Any = None, op: Any = None, timeout: timedelta | None = None
    ) -> Work:
        tensor = only("reduce", tensors)
        flat = as_array("reduce", tensor)
        root = _root(opts)
        kind = reduction("reduce", op if op is not None else _op(opts if not isinstance(opts, int) else None), tensor)
        limit = self.core.limit(opts, timeout)
        out = flat if root == self.core.rank else None
        return self.core.begin(
            [tensor],
            lambda on: [on.reduce_async(flat, root, kind, out=out, timeout=limit)],
        )

    def reduce_scatter(
        self, outputs: Tensors | Tensor, inputs: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        out = only("reduce_scatter", outputs)
        blocks = inputs[0] if isinstance(inputs[0], (list, tuple)) else inputs
        self._one_for_each("reduce_scatter", blocks)
        same_type("reduce_scatter", out, blocks)
        flat = as_array("reduce_scatter", out)
        read = as_arrays("reduce_scatter", blocks)
        op, limit = reduction("reduce_scatter", _op(opts), out), self.core.limit(opts, timeout)
        return self.core.begin([out], lambda on: [on.reduce_scatter_v_async(read, flat, op, timeout=limit)])

    def reduce_scatter_single(self, out: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([out], [tensor], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        call, size = "reduce_scatter_single", self.core.size
        for out, tensor in zip(outputs, inputs, strict=True):
            sizes_fit(call, tensor, out.numel() * size, f"{size} times the output's")
        ops = [reduction(call, _op(opts), out) for out in outputs]
        limit = self.core.limit(opts, None)
        return self._pairs(
            call, outputs, inputs,
            lambda on, read, flat, i: on.reduce_scatter_async(read, flat, ops[i], timeout=limit),
        )  # fmt: skip

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # One to all, all to one, all to all

    def broadcast(self, tensors: Tensors | Tensor, opts: Any = None, timeout: timedelta | None = None) -> Work:
        tensor = only("broadcast", tensors)
        root, limit = _root(opts), self.core.limit(opts, timeout)
        flat = as_array("broadcast", tensor)
        return self.core.begin([tensor], lambda on: [on.broadcast_async(flat, root, flat, timeout=limit)])

    def allgather(
        self, outputs: Any, inputs: Tensors | Tensor, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        tensor = only("all_gather", inputs)
        outs = outputs[0] if isinstance(outputs[0], (list, tuple)) else outputs
        return self._all_gather_lists([outs], [tensor], self.core.limit(opts, timeout))

    def allgather_coalesced(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """outputs[r][i] is rank r's inputs[i]."""
        self._one_for_each("all_gather_coalesced", outputs)
        lists = [[of_rank[i] for of_rank in outputs] for i in range(len(inputs))]
        return self._all_gather_lists(lists, inputs, self.core.limit(opts, None))

    def _all_gather_lists(self, lists: Sequence[Tensors], inputs: Tensors, limit: float) -> Work:
        call = "all_gather"
        parts = []
        for outs, tensor in zip(lists, inputs, strict=True):
            self._one_for_each(call, outs)
            same_type(call, tensor, outs)
            flats = as_arrays(call, outs)
            parts.append((as_array(call, tensor), flats))
        return self.core.begin(
            [out for outs in lists for out in outs],
            lambda on: [on.all_gather_v_async(read, flats, timeout=limit) for read, flats in parts],
        )

    def all_gather_single(self, out: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([out], [tensor], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        call, size = "all_gather_single", self.core.size
        for out, tensor in zip(outputs, inputs, strict=True):
            sizes_fit(call, out, tensor.numel() * size, f"{size} times the input's")
        limit = self.core.limit(opts, None)
        return self._pairs(
            call, outputs, inputs, lambda on, read, flat, _: on.all_gather_async(read, flat, timeout=limit)
        )

    def _pairs(self, call: str, outputs: Tensors, inputs: Tensors, begin: Callable[..., Any]) -> Work:
        """begin(communicator, input, output, index) for each pair, as one Work."""
        for out, tensor in zip(outputs, inputs, strict=True):
            same_type(call, out, [tensor])
        flats = as_arrays(call, outputs)
        read = as_arrays(call, inputs)
        return self.core.begin(
            list(outputs), lambda on: [begin(on, *pair, i) for i, pair in enumerate(zip(read, flats))]
        )

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(
        self, outputs: Any, inputs: Tensors | Tensor, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        call, tensor, root = "gather", only("gather", inputs), _root(opts)
        limit, read = self.core.limit(opts, timeout), as_array(call, tensor)
        outs: Tensors = []
        flats = None
        if root == self.core.rank:
            outs = outputs[0] if outputs and isinstance(outputs[0], (list, tuple)) else outputs
            self._one_for_each(call, outs)
            same_type(call, tensor, outs)
            flats = as_arrays(call, outs)
        return self.core.begin(list(outs), lambda on: [on.gather_v_async(read, flats, root, timeout=limit)])

    def gather_single(self, out: Tensor, tensor: Tensor, opts: Any = None) -> Work:
        call, root, limit = "gather_single", _root(opts), self.core.limit(opts, None)
        read, flat = as_array(call, tensor), None
        if root == self.core.rank:
            same_type(call, out, [tensor])
            sizes_fit(call, out, tensor.numel() * self.core.size, f"{self.core.size} times the input's")
            flat = as_array(call, out)
        return self.core.begin([out], lambda on: [on.gather_async(read, root, flat, timeout=limit)])

    gather_into_tensor = gather_single

    def scatter(
        self, outputs: Tensors | Tensor, inputs: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:
        call, out, root = "scatter", only("scatter", outputs), _root(opts)
        limit = self.core.limit(opts, timeout)
        read = None
        if root == self.core.rank:
            blocks = inputs[0] if inputs and isinstance(inputs[0], (list, tuple)) else inputs
            self._one_for_each(call, blocks)
            same_type(call, out, blocks)
            read = as_arrays(call, blocks)
        flat = as_array(call, out)
        return self.core.begin([out], lambda on: [on.scatter_v_async(read, flat, root, timeout=limit)])

    def all_to_all_single(
        self,
        out: Tensor,
        tensor: Tensor,
        out_splits: Sequence[int] = (),
        splits: Sequence[int] = (),
        opts: Any = None,
        timeout: timedelta | None = None,
    ) -> Work:
        call, size = "all_to_all_single", self.core.size
        if not (out.is_contiguous() and tensor.is_contiguous()):
            raise refuse(call, f"Tensors must be contiguous: {describe_pair(tensor, out)}")
        same_type(call, out, [tensor])
        limit = self.core.limit(opts, timeout)
        flat, read = as_array(call, out), as_array(call, tensor)
        counts, out_counts = _counts(call, read, splits, size), _counts(call, flat, out_splits, size)
        if not splits and not out_splits:
            sizes_fit(call, out, tensor.numel(), "as many as the input's")
        # Also where all blocks are equal: other ranks may have given splits.
        return self.core.begin(
            [out],
            lambda on: [on.all_to_all_v_async(read, flat, counts=counts, out_counts=out_counts, timeout=limit)],
        )

    alltoall_base = all_to_all_single

    def alltoall(self, outs: Tensors, tensors: Tensors, opts: Any = None, timeout: timedelta | None = None) -> Work:
        call = "all_to_all"
        for each in (outs, tensors):
            self._one_for_each(call, each)
        same_type(call, outs[0], [*outs, *tensors])
        flats = as_arrays(call, outs)
        read, limit = as_arrays(call, tensors), self.core.limit(opts, timeout)
        return self.core.begin(list(outs), lambda on: [on.all_to_all_v_async(read, flats, timeout=limit)])

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> Work:
        limit = self.core.limit(opts, opts if isinstance(opts, timedelta) else timeout)
        return self.core.begin([], lambda on: [on.barrier_async(timeout=limit)])

    def monitored_barrier(
        self, opts: Any = None, wait_all_ranks: bool = False, timeout: timedelta | None = None
    ) -> None:
        asked = opts if timeout is None else timeout
        if isinstance(asked, timedelta):
            limit = asked.total_seconds()  # 0 is no default here
        else:
            limit = self.core.limit(opts, None)
        monitored_barrier(self.core, limit, wait_all_ranks)

    # Messages

    def send(self, tensors: Tensors | Tensor, peer: int, tag: int = 0) -> Work:
        with self._whole_batch() as batch:
            tensor = only("send", tensors)
            flat = as_array("send", tensor)
            if batch is not None:
                return self._batched(batch, ccoll.Send(flat, peer, tag), tensor)
            limit = self.core.limit(None, None)
            return self.core.begin(
                [tensor], lambda on: [on.send_async(flat, peer, tag, timeout=limit)], counted=False
            )

    def recv(self, tensors: Tensors | Tensor, peer: int, tag: int = 0) -> Work:
        with self._whole_batch() as batch:
            tensor = only("recv", tensors)
            flat = as_array("recv", tensor)
            if batch is not None:
                return self._batched(batch, ccoll.Recv(flat, peer, tag), tensor)
            limit = self.core.limit(None, None)
            return self.core.begin(
                [tensor], lambda on: [on.recv_async(flat, peer, tag, timeout=limit)], counted=False
            )

    def recv_anysource(self, tensors: Tensors | Tensor, tag: int = 0) -> Work:
        return self.recv(tensors, ccoll.ANY_RANK, tag)

    @contextlib.contextmanager
    def _whole_batch(self) -> Iterator[Batch | None]:
        """The batch of this thread. A call in it that raises ends it: torch does not end it then."""
        batch = self.core.batch
        if batch is None or not batch.is_mine():
            yield None
            return
        try:
            yield batch
        except BaseException:
            self.core.batch = None
            raise

    def _batched(self, batch: Batch, request: Any, tensor: Tensor) -> Work:
        work = Batched(tensor)
        batch.requests.append(request)
        batch.waiting.append(work)
        return work

    # torch forgets a group whose start_coalescing raises: every later call would be left undone in silence.
    def start_coalescing(self, *_: Any) -> None:
        self.core.batch = Batch()

    _start_coalescing = start_coalescing

    def end_coalescing(self, *_: Any) -> Work:
        batch, self.core.batch = self.core.batch, None
        if batch is None:
            raise RuntimeError("ccoll: end_coalescing: there is no batch, or a call in it has failed")
        works = batch.works
        if batch.requests:
            tensors = [tensor for each in batch.waiting for tensor in each._tensors]
            limit = self.core.limit(None, None)
            messages = self.core.begin(
                tensors, lambda on: [on.batch_async(batch.requests, timeout=limit)], counted=False
            )
            for each in batch.waiting:
                each.becomes(messages)
            works = [*works, messages]
        return works[0] if len(works) == 1 else Work.of_all(works)

    _end_coalescing = end_coalescing

    # All else that torch asks

    def _get_sequence_number_for_group(self) -> int:
        return self.core.sequence

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _enable_collectives_timing(self) -> None:
        self.core.timing = True

    def set_timeout(self, timeout: timedelta) -> None:
        self.core.timeout = timeout

    _set_default_timeout = set_timeout

    def _add_ephemeral_timeout(self, timeout: timedelta) -> None:
        pass

    def shutdown(self) -> None:
        self.core.close()

    def abort(self) -> None:
        self.core.abort("the process group was aborted")

    def _one_for_each(self, call: str, tensors: Sequence[Any]) -> None:
        if len(tensors) != self.core.size:
            raise refuse(call, f"a list of {self.core.size} tensors, one for each rank, is expected, not {len(tensors)}")


def describe_pair(tensor: Tensor, out: Tensor) -> str:
    return f"input strides {tensor.stride()} of shape {tuple(tensor.shape)}, output {out.stride()} of {tuple(out.shape)}"


def _counts(call: str, tensor: Tensor, splits: Sequence[int], size: int) -> list[int]:
    """Elements for each rank of splits, which count rows of dimension 0; none: equal ones."""
    if tensor.dim() == 0:
        raise refuse(call, "a tensor without dimensions cannot be split")
    rows = tensor.shape[0]
    row = tensor[0].numel() if rows else 0
    if not splits:
        if rows % size:
            raise refuse(call, f"dimension 0 of {tuple(tensor.shape)} does not divide equally among {size} ranks")
        return [rows // size * row] * size
    if len(splits) != size or sum(splits) != rows:
        raise refuse(
            call, f"split sizes {list(splits)} do not match dimension 0 of {tuple(tensor.shape)} and {size} ranks"
        )
    return [each * row for each in splits]
