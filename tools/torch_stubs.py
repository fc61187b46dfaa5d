#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets `import torch` succeed where torch was installed without CUDA's libraries, on a machine without a GPU.

    torch_stubs.py TORCH            the folder of the package, …/site-packages/torch
    torch_stubs.py TORCH FOLDER     writes FOLDER/libcuda.so.1 for a GPU that the host plays: it says that the GPU has
                                    a context, and otherwise is as TORCH/lib/libcuda.so.1

For each library that torch's own need and that is nowhere, it puts an empty one into TORCH/lib, whose functions
all return 35 (no driver: torch then sees no GPU). For tests only, and never beside a GPU.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile


_IS_CUDAS = re.compile(r"(cu|nv|nccl|NV|__cuda|_ZN?\d*cu)")


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed_by(library: pathlib.Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", str(library)))


def owners_of_versions(library: pathlib.Path) -> dict[str, str]:
    """The library that must have the symbols of each version."""
    owners, file = {}, ""
    for line in output("readelf", "-VW", str(library)).splitlines():
        if match := re.search(r"File: (\S+)", line):
            file = match.group(1)
        elif match := re.search(r"Name: (\S+)\s+Flags", line):
            owners[match.group(1)] = file
    return owners


def symbols_of(library: pathlib.Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The names that it has, and (name, version) of those that it needs."""
    defined, wanted = set(), set()
    for line in output("nm", "-D", str(library)).splitlines():
        kind, symbol = line.split()[-2:]
        name, _, version = symbol.replace("@@", "@").partition("@")
        if kind in "Uwv":
            wanted.add((name, version))
        else:
            defined.add(name)
    return defined, wanted


_HAS_CONTEXT = "int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* is) { *flags = 0; *is = 1; return 0; }"


def write_stub(place: pathlib.Path, symbols: set[tuple[str, str]], more: str = "") -> None:
    by_version = collections.defaultdict(list)
    for name, version in symbols:
        by_version[version].append(name)
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "versions")
        body = []
        for name in sorted({name for name, _ in symbols}):
            text = name.endswith(("GetErrorString", "GetStatusString"))
            body.append(f'const char* {name}(void) {{ return "a stub"; }}' if text else f"int {name}(void) {{ return 35; }}")
        source.write_text("\n".join([*body, more]) + "\n")
        script.write_text(
            "".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in by_version.items() if v)
        )
        versions = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", f"-Wl,-soname,{place.name}", *versions]
        subprocess.run([*command, "-o", str(place), str(source)], check=True)


def main() -> None:
    folder = pathlib.Path(sys.argv[1], "lib")
    if len(sys.argv) > 2:
        calls, _ = symbols_of(folder / "libcuda.so.1")
        others = {(name, "") for name in calls - {"cuDevicePrimaryCtxGetState"}}
        write_stub(pathlib.Path(sys.argv[2], "libcuda.so.1"), others, _HAS_CONTEXT)
        return
    libraries = sorted(folder.glob("*.so*"))
    here = {library.name for library in libraries}
    known = set(re.findall(r"^\s*(\S+) \(", output("/sbin/ldconfig", "-p"), re.MULTILINE))
    absent = {name for library in libraries for name in needed_by(library)} - here - known
    if not absent:
        return
    read = {library: symbols_of(library) for library in libraries}
    defined = set().union(*(names for names, _ in read.values()))
    symbols = collections.defaultdict(set)
    for library, (_, wanted) in read.items():
        owners = owners_of_versions(library)
        its_absent = sorted(absent.intersection(needed_by(library)))
        for name, version in wanted:
            if version and owners.get(version) in absent:
                symbols[owners[version]].add((name, version))
            elif not version and its_absent and name not in defined and _IS_CUDAS.match(name):
                symbols[its_absent[0]].add((name, ""))
    for name in absent:
        write_stub(folder / name, symbols[name])


if __name__ == "__main__":
    main()
