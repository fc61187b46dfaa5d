#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole training steps, and collectives of objects, over ccoll beside gloo: the ratio of their times.

    torchrun --standalone --nproc-per-node N bench/python/torch_steps.py [ROUNDS]

Both backends are groups of the same processes and take turns, round by round. A step is forward, backward
and the optimiser's step of a small transformer. Objects are of 1 MiB. A row has the medians in milliseconds
and ccoll's over gloo's: below 1, ccoll is faster.
"""

import datetime
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ccoll.torch  # noqa: F401

LIMIT = datetime.timedelta(seconds=120)
WIDTH, LAYERS, TOKENS, BATCH = 256, 4, 32, 2
OBJECT = bytes(1 << 20)


def transformer():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def step_of(model):
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    tokens = torch.randn(BATCH, TOKENS, WIDTH)

    def step():
        optimiser.zero_grad()
        model(tokens).square().mean().backward()
        optimiser.step()

    return step


def ddp_step(group):
    return step_of(DistributedDataParallel(transformer(), process_group=group))


def fsdp_step(group):
    model, mesh = transformer(), dist.device_mesh.DeviceMesh.from_group(group, "cpu")
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return step_of(model)


def local_step(_):
    """The same without any communication: the bound for all backends."""
    return step_of(transformer())


def all_gather_object(group):
    into = [None] * dist.get_world_size()
    return lambda: dist.all_gather_object(into, OBJECT, group=group)


def broadcast_object(group):
    return lambda: dist.broadcast_object_list([OBJECT], src=0, group=group)


def gather_object(group):
    into = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    return lambda: dist.gather_object(OBJECT, into, dst=0, group=group)


def scatter_object(group):
    objects = [OBJECT] * dist.get_world_size() if dist.get_rank() == 0 else None
    return lambda: dist.scatter_object_list([None], objects, src=0, group=group)


MEASURED = {
    "step without communication": local_step,
    "DDP step": ddp_step,
    "FSDP2 step": fsdp_step,
    "all_gather_object": all_gather_object,
    "broadcast_object_list": broadcast_object,
    "gather_object": gather_object,
    "scatter_object_list": scatter_object,
}


def milliseconds(call, group) -> float:
    dist.barrier(group)
    begin = time.perf_counter()
    call()
    dist.barrier(group)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=LIMIT)
    is_first = dist.get_rank() == 0
    groups = {name: dist.new_group(backend=name, timeout=LIMIT) for name in ("ccoll", "gloo")}
    if is_first:
        parameters = sum(each.numel() for each in transformer().parameters())
        print(f"{dist.get_world_size()} ranks, torch {torch.__version__}, {rounds} rounds by turns, {parameters} parameters")
        print(f"{'ms':30}{'ccoll':>10}{'gloo':>10}  ratio")
    for what, make in MEASURED.items():
        calls = {name: make(group) for name, group in groups.items()}
        took = {name: [] for name in groups}
        for turn in range(rounds + 2):
            for name, call in calls.items():
                one = milliseconds(call, groups[name])
                if turn > 1:  # the first ones make links and buckets
                    took[name].append(one)
        ours, theirs = (statistics.median(took[name]) for name in ("ccoll", "gloo"))
        if is_first:
            print(f"{what:30}{ours:10.2f}{theirs:10.2f}{ours / theirs:7.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
