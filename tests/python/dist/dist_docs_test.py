# SPDX-License-Identifier: Apache-2.0
"""docs/dist.md: its programs run by its commands."""

import os
import re
import subprocess
import sys

import pytest
from support import blocks, page
from torch_support import torch  # noqa: F401

PAGE = page("dist.md")


def commands():
    return [line for block in blocks(PAGE, "sh") for line in block.splitlines()]


def run(command, folder):
    for code in blocks(PAGE, "python"):
        (folder / re.match(r"# (\S+\.py)\n", code).group(1)).write_text(code)
    environment = os.environ | {
        "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", commands())
def test_the_command_runs(command, tmp_path):
    found = re.search(r"--nproc-per-node (\d)", command)
    size = int(found.group(1)) if found else 1
    assert f"{size} ranks, 20 steps, equal weights: True\n" in run(command, tmp_path)


def test_without_the_average_weights_differ(tmp_path):
    command = next(each for each in commands() if "torchrun" in each)
    said = run(r"sed -i 's/^\( *\)dist.all_reduce_params.*/\1pass/' steps.py && " + command, tmp_path)
    assert "equal weights: False\n" in said


def test_arrays(tmp_path):
    hidden = "import sys\nsys.modules['torch'] = None\nimport runpy\nrunpy.run_path('arrays.py')\n"
    (tmp_path / "hidden.py").write_text(hidden)
    said = run("python -m ccoll.run -n 2 hidden.py", tmp_path)
    assert said.count(": [1.5 1.5 1.5]") == 2, said


def test_every_command_is_known():
    assert len(commands()) == 2
