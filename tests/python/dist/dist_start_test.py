# SPDX-License-Identifier: Apache-2.0
"""ccoll.dist's start under torchrun, mpirun and Slurm's variables, and its errors."""

import datetime
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from unittest import mock

import pytest
from dist_values import raises
from support import HERE

from ccoll import dist

PROGRAM = os.path.join(HERE, "programs", "dist_started.py")
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed (tools/setup torch)")
OURS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
WAYS = [pytest.param([], marks=needs_torch, id="torch"), pytest.param(["without-torch"], id="numpy")]


def environment(**more):
    others = ("SLURM_", "OMPI_")
    kept = {key: value for key, value in os.environ.items() if key not in OURS and not key.startswith(others)}
    return kept | {"OMP_NUM_THREADS": "1"} | more


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def start(command, **more):
    return subprocess.Popen(
        command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def said_by(*processes):
    """The output of processes that must succeed within 120 s."""
    said = ""
    try:
        for each in processes:
            said += each.communicate(timeout=120)[0]
    finally:
        for each in processes:
            each.kill()
    assert all(each.returncode == 0 for each in processes), said
    return said


@needs_torch
def test_torchrun():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    assert "3 ranks over ccoll" in said_by(start([*command, PROGRAM, "pytorch"]))


@pytest.mark.parametrize("way", WAYS)
def test_torchruns_variables(way):
    port = free_port()
    ranks = [
        start(
            [sys.executable, PROGRAM, "pytorch", *way],
            RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        )
        for rank in range(2)
    ]  # fmt: skip
    assert "2 ranks over ccoll" in said_by(*ranks)


@pytest.mark.parametrize("way", WAYS)
def test_mpirun(way):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("there is no mpirun (apt install openmpi-bin)")
    if "Open MPI" not in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout:
        pytest.skip(f"{mpirun} is not Open MPI's")
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, PROGRAM, "mpi", *way]
    assert "3 ranks over ccoll" in said_by(start(command, MASTER_PORT=free_port()))


@pytest.mark.parametrize("way", WAYS)
def test_slurms_variables(way, tmp_path):
    """A program stands in for scontrol. The port given to init_dist has a test of its own."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$*" = "show hostname node[1-2]" ] && printf "127.0.0.1\\nnode2\\n"\n')
    scontrol.chmod(0o755)
    port = free_port()
    ranks = [
        start(
            [sys.executable, PROGRAM, "slurm", *way], PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_LOCALID=str(rank), SLURM_NODELIST="node[1-2]",
            MASTER_PORT=port,
        )
        for rank in range(2)
    ]  # fmt: skip
    assert "2 ranks over ccoll" in said_by(*ranks)


def in_environment(**variables):
    return mock.patch.dict(os.environ, environment(**variables), clear=True)


def test_the_launcher_is_found_by_the_environment():
    for variables, expected in (
        ({}, "none"), ({"OMPI_COMM_WORLD_LOCAL_RANK": "0"}, "mpi"), ({"SLURM_NTASKS": "2"}, "slurm"),
        ({"SLURM_NTASKS": "2", "WORLD_SIZE": "2"}, "pytorch"),
    ):  # fmt: skip
        with in_environment(**variables):
            assert dist.infer_launcher() == expected


def joined(*arguments, **named):
    """The arguments that init_dist passes on, and the environment that it leaves."""
    with mock.patch("ccoll.dist._launch.init_process_group") as join, mock.patch("multiprocessing.set_start_method"):
        dist.init_dist(*arguments, **named)
    (call,) = join.call_args_list
    return call.args, call.kwargs, {key: os.environ.get(key) for key in OURS}


def test_settings_are_handed_on():
    with in_environment(RANK="0"):
        arguments, named, _ = joined("pytorch", "gloo", timeout=1.5, world_size=1)
    assert arguments == ("gloo",) and named == {"timeout": datetime.timedelta(seconds=1.5), "world_size": 1}
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "MASTER_ADDR": "host"}
    for given, expected in (({"port": 5}, "5"), ({}, "29500")):
        with in_environment(**slurm):
            _, named, left = joined("slurm", "gloo", **given)
        assert named == {}
        assert left == dict(zip(OURS, ("3", "4", "1", "host", expected)))
    with in_environment(**slurm, MASTER_PORT="7"):
        assert joined("slurm", "gloo")[2]["MASTER_PORT"] == "7"


def test_errors_say_what_is_expected():
    raises(ValueError, lambda: dist.init_dist("ssh"), "'ssh'", "'pytorch', 'slurm' or 'mpi'")
    raises(ValueError, lambda: dist.init_dist("mpi", init_backend="deepspeed"), "'deepspeed'", "'torch'")
    raises(TypeError, lambda: dist.init_dist("mpi", timeout="30"), "timeout is str", "seconds", "timeout=1800")
    with in_environment():
        raises(KeyError, lambda: dist.init_dist("pytorch"), "RANK")
        raises(KeyError, lambda: dist.init_dist("slurm"), "SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID")
        raises(KeyError, lambda: dist.init_process_group(launcher="mpi"), "OMPI_COMM_WORLD_RANK")
    raises(TypeError, lambda: dist.init_process_group("ccoll", "env://", launcher="mpi"), "launcher", "names")
    two_hosts = {f"OMPI_COMM_WORLD_{key}": "1" for key in ("RANK", "LOCAL_RANK", "LOCAL_SIZE")}
    with in_environment(**two_hosts, OMPI_COMM_WORLD_SIZE="2"):
        raises(KeyError, lambda: dist.init_dist("mpi"), "MASTER_ADDR")
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0", "SLURM_NODELIST": "n1", "PATH": "/nowhere"}
    with in_environment(**slurm):
        raises(RuntimeError, lambda: dist.init_dist("slurm"), "scontrol", "'n1'", "set MASTER_ADDR")


@needs_torch
def test_nccl_without_a_gpu():
    import torch

    with in_environment(RANK="0"), mock.patch.object(torch.cuda, "is_available", return_value=False):
        raises(RuntimeError, lambda: dist.init_dist("pytorch", "nccl"), "'nccl' needs a GPU", "'ccoll'")
        assert joined("pytorch")[0] == ("ccoll",)
