# SPDX-License-Identifier: Apache-2.0
"""ccoll.dist over numpy's arrays, where torch is not installed."""

import subprocess
import sys

import dist_values
import pytest
from support import run


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", [each.__name__ for each in dist_values.EVERYTHING])
def test_values(name, size):
    status, said = run("dist_numpy.py", size, name)
    assert status == 0 and said.count("done") == size, said


def test_results_through_files(tmp_path):
    status, said = run("dist_numpy.py", 2, "files", str(tmp_path))
    assert status == 0 and said.count("done") == 2, said


@pytest.mark.parametrize("name", ["alone", "devices"])
def test_alone(name):
    status, said = run("dist_numpy.py", 1, name)
    assert status == 0 and said.count("done") == 1, said


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_import_brings_neither_numpy_nor_torch():
    said = python(
        "import sys, ccoll.dist as dist; dist.get_rank(), dist.barrier(), dist.is_distributed()\n"
        "print({'numpy', 'torch'} & set(sys.modules))"
    )
    assert said == "set()\n"


def test_other_backends_are_refused():
    said = python(
        "import sys; sys.modules['torch'] = None\n"
        "from ccoll import dist\n"
        "for settings in ({'backend': 'gloo'}, {'init_method': 'file:///x'}):\n"
        "    try: dist.init_process_group(**settings)\n"
        "    except ValueError as error: print(error)\n"
        "dist.init_process_group()\n"
        "try: dist.init_process_group()\n"
        "except RuntimeError as error: print(error)\n"
        "dist.cleanup_dist(), dist.cleanup_dist()\n"
    )
    assert "'gloo': without torch only 'ccoll' works" in said and "file:///x" in said, said
    assert "call cleanup_dist() first" in said, said
