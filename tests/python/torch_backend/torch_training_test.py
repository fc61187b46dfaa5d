# SPDX-License-Identifier: Apache-2.0
"""Training over ccoll: DDP, FSDP, DTensor, tensor parallelism, checkpoints."""

import copy

import pytest
from torch_support import dist, ranks, torch

from torch import nn


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(rank):
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(5, 8, generator=generator), torch.randn(5, 4, generator=generator)


def expected_after(size, steps=3):
    """The same training in one process: gradients are means over the ranks' batches."""
    reference = model()
    optimiser = torch.optim.SGD(reference.parameters(), lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        for rank in range(size):
            x, y = batch(rank)
            (nn.functional.mse_loss(reference(x), y) / size).backward()
        optimiser.step()
    return reference


def train(wrapped, optimiser, rank, steps=3):
    for _ in range(steps):
        optimiser.zero_grad()
        x, y = batch(rank)
        nn.functional.mse_loss(wrapped(x), y).backward()
        optimiser.step()


def close(parameters, reference):
    for one, other in zip(parameters, reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def ddp(rank, size):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel as DDP

    for named in ({}, {"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
        wrapped = DDP(model(), bucket_cap_mb=0.0005, **named)
        train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), rank)
        close(wrapped.module.parameters(), expected_after(size))
    wrapped = DDP(model())
    wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), rank)
    wrapped = DDP(model())
    state = powerSGD_hook.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), rank, steps=5)
    wrapped = DDP(model())
    with wrapped.join():
        for _ in range(rank + 1):
            wrapped(batch(rank)[0]).sum().backward()


def test_ddp():
    ranks(2, ddp, limit=180)


def fsdp(rank, size):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    sharded = model()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    train(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), rank)
    close([each.full_tensor() for each in sharded.parameters()], expected_after(size))


def test_fsdp2():
    ranks(2, fsdp, limit=180)


def tensors(rank, size):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    whole = torch.arange(24.0).reshape(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert (sharded @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])).full_tensor().equal(whole @ whole.t())
    plain = model()
    parallel = parallelize_module(copy.deepcopy(plain), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = batch(0)[0]
    torch.testing.assert_close(parallel(x), plain(x))


def test_dtensor_and_tensor_parallel():
    ranks(2, tensors, limit=180)


def checkpoints(folder):
    def body(rank, size):
        import torch.distributed.checkpoint as dcp

        state = {"weights": torch.full((3,), float(rank)) if size == 1 else torch.arange(3.0), "step": 7}
        dcp.save(state, checkpoint_id=folder)
        dcp.async_save(state, checkpoint_id=folder + "-later").result()
        loaded = {"weights": torch.zeros(3), "step": 0}
        dcp.load(loaded, checkpoint_id=folder)
        assert torch.equal(loaded["weights"], state["weights"]) and loaded["step"] == 7

    return body


def test_distributed_checkpoints(tmp_path):
    ranks(2, checkpoints(str(tmp_path / "saved")), limit=180)


def functional(rank, size):
    import torch.distributed._functional_collectives as funcol
    import torch.distributed.nn.functional as differentiable

    x = torch.full((4,), float(rank + 1))
    total = sum(range(1, size + 1))
    assert funcol.all_reduce(x, "sum", dist.group.WORLD).tolist() == [total] * 4
    gathered = funcol.all_gather_tensor(x, 0, dist.group.WORLD)
    assert gathered.tolist() == [float(r + 1) for r in range(size) for _ in range(4)]
    assert funcol.reduce_scatter_tensor(gathered, "sum", 0, dist.group.WORLD).tolist() == [size * (rank + 1.0)] * 4
    z = x.clone().requires_grad_()
    differentiable.all_reduce(z).sum().backward()
    assert z.grad.tolist() == [size] * 4


def test_functional_collectives():
    ranks(2, functional)


@pytest.mark.parametrize("detail", ["OFF", "DETAIL"])
def test_debug_levels(detail, monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", detail)
    ranks(2, lambda rank, size: dist.all_reduce(torch.ones(2)))
