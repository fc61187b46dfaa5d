#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's collectives over ccoll beside gloo: the ratio of their times.

    torchrun --standalone --nproc-per-node N bench/python/torch_collectives.py [ROUNDS]

Both backends are groups of the same processes and take turns, round by round. A row has the medians in
microseconds and ccoll's over gloo's: below 1, ccoll is faster. The last two lines are the geometric mean and
the slowest point.
"""

import datetime
import statistics
import sys
import time

import torch
import torch.distributed as dist

import ccoll.torch  # noqa: F401

SIZES = [4, 256, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]  # bytes of one block
MOST = 512 << 20  # bytes of the blocks of all ranks
LIMIT = datetime.timedelta(seconds=120)


def calls(count: int, size: int):
    """Each operation as a function of a group."""
    x, whole, part = torch.ones(count), torch.empty(count * size), torch.empty(count)
    blocks, back = torch.ones(count * size), torch.empty(count * size)
    return {
        "all_reduce": lambda group: dist.all_reduce(x, group=group),
        "all_gather_single": lambda group: dist.all_gather_into_tensor(whole, x, group=group),
        "reduce_scatter_single": lambda group: dist.reduce_scatter_tensor(part, blocks, group=group),
        "all_to_all_single": lambda group: dist.all_to_all_single(back, blocks, group=group),
    }


def microseconds(call, group, times: int) -> float:
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(times):
        call(group)
    return (time.perf_counter() - begin) / times * 1e6


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=LIMIT)
    size, is_first = dist.get_world_size(), dist.get_rank() == 0
    groups = {name: dist.new_group(backend=name, timeout=LIMIT) for name in ("ccoll", "gloo")}
    ratios = []
    if is_first:
        print(f"{size} ranks, torch {torch.__version__}, {rounds} rounds by turns\n{'':24}{'bytes':>10}{'ccoll':>10}{'gloo':>10}  ratio")
    for nbytes in SIZES:
        if nbytes * size > MOST:
            continue
        for name, call in calls(nbytes // 4, size).items():
            times = max(2, min(200, (8 << 20) // (nbytes * size)))
            took = {each: [] for each in groups}
            for turn in range(rounds + 1):
                for each, group in groups.items():
                    one = microseconds(call, group, times)
                    if turn:  # the first makes links
                        took[each].append(one)
            medians = {each: statistics.median(all_of) for each, all_of in took.items()}
            ratios.append(medians["ccoll"] / medians["gloo"])
            if is_first:
                print(f"{name:24}{nbytes:10}{medians['ccoll']:10.1f}{medians['gloo']:10.1f}{ratios[-1]:7.2f}", flush=True)
    if is_first:
        print(f"{'geometric mean':54}{statistics.geometric_mean(ratios):7.2f}\n{'slowest':54}{max(ratios):7.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
