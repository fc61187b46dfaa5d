# SPDX-License-Identifier: Apache-2.0
"""docs/examples/python: each script, started as in its head, prints exactly the lines at its end.

With CCOLL_TEST_FORKED=1 only one of those that torchrun starts is started by it. The others' ranks are forked.
"""

import glob
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
import traceback

import pytest
from support import HERE, page
from torch_support import free_port, torch

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


def command_of(script):
    """The words of the command in the script's head."""
    return shlex.split(re.search(r"^# Start: (.*)$", text_of(script), re.M).group(1))


def rank_of_forked(script, folder, variables):
    """Runs the script in this process, which ends with it."""
    status = 1
    signal.alarm(120)
    try:
        os.chdir(folder)
        os.environ.update(variables)
        for number, name in ((1, "stdout"), (2, "stderr")):
            place = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.dup2(place, number)
            setattr(sys, name, open(number, "w", buffering=1, closefd=False))
        tempfile.tempdir = None
        torch.set_num_threads(1)
        sys.argv = [script]
        runpy.run_path(script, run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def run_forked(script, folder):
    """Its ranks as children of this process, in which torch is imported: that takes each rank longer than the script."""
    size = int(command_of(script)[command_of(script).index("--nproc-per-node") + 1])
    common = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
    }  # fmt: skip
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            rank_of_forked(script, folder, common | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    said = [(folder / name).read_text() for name in ("stdout", "stderr")]
    assert not any(statuses), said
    return subprocess.CompletedProcess(script, 0, *said)


def run(script, folder, **variables):
    """Runs the command in the script's head in that folder."""
    program, *arguments = command_of(script)
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
    may_fork = os.environ.get("CCOLL_TEST_FORKED") and command_of(script)[0] == "torchrun"
    done = (run_forked if may_fork and script != "under_torchrun.py" else run)(script, tmp_path)
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
