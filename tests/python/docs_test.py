# SPDX-License-Identifier: Apache-2.0
"""docs/python.md: its programs run, and its commands that need no build."""

import os
import re
import subprocess
import sys

import pytest
from support import blocks, page

PAGE = page("python.md")


@pytest.fixture
def folder(tmp_path):
    """Every program of the page that has a name in its first line."""
    for code in blocks(PAGE, "python"):
        name = re.match(r"# (\S+\.py)\n", code)
        if name:
            (tmp_path / name.group(1)).write_text(code)
    return tmp_path


def test_commands_run(folder):
    bin_folder = os.path.dirname(sys.executable)
    environment = os.environ | {"PATH": bin_folder + os.pathsep + os.environ["PATH"]}
    ran = 0
    for block in blocks(PAGE, "sh"):
        for line in block.splitlines():
            # tools/wheel has already run the commands that install.
            if not line or line.startswith(("#", "tools/", "python3 -m venv", ".venv", "source")):
                continue
            done = subprocess.run(
                line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            ran += 1
    assert ran >= 2


def test_programs_run_alone():
    ran = 0
    for code in blocks(PAGE, "python"):
        if "\nimport torch" in code and subprocess.run([sys.executable, "-c", "import torch"]).returncode != 0:
            continue
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (code, done.stderr)
        ran += 1
    assert ran >= 4
