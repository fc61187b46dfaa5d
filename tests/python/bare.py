# SPDX-License-Identifier: Apache-2.0
"""The package without any other package; tools/wheel runs this before it installs numpy."""

import array
import os
import subprocess
import sys
import time

LIMIT = 0.05  # seconds that `import ccoll` may take


def import_seconds():
    """The best of several interpreters, so that a busy machine does not distort the result."""
    code = "import time; a = time.perf_counter(); import ccoll; print(time.perf_counter() - a)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(7))


def main():
    took = import_seconds()
    print(f"import ccoll: {took * 1e3:.1f} ms")
    assert took < LIMIT, f"import ccoll takes {took} s: expected less than {LIMIT} s"

    import ccoll

    heavy = {"numpy", "torch", "asyncio", "subprocess", "pickle"} & set(sys.modules) - {"subprocess"}
    assert not heavy, heavy
    assert os.path.dirname(ccoll.__file__).startswith(sys.prefix), ccoll.__file__
    with ccoll.create() as comm:
        total = comm.all_reduce(array.array("d", [1, 2]))
        assert isinstance(total, array.array) and total.tolist() == [1, 2], total
        assert comm.broadcast_object({"a": 1}) == {"a": 1}

    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "bare_ranks.py")
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ccoll.run", "-n", "3", script], check=True, timeout=60)
    print(f"three ranks by cc-run: {time.perf_counter() - began:.2f} s")
    for command in ("cc-run", "cc-bench"):
        program = os.path.join(os.path.dirname(sys.executable), command)
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
    nccl = os.path.join(os.path.dirname(ccoll.__file__), "lib", "ccoll", "nccl", "libnccl.so.2")
    import ctypes

    version = ctypes.c_int()
    assert ctypes.CDLL(nccl).ncclGetVersion(ctypes.byref(version)) == 0 and version.value > 20000, version


main()
