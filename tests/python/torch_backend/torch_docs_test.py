# SPDX-License-Identifier: Apache-2.0
"""docs/torch.md: its programs run by its commands."""

import os
import re
import subprocess
import sys

import pytest
from support import blocks, page
from torch_support import VERSION

PAGE = page("torch.md")


def commands():
    return [
        line for block in blocks(PAGE, "sh") for line in block.splitlines()
        # tools/wheel has already run the commands that install.
        if line and not line.startswith(("#", "tools/", "python3 -m venv", ".venv", "source"))
    ]  # fmt: skip


@pytest.mark.parametrize("command", commands())
def test_the_command_runs(command, tmp_path):
    for code in blocks(PAGE, "python"):
        name = re.match(r"# (\S+\.py)\n", code)
        if name:
            if VERSION < (2, 14):  # as the page says
                code = code.replace("import torch\n", "import torch\nimport ccoll.torch\n", 1)
            (tmp_path / name.group(1)).write_text(code)
    environment = os.environ | {
        "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"], "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    ranks = int(re.search(r"--nproc-per-node (\d)", command).group(1))
    if "ddp" in command:
        assert re.search(rf"{ranks} ranks: loss [0-9.]+\n", done.stdout), said
    elif "fsdp" in command:
        assert done.stdout.count("has 128 of 256 weights") == ranks, said
    else:
        for expert in range(ranks):
            rows = [rank for rank in range(ranks) for _ in range(expert + 1)]
            assert f"expert {expert} has rows of {rows}" in done.stdout, said


def test_every_command_is_known():
    assert len(commands()) == 3
