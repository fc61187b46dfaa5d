# SPDX-License-Identifier: Apache-2.0
"""cc-run and cc-bench, as the package has them."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def path(name: str) -> str:
    """Where the command `name` of the package is."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)


def replace_process(name: str, arguments: list[str]) -> NoReturn:
    """The command in place of this process."""
    program = path(name)
    sys.stdout.flush()
    os.execv(program, [program, *arguments])


def run() -> NoReturn:
    """The console script cc-run."""
    replace_process("cc-run", sys.argv[1:])


def bench() -> NoReturn:
    """The console script cc-bench."""
    replace_process("cc-bench", sys.argv[1:])
