# SPDX-License-Identifier: Apache-2.0
"""The types that the package declares."""

import ast
import inspect
import os
import re
import subprocess
import sys

import ccoll


def mypy(*arguments, module="mypy"):
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_stubs_pass_mypy_strict(tmp_path):
    config = tmp_path / "mypy.ini"  # numpy's own stubs take many times as long as ours
    config.write_text(
        "[mypy]\n[mypy-numpy.*]\nfollow_imports = skip\n[mypy-ml_dtypes.*]\nfollow_imports = skip\n"
        # Its base classes are torch's, whose stubs differ from version to version.
        "[mypy-ccoll.torch.*]\nignore_errors = True\n[mypy-torch.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    )
    cache = ["--cache-dir", str(tmp_path), "--config-file", str(config)]
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


def parameters_of(node, kinds):
    """Names of a stub's parameters; `**named: Unpack[Kind]` stands for the keys of Kind."""
    names = {each.arg.lstrip("_") for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
    if node.args.vararg is not None:
        names.add(node.args.vararg.arg)
    if node.args.kwarg is not None:
        kind = ast.unparse(node.args.kwarg.annotation).removeprefix("Unpack[").rstrip("]")
        while kind in kinds:
            names |= {each.target.id for each in kinds[kind].body if isinstance(each, ast.AnnAssign)}
            kind = kinds[kind].bases[0].id
    return names - {"self"}


def real_parameters(function):
    """The same for the module; nanobind keeps signatures in an attribute of its own."""
    signatures = getattr(function, "__nb_signature__", None)
    if signatures is None:
        return {each for each in inspect.signature(function).parameters if each != "self"}
    text = re.sub(r"\\\d+", "0", signatures[0][0]) + ": ..."
    node = ast.parse(text.replace("std::", "")).body[0]
    return {each.arg for each in [*node.args.args, *node.args.kwonlyargs]} - {"self"}


def test_stubs_have_what_the_module_has():
    with open(os.path.join(os.path.dirname(ccoll.__file__), "__init__.pyi"), encoding="utf-8") as file:
        stub = ast.parse(file.read())
    kinds = {each.name: each for each in stub.body if isinstance(each, ast.ClassDef)}
    compared = 0
    for node in stub.body:
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is None:
            assert parameters_of(node, kinds) == real_parameters(getattr(ccoll, node.name)), node.name
            compared += 1
    for name, node in kinds.items():
        if name.startswith("_") or name in ("ReduceOp", "DataType"):
            continue
        kind = getattr(ccoll, name)
        said = {each.name for each in node.body if isinstance(each, ast.FunctionDef) and each.name[0] != "_"}
        said |= {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        assert said == {each for each in vars(kind) if each[0] != "_"}, name
        for each in node.body:
            function = getattr(kind, getattr(each, "name", ""), None)
            if isinstance(each, ast.FunctionDef) and each.name[0] != "_" and callable(function):
                assert parameters_of(each, kinds) == real_parameters(function), f"{name}.{each.name}"
                compared += 1
    for name in ("ReduceOp", "DataType"):
        said = [each.targets[0].id for each in kinds[name].body]
        assert said == [each.name for each in getattr(ccoll, name)], name
    assert compared > 70, compared


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
