# SPDX-License-Identifier: Apache-2.0
"""Arrays of a GPU in the native interface. tools/torch-matrix gpu runs this over a GPU that the host plays."""

import os

import pytest
from support import run

pytestmark = pytest.mark.skipif(
    "CCOLL_TEST_GPU" not in os.environ, reason="CCOLL_TEST_GPU is not set (tools/torch-matrix gpu does so)"
)


@pytest.mark.parametrize("size", [2, 3])
def test_arrays_of_a_gpu(size):
    pytest.importorskip("torch", reason="torch is not installed (tools/setup torch)")
    status, said = run("gpu_arrays.py", size)
    assert status == 0, said


def test_threads_as_ranks_of_a_gpu():
    pytest.importorskip("torch", reason="torch is not installed (tools/setup torch)")
    status, said = run("gpu_arrays.py", 1, "threads")
    assert status == 0, said
