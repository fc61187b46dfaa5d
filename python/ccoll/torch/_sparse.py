# SPDX-License-Identifier: Apache-2.0
"""all_reduce of sparse tensors: the entries of all ranks are gathered everywhere, and added up there."""

from __future__ import annotations

import torch

import ccoll

from ._tensors import refuse


def all_reduce_sparse(on: ccoll.Communicator, tensor: torch.Tensor, op: str, limit: float) -> None:
    """Sums a COO tensor in place. It waits, as how many entries the others have decides what is gathered."""
    if tensor.dtype == torch.bool:
        raise refuse("all_reduce", "sparse tensors of bool have no sum: give ones of integers")
    if op != "sum":
        raise refuse("all_reduce", f"sparse tensors are summed; there is no {op} of them")
    if tensor.layout != torch.sparse_coo:
        raise refuse("all_reduce", f"a sparse tensor of layout {tensor.layout}: expected torch.sparse_coo")
    own = tensor.coalesce()
    indices, values = own.indices().t().contiguous(), own.values().contiguous()
    told = on.all_gather(torch.tensor([indices.shape[0], _shape_of(own)]), timeout=limit).flatten().tolist()
    entries, shapes = told[::2], told[1::2]
    for rank, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise refuse(
                "all_reduce",
                "sparse tensors of one shape and as many sparse dimensions are expected: those of ranks 0 and "
                f"{rank} differ; this rank's is {tuple(own.shape)} with {own.sparse_dim()}",
            )
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


def _shape_of(tensor: torch.Tensor) -> int:
    """FNV-1a, as sparse.cpp has it: ranks of both ways compare them."""
    hashed = 0xCBF29CE484222325
    for number in (tensor.sparse_dim(), *tensor.shape):
        hashed = (hashed ^ number) * 0x100000001B3 % 2**64
    return hashed >> 1
