# SPDX-License-Identifier: Apache-2.0
"""A rank that a launcher started: dist_started.py LAUNCHER [without-torch]. Rank 0 prints its results."""

import sys

if "without-torch" in sys.argv:
    sys.modules["torch"] = None

from ccoll import dist  # noqa: E402

launcher = dist.infer_launcher()
assert launcher == sys.argv[1], launcher
dist.init_dist(launcher, timeout=30)
ranks = dist.all_gather_object(dist.get_rank())
assert ranks == list(range(dist.get_world_size())), ranks
if dist.is_main_process():
    print(f"{len(ranks)} ranks over {dist.get_backend()}")
dist.cleanup_dist()
