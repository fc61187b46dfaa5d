# SPDX-License-Identifier: Apache-2.0
"""The contenders of bench/compare: how each is built, restricted to a transport, run and read."""
import csv
import ctypes
import os
import shutil
import signal
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_SECONDS = 300  # until a run counts as hanging


class Unavailable(Exception):
    """A contender that cannot run here; the text says what is missing and how to get it."""


# Starting and ending programs

def build(directory, name, source, command, libraries=()):
    """The program, compiled from bench/peers unless it is newer than all sources there."""
    newest = max(os.path.getmtime(each.path) for each in os.scandir(HERE))
    source = os.path.join(HERE, source)
    program = os.path.join(directory, "peers", name)
    if os.path.exists(program) and os.path.getmtime(program) > newest:
        return program
    os.makedirs(os.path.dirname(program), exist_ok=True)
    done = subprocess.run([*command, source, "-o", program, "-pthread", *libraries],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable("cannot be compiled:\n" + done.stderr.strip())
    return program


def in_own_group():
    os.setsid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: ends with this program


def run(command, environment):
    """Standard output of a program that succeeds; else raises with its output."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=in_own_group,
                               env={**os.environ, **environment})
    try:
        output, errors = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end within {RUN_SECONDS} s: {' '.join(command)}") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode != 0:
        said = (errors.strip() or output.strip() or "nothing").splitlines()[-1]
        raise RuntimeError(f"exit {process.returncode}, {said}: {' '.join(command)}")
    return output


# Contenders: each times one point and returns microseconds per call and a remark

def data_options(options):
    """Options that all contenders understand."""
    return [*(["--fresh"] if options.fresh else []), *(["--first"] if options.first else [])]


class Ccoll:
    name = "ccoll"
    memory = "ordinary"

    def __init__(self, options):
        self.program = options.cc_bench or os.path.join(options.build, "bench", "cc-bench")
        if not os.access(self.program, os.X_OK):
            raise Unavailable(f"no {self.program}: build first (ninja -C {options.build}), "
                              "or give --build or --cc-bench")
        self.transport = ["--transport", "tcp"] if options.transport == "tcp" else []
        self.data = data_options(options)
        self.figures = ["usec", "first_us", "early_us"] if options.first else ["usec"]

    def command(self, op, size, ranks):
        # The peers' broadcasts have one buffer, so their root copies nothing.
        place = ["--in-place"] if op == "broadcast" else []
        return [self.program, op, "-n", ranks, "-b", size, "-e", size, "--no-check", "--csv", "-",
                "--memory", self.memory, *place, *self.data, *self.transport], {}

    def read(self, output):
        row = next(csv.DictReader(output.splitlines()))
        return [float(row[figure]) for figure in self.figures], row["algo"]


class CcollRegistered(Ccoll):
    """Uses buffers that all ranks of the host map (ccoll::allocate)."""
    name = "registered"
    memory = "registered"


def last_figure(output, column):
    """Reads the last row; launchers may print their own text after it."""
    for line in reversed(output.splitlines()):
        try:
            return float(line.split(",")[column])
        except (IndexError, ValueError):
            continue
    raise RuntimeError(f"no row of figures in what it printed: {output.strip()[-200:]!r}")


class Peer:
    """A program that prints one row: op,ranks,bytes,usec and, with --first, first_us,early_us."""

    def __init__(self, options):
        self.data = data_options(options)
        self.columns = range(3, 6 if options.first else 4)

    def read(self, output):
        return [last_figure(output, column) for column in self.columns], ""


class Mpi(Peer):
    def __init__(self, options):
        super().__init__(options)
        compiler, self.launcher = self.find("mpicc", options), self.find("mpirun", options)
        if not compiler or not self.launcher:
            raise Unavailable("not installed: tools/setup peers")
        self.program = build(options.build, f"mpi_bench.{self.name}", "mpi_bench.c",
                             [compiler, "-O2"])

    def find(self, tool, _options):
        return shutil.which(f"{tool}.{self.name}")


class OfPyPi:
    """Not from Debian, but where tools/setup peers has put it."""

    def place(self, options):
        return os.path.join(options.build, "peers", self.name)

    def find(self, tool, options):
        return shutil.which(tool, path=os.path.join(self.place(options), "bin"))


class OpenMpi(Mpi):
    name = "openmpi"

    def __init__(self, options):
        super().__init__(options)
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
        self.restriction = tcp if options.transport == "tcp" else []

    def command(self, op, size, ranks):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return [self.launcher, "--oversubscribe", "-n", ranks, *self.restriction,
                self.program, *self.data, op, size], root


class NewerOpenMpi(OfPyPi, OpenMpi):
    name = "openmpi5"


class Mpich(Mpi):
    name = "mpich"

    def __init__(self, options):
        super().__init__(options)
        tcp = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}
        self.environment = tcp if options.transport == "tcp" else {}

    def command(self, op, size, ranks):
        return [self.launcher, "-n", ranks, self.program, *self.data, op, size], self.environment


class NewerMpich(OfPyPi, Mpich):
    name = "mpich5"


class Gloo(Peer):
    name = "gloo"

    def __init__(self, options):
        super().__init__(options)
        if not os.path.exists("/usr/include/gloo/context.h"):
            raise Unavailable("not installed: tools/setup peers, or libgloo-dev")
        compiler = os.environ.get("CXX", "c++").split()
        self.program = build(options.build, "gloo_bench", "gloo_bench.cpp",
                             [*compiler, "-std=c++17", "-O2"], ["-lgloo"])

    def command(self, op, size, ranks):
        return [self.program, *self.data, op, ranks, size], {}


class OneCcl(OfPyPi, Peer):
    """Its CPU build, over Intel MPI. Otherwise it takes bare libfabric, which is slower here, and
    with which mpiexec often fails at the end of a successful run."""
    name = "oneccl"

    def __init__(self, options):
        super().__init__(options)
        place, self.launcher = self.place(options), self.find("mpiexec.hydra", options)
        library = os.path.join(place, "lib", "ccl", "cpu", "lib", "libccl.a")
        if not os.path.exists(library) or not self.launcher:
            raise Unavailable("not installed: tools/setup peers")
        compiler = os.environ.get("CXX", "c++").split()
        runtime = os.path.abspath(os.path.join(place, "lib"))  # of Intel's compiler and MPI
        self.program = build(options.build, "oneccl_bench", "oneccl_bench.cpp",
                             [*compiler, "-std=c++17", "-O2", f"-I{place}/include"],
                             [library, f"-L{runtime}", f"-Wl,-rpath,{runtime}", "-l:libintlc.so.5",
                              "-l:libhwloc.so.15", "-ldl"])
        tcp = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
        self.environment = {"CCL_ATL_TRANSPORT": "mpi",
                            **(tcp if options.transport == "tcp" else {})}

    def command(self, op, size, ranks):
        return [self.launcher, "-bootstrap", "fork", "-n", ranks, self.program, *self.data,
                op, size], self.environment


PEERS = {peer.name: peer for peer in (OpenMpi, NewerOpenMpi, Mpich, NewerMpich, Gloo, OneCcl)}


class Limits:
    """The least cost of a point: sums of figures of bench/peers/limits.cpp."""

    # Over all ranks, in sizes: the data that n ranks must move, and must add up.
    MOVED = {"all_reduce": lambda n: 2 * (n - 1), "all_gather": lambda n: n - 1,
             "reduce_scatter": lambda n: n - 1, "all_to_all": lambda n: n - 1,
             "broadcast": lambda n: n - 1, "reduce": lambda n: n - 1, "send_recv": lambda n: n}
    REDUCING = ("all_reduce", "reduce_scatter", "reduce")

    def __init__(self, options):
        self.of_ccoll = self.of_tcp if options.transport == "tcp" else self.of_memory
        self.data = ["--fresh"] if options.fresh else []
        compiler = os.environ.get("CXX", "c++").split()
        self.program = build(options.build, "limits", "limits.cpp",
                             [*compiler, "-std=c++20", "-O3", "-march=native"])

    @staticmethod
    def of_memory(op, size, ranks):
        """Bare protocols of two ranks that do only what the operation requires."""
        if ranks != 2:
            return []
        if op == "barrier" or (op == "all_reduce" and size <= 48):
            return [("allreduce2_line", max(8, whole(size)))]
        return [(f"{op.replace('_', '')}2_bare", max(8, whole(size)))]

    @staticmethod
    def of_registered(op, size, ranks):
        """Bare protocols of two ranks that map each other's buffers."""
        name = {"all_reduce": "allreduce2", "all_gather": "allgather2"}.get(op)
        return [(name, whole(size))] if name and ranks == 2 and size >= 64 << 10 else []

    @classmethod
    def of_tcp(cls, op, size, ranks):
        """Only moves the bytes, over as many pairs of sockets at once as cores can serve."""
        if op == "barrier":
            return [("tcp_bothways", 8)] if ranks == 2 else []
        if op not in cls.MOVED:
            return []
        if ranks == 2 and op in ("broadcast", "reduce"):
            sent = [("tcp_oneway", max(8, whole(size)))]
        else:
            sent = [("tcp_bothways", cls.share(cls.MOVED[op](ranks) * size, ranks))]
        added = [("sum2", cls.share((ranks - 1) * size, ranks))] if op in cls.REDUCING else []
        return sent + added

    @staticmethod
    def share(total, ranks):
        """The share of each of two processes, beside other pairs if there are cores."""
        return max(8, whole(total // max(2, min(ranks, os.cpu_count() or 2))))

    def command(self, figure, size):
        return [self.program, *self.data, figure, size]

    def read(self, output):
        """Microseconds, and the way if there are several."""
        return last_figure(output, 2), ",".join(output.splitlines()[-1].split(",")[3:])


def whole(size):
    return size // 8 * 8
