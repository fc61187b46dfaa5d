# SPDX-License-Identifier: Apache-2.0
"""Counts per call of a program that makes as many calls as its last argument says, by valgrind.

What happens once does not matter: a run of few calls is subtracted from a run of many. The start of a
communicator measures the clock, which takes up to a million instructions more in one run than in another.
"""
import re
import subprocess
import sys
import tempfile

FEW, MANY = 1000, 201000


def counted(pattern, tool, command):
    """The count that valgrind reports for a run."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(["valgrind", *tool, *command], check=False, cwd=folder, capture_output=True,
                             text=True)
    found = re.search(pattern, run.stderr)
    if run.returncode != 0 or not found: sys.exit(f"{' '.join(command)}: {run.stderr}")
    return int(found.group(1).replace(",", ""))


def per_call(pattern, tool, command):
    """The counts of the calls between the two runs."""
    few, many = (counted(pattern, tool, [*command, str(calls)]) for calls in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def instructions(command):
    """Instructions per call."""
    return per_call(r"Collected : (\d+)", ["--tool=callgrind"], command)


def allocations(command):
    """Allocations per call."""
    return per_call(r"total heap usage: ([\d,]+) allocs", ["--tool=memcheck"], command)


def program_of(arguments, usage):
    """The program that is the only argument, by its whole path; exits with `usage` otherwise."""
    if len(arguments) != 1 or arguments[0].startswith("-"): sys.exit(usage.strip())
    return subprocess.run(["realpath", arguments[0]], check=True, capture_output=True,
                          text=True).stdout.strip()
