# SPDX-License-Identifier: Apache-2.0
"""all_reduce of sparse tensors: the entries of all ranks are gathered everywhere, and added up there."""

from __future__ import annotations

import torch

import ccoll

from ._tensors import refuse


def all_reduce_sparse(on: ccoll.Communicator, tensor: torch.Tensor, op: str, limit: float) -> None:
    """Sums a COO tensor in place. It waits, as how many entries the others have decides what is gathered."""
    if op != "sum":
        raise refuse("all_reduce", f"sparse tensors are summed; there is no {op} of them")
    if tensor.layout != torch.sparse_coo:
        raise refuse("all_reduce", f"a sparse tensor of layout {tensor.layout}: expected torch.sparse_coo")
    own = tensor.coalesce()
    indices, values = own.indices().t().contiguous(), own.values().contiguous()
    entries = on.all_gather(torch.tensor([indices.shape[0]]), timeout=limit).flatten().tolist()
    all_indices = torch.empty((sum(entries), indices.shape[1]), dtype=torch.int64)
    all_values = torch.empty((sum(entries), *values.shape[1:]), dtype=values.dtype)
    for mine, all_of, per_entry in (
        (indices, all_indices, indices.shape[1]),
        (values, all_values, values[:1].numel() or values.shape[1:].numel()),
    ):
        on.all_gather_v(mine, all_of, counts=[each * per_entry for each in entries], timeout=limit)
    summed = torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(summed)
