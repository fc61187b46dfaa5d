# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own DistributedTest, from torch's wheel, over ccoll. Run by pytest.

GATE: the backend whose tests are run, gloo or mpi (default gloo). WORLD_SIZE: how many ranks (default 3).
RUN: the backend that they run over (default ccoll). With CCOLL_TORCH_AS=gloo, RUN=gloo is ccoll by that name.
"""

import os
import tempfile
import unittest

GATE = os.environ.get("GATE", "gloo")
RUN = os.environ.get("RUN", "ccoll")
os.environ["BACKEND"] = GATE  # determines the skipped tests when the class is made
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="distributed-"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

if GATE == "mpi":
    dist.is_mpi_available = lambda: True

from torch.testing._internal.distributed import distributed_test  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
    initialize_temp_directories,
)

initialize_temp_directories()
if RUN != GATE:
    import ccoll.torch  # noqa: E402, F401

    distributed_test.BACKEND = RUN
    # With this variable, MPI's tests of groups also run with fewer than 8 ranks; gloo's give it to new groups.
    if GATE != "mpi":
        os.environ["BACKEND"] = RUN
    for each in ("gpu", "ddp", "subgroup"):
        distributed_test.DistTestCases.backend_feature[each].add(RUN)
if os.environ.get("CCOLL_TORCH_AS"):
    made = dist.Backend._plugins[os.environ["CCOLL_TORCH_AS"].upper()].creator_fn
    assert made.__module__.startswith("ccoll."), f"{made} serves the name"


class TestDistributed(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        # A forked child starts in milliseconds instead of seconds.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


if RUN != GATE and ccoll.torch.implementation() == "c++":
    # torch's C++ code gives every plugin this name; the test compares it with the registered name.
    TestDistributed.test_ddp_logging_data_cpu = unittest.skip("DDP's log has 'custom' for all plugins")(
        TestDistributed.test_ddp_logging_data_cpu
    )

# pytest must not collect these names.
del TestDistBackend, DistributedTest
