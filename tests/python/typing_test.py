# SPDX-License-Identifier: Apache-2.0
"""What the package says of its types."""

import inspect
import os
import subprocess
import sys

import ccoll


def mypy(*arguments, module="mypy"):
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_stubs_pass_mypy_strict(tmp_path):
    cache = ["--cache-dir", str(tmp_path)]
    status, said = mypy("--strict", *cache, "-p", "ccoll")
    assert status == 0, said
    program = tmp_path / "program.py"
    program.write_text(
        "import array\nimport ccoll\n"
        "async def main() -> None:\n"
        "    with ccoll.create(timeout=3, checksum=True) as comm:\n"
        "        x = array.array('d', [1])\n"
        "        reveal_type(comm.all_reduce(x))\n"
        "        reveal_type(await comm.all_reduce_async(x))\n"
        "        reveal_type(comm.recv(x, 0))\n"
        "        reveal_type(comm.split(1))\n"
        "        comm.all_reduce(x, op='nonsense')\n"
        "        comm.send(x, '1')\n"
    )
    status, said = mypy("--strict", *cache, str(program))
    for expected in ("array.array[float]", "ccoll.Received", "ccoll.Communicator | None"):
        assert expected in said, said
    assert said.count("error:") == 2, said


def test_stubs_have_what_the_module_has():
    status, said = mypy("ccoll", "--ignore-disjoint-bases", module="mypy.stubtest")
    if "unrecognized arguments" in said:
        status, said = mypy("ccoll", module="mypy.stubtest")
    assert status == 0, said


def test_everything_public_is_documented():
    missing = []
    for name in ccoll.__all__:
        each = getattr(ccoll, name)
        if not inspect.getdoc(each) and not isinstance(each, int):
            missing.append(name)
    for kind in (ccoll.Communicator, ccoll.Work, ccoll.Reduction, ccoll.Options):
        missing += [f"{kind.__name__}.{name}" for name in vars(kind)
                    if not name.startswith("_") and not inspect.getdoc(getattr(kind, name))]  # fmt: skip
    assert not missing, missing


def test_the_package_is_marked_as_typed():
    assert os.path.exists(os.path.join(os.path.dirname(ccoll.__file__), "py.typed"))
    assert ccoll.__version__.count(".") == 2
