# SPDX-License-Identifier: Apache-2.0
"""`python -m ccoll.run -n 4 script.py`: cc-run for programs in Python.

What ends in .py, or begins with -m, runs under this interpreter; all else is a program of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from ccoll import _commands



def _command(program: Sequence[str]) -> list[str]:
    if program and (program[0].endswith(".py") or program[0] == "-m" or program[0] == "-c"):
        return [sys.executable, *program]
    return list(program)


def launch(program: str | Sequence[str], ranks: int, *options: str, timeout: float | None = None) -> int:
    """Starts `ranks` processes of a program by cc-run, waits for them, and returns the exit status.

    program: a command, or the arguments of this interpreter where it ends in .py or begins with -m or -c.
    options: of cc-run (`cc-run --help`). timeout: in seconds, after which all ranks are ended and
    subprocess.TimeoutExpired is raised.
    """
    words = [program] if isinstance(program, str) else list(program)
    command = [_commands.path("cc-run"), "-n", str(ranks), *options, "--", *_command(words)]
    with subprocess.Popen(command) as process:
        try:
            return process.wait(timeout)
        except BaseException:
            process.terminate()  # cc-run ends its ranks
            raise


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """cc-run's own arguments, and the program with its own."""
    for at, word in enumerate(arguments):
        if word == "--":
            return arguments[:at], arguments[at + 1 :]
        if word in ("-m", "-c") or word.endswith(".py"):
            return arguments[:at], arguments[at:]
    return arguments, []


def main() -> None:
    """`python -m ccoll.run`."""
    options, program = _split(sys.argv[1:])
    if program:
        _commands.replace_process("cc-run", [*options, "--", *_command(program)])
    _commands.replace_process("cc-run", options)


if __name__ == "__main__":
    main()
