# SPDX-License-Identifier: Apache-2.0
"""cc-run and cc-bench, as the package has them."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
_NOT_STARTED = 127  # as cc-run's own status


def path(name: str) -> str:
    """Where the command `name` of the package is. Raises FileNotFoundError where the package has none."""
    program = os.path.join(_FOLDER, name)
    if not os.access(program, os.X_OK):
        raise FileNotFoundError(
            f"this package of ccoll has no command {name}: {program} is missing, or may not be executed. Install the "
            f"wheel that tools/wheel builds, or use the {name} of a build or an installation of ccoll: `{name} --help`"
        )
    return program


def replace_process(name: str, arguments: list[str]) -> NoReturn:
    """The command in place of this process. Where there is none, a line says so, and the process ends."""
    sys.stdout.flush()
    try:
        program = path(name)
        os.execv(program, [program, *arguments])
    except OSError as error:
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(_NOT_STARTED)


def run() -> NoReturn:
    """The console script cc-run."""
    replace_process("cc-run", sys.argv[1:])


def bench() -> NoReturn:
    """The console script cc-bench."""
    replace_process("cc-bench", sys.argv[1:])
