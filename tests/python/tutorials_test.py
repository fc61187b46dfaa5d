# SPDX-License-Identifier: Apache-2.0
"""docs/examples/python: each script, started as in its head, prints exactly the lines at its end."""

import glob
import os
import re
import shlex
import subprocess
import sys

import pytest
from support import HERE, page
from torch_support import torch  # noqa: F401

# tools/wheel puts them beside the tests.
PLACES = [os.path.join(HERE, "examples"), os.path.join(HERE, "..", "..", "docs", "examples", "python")]
FOLDER = next(place for place in PLACES if os.path.isdir(place))
SCRIPTS = sorted(map(os.path.basename, glob.glob(os.path.join(FOLDER, "*.py"))))


def text_of(script):
    with open(os.path.join(FOLDER, script), encoding="utf-8") as file:
        return file.read()


def expected(script):
    said = text_of(script).partition("\n# It prints:\n")[2]
    return "".join(line.removeprefix("# ") + "\n" for line in said.splitlines())


def run(script, folder, **variables):
    """Runs the command in the script's head in that folder."""
    command = re.search(r"^# Start: (.*)$", text_of(script), re.M).group(1)
    program, *arguments = shlex.split(command)
    starts = {"python": [], "torchrun": ["-m", "torch.distributed.run"]}
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CCOLL_")}
    done = subprocess.run(
        [sys.executable, *starts[program], *arguments], cwd=folder, capture_output=True, text=True, timeout=240,
        env=environment | {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)} | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # torchrun keeps a folder for logs.
    left = [name for name in os.listdir(temporary) if not name.startswith("torchelastic_")]
    assert not left, left
    return done


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_prints_what_it_says(script, tmp_path):
    (tmp_path / script).write_text(text_of(script))
    done = run(script, tmp_path)
    assert expected(script), "nothing stands at its end"
    assert done.stdout == expected(script), done.stderr


# Examples that start by spawn and by torchrun, make groups, and send messages.
@pytest.mark.parametrize("name, script", [
    ("gloo", "initialise.py"), ("gloo", "mesh.py"), ("gloo", "uneven_all_to_all.py"), ("nccl", "isend_irecv.py"),
])  # fmt: skip
def test_a_script_for_another_backend_runs_unchanged(name, script, tmp_path):
    text = text_of(script)
    assert '"ccoll"' in text
    (tmp_path / script).write_text(text.replace('"ccoll"', f'"{name}"'))
    done = run(script, tmp_path, CCOLL_TORCH_AS=name)
    assert done.stdout == expected(script), done.stderr
    # Only rank 0 prints it, once, so it also shows that ccoll was used.
    line = f'ccoll: info: serves the backend "{name}" of torch.distributed (CCOLL_TORCH_AS)\n'
    assert done.stderr.count(line) == 1, done.stderr


def python(code, **variables):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=os.environ | variables
    )
    return done.returncode, done.stdout + done.stderr


def test_without_the_variable_torch_is_left_alone():
    status, said = python("import sys, torch; assert 'ccoll' not in sys.modules, 'it was loaded'", CCOLL_TORCH_AS="")
    assert status == 0, said


def test_a_name_that_nobody_has_is_refused():
    status, said = python("import torch", CCOLL_TORCH_AS="glou")
    assert (status, said) == (1, "ccoll: error: CCOLL_TORCH_AS=glou: expected gloo or nccl\n")


def test_an_import_serves_the_name_where_torch_loads_nothing_by_itself():
    code = (
        "import ccoll.torch, tempfile, torch.distributed as dist\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    dist.init_process_group('gloo', init_method=f'file://{folder}/ranks', rank=0, world_size=1)\n"
        "    print(ccoll.torch.implementation(), type(dist.group.WORLD).__module__)\n"
        "    dist.destroy_process_group()\n"
    )
    # A backend in C++ is in a group of torch's own.
    groups = ("python ccoll.torch._group\n", "c++ torch.distributed.distributed_c10d\n")
    status, said = python(code, CCOLL_TORCH_AS="gloo", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 0 and any(each in said for each in groups), said
    assert 'serves the backend "gloo"' in said, said


def test_every_script_is_listed():
    """The row in docs/torch.md, with its topic."""
    with open(page("torch.md"), encoding="utf-8") as file:
        named = re.findall(r"\(examples/python/(\w+\.py)\)", file.read())
    assert sorted(named) == SCRIPTS and len(SCRIPTS) == 15
