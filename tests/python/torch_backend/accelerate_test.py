# SPDX-License-Identifier: Apache-2.0
"""accelerate's own test scripts, written for gloo, over ccoll: those that pass over gloo on CPUs."""

import os
import subprocess
import sys

import pytest
from torch_support import VERSION

pytest.importorskip("accelerate", reason="accelerate is not installed (tools/torch-matrix accelerate)")
if VERSION < (2, 15):
    pytest.skip("CCOLL_TORCH_AS needs torch 2.15", allow_module_level=True)


@pytest.mark.parametrize("script", ["test_ops", "test_script", "test_sync"])
def test_script_passes(script, tmp_path):
    environment = os.environ | {
        "ACCELERATE_USE_CPU": "true", "CCOLL_TORCH_AS": "gloo", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", f"accelerate.test_utils.scripts.{script}"],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert 'serves the backend "gloo"' in done.stderr
