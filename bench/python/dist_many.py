#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ccoll.dist's all_reduce of many tensors beside one flat copy by hand, over ccoll and over gloo.

    torchrun --standalone --nproc-per-node N bench/python/dist_many.py [ROUNDS]

Both ways and both backends take turns in the same processes, round by round. A row has the medians in
milliseconds. By hand nothing is compared among the ranks.
"""

import datetime
import statistics
import sys
import time

import torch
import torch.distributed

from ccoll import dist

LIMIT = datetime.timedelta(seconds=120)
LISTS = {"161 of 607 KiB": (161, 155_376), "64 of 4 KiB": (64, 1024), "500 of 400 B": (500, 100)}


def by_hand(tensors, group):
    flat = torch.cat([each.reshape(-1) for each in tensors])
    torch.distributed.all_reduce(flat, group=group)
    for each, part in zip(tensors, flat.split([each.numel() for each in tensors])):
        each.copy_(part.view_as(each))


def dictionary_by_hand(data, group):
    keys = sorted(data)
    flat = torch.stack([data[key] for key in keys])
    torch.distributed.all_reduce(flat, group=group)
    data.update(zip(keys, flat.unbind()))


def ways():
    """Each row's two ways, as functions of a group."""
    for name, (tensors, elements) in LISTS.items():
        ours, theirs = ([torch.zeros(elements) for _ in range(tensors)] for _ in range(2))
        yield (
            f"all_reduce_params, {name}",
            lambda group, x=ours: dist.all_reduce_params(x, group=group),
            lambda group, x=theirs: by_hand(x, group),
        )
    ours, theirs = ({"loss": torch.tensor(0.0), "accuracy": torch.tensor(0.0)} for _ in range(2))
    yield (
        "all_reduce_dict, 2 numbers",
        lambda group: dist.all_reduce_dict(ours, group=group),
        lambda group: dictionary_by_hand(theirs, group),
    )


def milliseconds(call, group) -> float:
    torch.distributed.barrier(group)
    begin = time.perf_counter()
    call(group)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    torch.set_num_threads(1)
    dist.init_dist("pytorch", "gloo", timeout=120)
    groups = {name: dist.new_group(backend=name, timeout=LIMIT) for name in ("ccoll", "gloo")}
    if dist.is_main_process():
        print(f"{dist.get_world_size()} ranks, torch {torch.__version__}, medians of {rounds} turns in ms")
        print(f"{'':32}" + "".join(f"{each:>10}{'by hand':>10}" for each in groups))
    for name, ours, theirs in ways():
        took = {(each, call): [] for each in groups for call in (ours, theirs)}
        for turn in range(rounds + 1):
            for (each, call), times in took.items():
                one = milliseconds(call, groups[each])
                if turn > 0:  # the first one makes connections
                    times.append(one)
        if dist.is_main_process():
            print(f"{name:32}" + "".join(f"{statistics.median(times):10.2f}" for times in took.values()))
    dist.cleanup_dist()


if __name__ == "__main__":
    main()
