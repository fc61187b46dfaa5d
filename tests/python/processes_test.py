# SPDX-License-Identifier: Apache-2.0
"""Ranks that are processes: how they end, and how Ctrl-C ends their waits."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from support import HERE, run, start

import ccoll


@pytest.mark.parametrize("kind", ["call", "work", "probe", "group", "object", "start"])
def test_ctrl_c_ends_a_wait(kind):
    program = os.path.join(HERE, "programs", "interrupted.py")
    with subprocess.Popen([sys.executable, program, kind], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "waiting\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            said, _ = process.communicate(timeout=15)
        finally:
            process.kill()
    assert process.returncode == 0 and re.fullmatch(r"interrupted after [0-3]\.\d s\n", said), said


def test_a_killed_rank_is_named_and_the_others_go_on():
    _, said = run("rank.py", 3, "killed", timeout=60)
    for rank in (0, 2):
        assert f"rank {rank} lost 1" in said, said
    assert said.count("sum [2.0]") == 2, said


@pytest.mark.parametrize("how", ["left_open", "forked", "large"])
def test_programs_end_quietly(how):
    status, said = run("rank.py", 2, how)
    assert status == 0 and said == "", said


def test_a_rank_that_raises_ends_the_job():
    began = time.monotonic()
    status, said = run("rank.py", 2, "raises")
    assert status != 0 and "rank 1 is done for" in said and time.monotonic() - began < 30, said


def test_launch_runs_programs_and_returns_their_status():
    assert ccoll.launch(os.path.join(HERE, "programs", "bare_ranks.py"), 2, timeout=60) == 0
    assert ccoll.launch(["-c", "raise SystemExit(3)"], 2, timeout=60) == 3
    with pytest.raises(subprocess.TimeoutExpired):
        ccoll.launch(["-c", "import time; time.sleep(60)"], 2, timeout=0.5)


@pytest.mark.parametrize("entry", ["ccoll.run.main", "ccoll._commands.run", "ccoll._commands.bench"])
def test_a_package_without_the_command_says_so_in_a_line(entry, tmp_path):
    name = "cc-bench" if entry.endswith("bench") else "cc-run"
    code = (
        "import sys, ccoll.run\n"
        f"ccoll._commands._FOLDER = {str(tmp_path)!r}\n"
        "sys.argv = ['x', '-n', '2', 'program.py']\n"
        f"{entry}()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    line = rf"{name}: this package of ccoll has no command {name}: {tmp_path}/{name} is missing.*tools/wheel.*\n"
    assert ended.returncode == 127 and re.fullmatch(line, ended.stderr), ended.stderr
    (tmp_path / name).write_bytes(b"\x7fELF, but no program")
    (tmp_path / name).chmod(0o755)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 127 and re.fullmatch(rf"{name}: .*Exec format error.*\n", ended.stderr), ended.stderr


def test_launch_names_the_command_that_is_missing(tmp_path, monkeypatch):
    from ccoll import _commands

    monkeypatch.setattr(_commands, "_FOLDER", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="has no command cc-run: .*is missing"):
        ccoll.launch(["-c", "pass"], 2)


def test_a_thread_that_keeps_the_gil_busy_ends_nothing():
    code = (
        "import threading, numpy, ccoll\n"
        "stop = False\n"
        "def spin():\n"
        "    while not stop: pass\n"
        "t = threading.Thread(target=spin); t.start()\n"
        "with ccoll.create(timeout=20) as comm:\n"
        "    for _ in range(50): comm.all_reduce(numpy.ones(1000))\n"
        "stop = True\n"
    )
    assert ccoll.launch(["-c", code], 2, timeout=60) == 0


def test_output_of_ranks_comes_through():
    with start("bare_ranks.py", 2) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and said == ""
