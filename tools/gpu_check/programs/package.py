# SPDX-License-Identifier: Apache-2.0
"""The Python package that lies beside these programs, and ranks that use it on one GPU.

array_jobs.py and backend_jobs.py are the ranks' programs. Each starts itself once for each rank, by the package's own
cc-run. A rank tells what it finds by lines of JSON on its standard output; everything else passes as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import faulthandler
import json
import os
import pathlib
import platform
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile

INCOMPLETE = 78
# The limit of each call, and of the way in which a lost rank becomes known.
CALL_LIMIT = 15
LEAST_TIME = 6


class Absent(Exception):
    """Something that a program needs is not there: its text says what."""


def wheel_in(folder: pathlib.Path) -> pathlib.Path:
    """The wheel for this interpreter: its own, else one of the stable interface."""
    wheels = sorted(folder.glob("ccoll-*.whl"))
    own = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    glibc = tuple(int(part) for part in re.findall(r"\d+", platform.libc_ver()[1])[:2])
    fitting = []
    for wheel in wheels:
        python, abi, tag = wheel.stem.split("-")[-3:]
        needed = re.match(r"manylinux_(\d+)_(\d+)_", tag)
        if not tag.endswith(platform.machine()) or (needed and glibc and tuple(map(int, needed.groups())) > glibc): continue
        if abi == own: fitting.insert(0, wheel)
        if abi == "abi3" and sys.version_info >= (3, int(python[3:])): fitting.append(wheel)
    if fitting: return fitting[0]
    this = f"CPython {platform.python_version()} on {platform.machine()} with glibc {platform.libc_ver()[1]}"
    there = ", ".join(wheel.name for wheel in wheels) or "none (tools/wheel --cuda makes one, tools/gpu-check takes it)"
    raise Absent(f"there is no package for {this}: in {folder.name} there is {there}")


@contextlib.contextmanager
def unpacked(folder: pathlib.Path):
    """Where `import ccoll` finds the package: unpacked for this time, or already so in `folder`."""
    if (folder / "ccoll/__init__.py").exists():
        yield folder
        return
    wheel = wheel_in(folder)
    with tempfile.TemporaryDirectory(prefix="ccoll-package-") as place:
        with zipfile.ZipFile(wheel) as packed: packed.extractall(place)
        for command in pathlib.Path(place, "ccoll/bin").iterdir(): command.chmod(0o755)
        print(f"the package is {wheel.name}", flush=True)
        yield pathlib.Path(place)


def job(made: list, function, *world):
    """A job by its function's name, which says what it found and how many checks it made in the world that `made` has."""

    def run():
        before = made[0].expect.count if made else 0
        found = function(*world)
        return found, made[0].expect.count - before

    return function.__name__, run


def arguments(program: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=program)
    made.add_argument("package", type=pathlib.Path)
    made.add_argument("--limit", type=float, default=60)
    made.add_argument("--results", type=pathlib.Path)
    made.add_argument("--phase", default="package")
    # Without a GPU:
    made.add_argument("--on-host", action="store_true")
    made.add_argument("--no-kernels", action="store_true")
    # On a host that is slow, how many times as long ranks may take.
    made.add_argument("--patience", type=int, default=1)
    # For a rank:
    made.add_argument("--rank-of")
    made.add_argument("--last-dies", action="store_true")
    made.add_argument("--seconds", type=float, default=30)
    made.add_argument("--store")
    return made


@dataclasses.dataclass
class Launch:
    """Ranks that are started together; `library` is theirs."""

    library: str
    ranks: int
    last_dies: bool = False

    def __str__(self) -> str:
        return f"{self.library}, {self.ranks} rank{'s' if self.ranks > 1 else ''}"


class Runner:
    """Starts the ranks of a program, and keeps what they find."""

    def __init__(self, program: str, given: argparse.Namespace):
        self.program, self.given = program, given
        self.until = time.monotonic() + given.limit
        self.tried = self.wrong = 0
        self.left_out: list[str] = []
        self.absent: dict[str, str] = {}

    def record(self, **fields) -> None:
        if self.given.results is None: return
        line = json.dumps({"phase": self.given.phase, **fields}) + "\n"
        file = os.open(self.given.results, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def complain(self, said: str) -> None:
        self.wrong += 1
        print(f"WRONG: {said}", flush=True)
        self.record(what="wrong", said=said)

    def take(self, launch: Launch, line: str) -> None:
        """Takes a line of a rank's."""
        try:
            told = json.loads(line) if line.startswith('{"told"') else None
        except ValueError:
            told = None
        if told is None:
            print(line, flush=True)
        elif told["told"] == "right":
            self.tried += told["tried"]
            name = f"{launch}: {told['job']}"
            print(f"{name}: right, {told['found']}, {told['seconds']:.1f} s", flush=True)
            self.record(what="check", name=name, status="passed", tried=told["tried"], wrong=0,
                        seconds=told["seconds"], found=told["found"])
        elif told["told"] == "wrong":
            self.tried += 1
            self.complain(f"{launch}, rank {told['rank']}: {told['said']}")
        elif launch.library not in self.absent:
            self.absent[launch.library] = told["said"]
            print(f"{launch}: {told['said']}", flush=True)
            self.record(what="absent", name=launch.library, said=told["said"])

    def start(self, launch: Launch, place: pathlib.Path, seconds: float, store: str) -> subprocess.Popen:
        given = self.given
        command = [str(place / "ccoll/bin/cc-run"), "-n", str(launch.ranks), "--no-prefix", "--grace", "1", "--on-failure",
                   "continue" if launch.last_dies else "end", "--", sys.executable, "-B", self.program, str(given.package),
                   "--rank-of", launch.library, "--seconds", str(seconds), "--store", store, "--patience", str(given.patience)]
        for name in ("on_host", "no_kernels"):
            if getattr(given, name): command.append("--" + name.replace("_", "-"))
        if launch.last_dies: command.append("--last-dies")
        path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
        # JAX would take most of the GPU's memory for each process.
        environment = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1", **os.environ,
                       "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                preexec_fn=die_with_parent)

    def run(self, launch: Launch, place: pathlib.Path, most: float) -> None:
        if launch.library in self.absent: return
        left = self.until - time.monotonic()
        if left < LEAST_TIME:
            self.left_out.append(str(launch))
            return
        # Ranks end themselves, and say what they were doing, before they are ended.
        seconds = min(most * self.given.patience, left - 3)
        before = self.wrong, self.tried
        with tempfile.TemporaryDirectory(prefix="ccoll-ranks-") as folder:
            process = self.start(launch, place, seconds, f"{folder}/store")
            with process.stdout:
                for line in lines_until(process, time.monotonic() + seconds + 2): self.take(launch, line)
                is_over = process.poll() is not None
                if not is_over:
                    process.terminate()
                    try:
                        process.wait(2)
                    except subprocess.TimeoutExpired:
                        process.kill()
                code = process.wait()
        if launch.library in self.absent and self.wrong == before[0]: return
        expected = 128 + signal.SIGKILL if launch.last_dies else 0
        if not is_over:
            self.complain(f"{launch}: not over after {seconds:.0f} s")
        elif code != expected and self.wrong == before[0]:
            self.complain(f"{launch}: ended with status {code}")
        elif self.tried == before[1]:
            self.complain(f"{launch}: nothing was tried")

    def close(self) -> int:
        """Prints the last line; returns the status."""
        said = f"{self.wrong} of {self.tried} calls and results wrong"
        if self.left_out: said += f", no time for {'; '.join(self.left_out)}"
        for missing in self.absent.values(): said += f", {missing}"
        print(said, flush=True)
        if self.wrong: return 1
        return INCOMPLETE if self.left_out or self.absent or not self.tried else 0


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def lines_until(process: subprocess.Popen, until: float):
    """The lines that a process writes, as they come, until it has ended or the time has passed."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            if not selector.select(left): break
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                with contextlib.suppress(subprocess.TimeoutExpired): process.wait(max(0.1, until - time.monotonic()))
                break
            *whole, rest = (rest + read).split(b"\n")
            for line in whole: yield line.decode(errors="replace")
    if rest: yield rest.decode(errors="replace")


def start_all(program: str, given: argparse.Namespace, launches: list[Launch], most: float, absent: dict[str, str]) -> int:
    """`most`: the seconds of a launch. `absent`: libraries that are not there, and what to say of each."""
    runner = Runner(program, given)
    runner.absent.update(absent)
    try:
        with unpacked(given.package.resolve()) as place:
            for launch in launches: runner.run(launch, place, most)
    except Absent as lacking:
        print(lacking, flush=True)
        return INCOMPLETE
    return runner.close()


# The rest is for ranks.


def tell(kind: str, **fields) -> None:
    # One write: lines of several ranks do not mix.
    os.write(1, (json.dumps({"told": kind, **fields}) + "\n").encode())


class Expectations:
    """Counts what was compared."""

    def __init__(self):
        self.count = 0

    def __call__(self, is_right: bool, what: str) -> None:
        self.count += 1
        if not is_right: raise AssertionError(what)


def mapped(name: str) -> str:
    """The path of the library of that name in this process."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if name in os.path.basename(path): return path
    return ""


def package() -> str:
    """Says what package this rank has; raises if its parts are not of one folder."""
    import ccoll

    folder = os.path.dirname(os.path.realpath(ccoll.__file__))
    library = os.path.realpath(mapped("libccoll.so"))
    if not library.startswith(folder + os.sep): raise AssertionError(f"libccoll is {library}, and the package in {folder}")
    return f"ccoll {ccoll.__version__}, CPython {platform.python_version()}, {os.path.basename(library)} of the package"


def run_rank(rank: int, given: argparse.Namespace, jobs) -> None:
    """`jobs` yields (name, function), each at the time when it is to run. A function returns what it found, and how
    much it compared."""
    # The bundle stays as it is (-B), but a library that nobody has compiled yet is compiled for all ranks to come.
    sys.dont_write_bytecode = False
    faulthandler.dump_traceback_later(given.seconds, exit=True)
    name = "start"
    try:
        for name, job in jobs:
            begun = time.monotonic()
            found, tried = job()
            if rank == 0: tell("right", job=name, found=found, tried=tried, seconds=time.monotonic() - begun)
    except Absent as absent:
        tell("absent", said=str(absent))
        os._exit(INCOMPLETE)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        tell("wrong", rank=rank, said=f"{name}: {type(error).__name__}: {str(error)[:1500]} "
                                      f"({os.path.basename(where.filename)}:{where.lineno})")
        os._exit(1)
    faulthandler.cancel_dump_traceback_later()
