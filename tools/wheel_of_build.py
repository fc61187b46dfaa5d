#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a wheel of the Python package that a build directory has, for tests on this machine. tools/wheel builds real ones.

    wheel_of_build.py BUILD_DIR FOLDER

Its progress goes to standard error.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def tag_of(package: pathlib.Path) -> str:
    (extension,) = package.glob("_native.*")
    own = re.search(r"cpython-(\d+)", extension.name)
    return f"cp{own[1]}-cp{own[1]}" if own else "cp312-abi3"


def main() -> None:
    build, folder = sys.argv[1:]
    root = pathlib.Path(__file__).resolve().parent.parent
    project = tomllib.loads((root / "python/pyproject.toml").read_text())["project"]
    name = f"{project['name']}-{json.loads(output('meson', 'introspect', '--projectinfo', build))['version']}"
    with tempfile.TemporaryDirectory() as stage:
        install = ["meson", "install", "-C", build, "--no-rebuild", "--tags", "wheel", "--destdir", stage]
        subprocess.run(install, check=True, stdout=sys.stderr)
        (package,) = (each.parent for each in pathlib.Path(stage).rglob("ccoll/__init__.py"))
        site = package.parent
        told = site / f"{name}.dist-info"
        told.mkdir()
        tag = f"{tag_of(package)}-linux_{os.uname().machine}"
        (told / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: ccoll\nRoot-Is-Purelib: false\nTag: {tag}\n")
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: {}\nVersion: {}\n".format(*name.split("-")))
        groups = {"console_scripts": project["scripts"], **project["entry-points"]}
        (told / "entry_points.txt").write_text("".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in groups.items()
        ))  # fmt: skip
        files = sorted(each for each in site.rglob("*") if each.is_file())
        listed = [f"{each.relative_to(site)},,\n" for each in files] + [f"{told.name}/RECORD,,\n"]
        (told / "RECORD").write_text("".join(listed))
        with zipfile.ZipFile(pathlib.Path(folder) / f"{name}-{tag}.whl", "w") as wheel:
            for each in [*files, told / "RECORD"]:
                wheel.write(each, each.relative_to(site))


main()
