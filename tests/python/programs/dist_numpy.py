# SPDX-License-Identifier: Apache-2.0
"""A rank of ccoll.dist without torch: dist_numpy.py GROUP_OF_VALUES [folder]."""

import sys

sys.modules["torch"] = None  # as if it were not installed

import os  # noqa: E402

import numpy  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dist"))
import dist_values  # noqa: E402

from ccoll import dist  # noqa: E402


def make(values, kind="float32"):
    return numpy.array(values, dtype=kind)


def main(name, *arguments):
    values = getattr(dist_values, name)
    if name in ("alone", "devices"):
        values(make)
    else:
        dist.init_process_group()
        values(make, dist.get_rank(), dist.get_world_size(), *arguments)
        dist.cleanup_dist()
        assert not dist.is_distributed()
    print("done")


main(*sys.argv[1:])
