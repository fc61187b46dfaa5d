# SPDX-License-Identifier: Apache-2.0
"""The arrays that calls accept, and the errors for those that they refuse."""

import array
import ctypes
import sys

import array_api_strict as strict
import ml_dtypes
import numpy as np
import pytest

import ccoll
from support import ranks


@pytest.fixture
def alone():
    with ccoll.create_all(1)[0] as comm:
        yield comm


def test_the_buffer_protocol(alone):
    for x in (b"abc", bytearray(b"abc"), memoryview(b"abc")):
        assert bytes(alone.all_reduce(x)) == b"abc"
        gathered = alone.all_gather(x)
        assert bytes(gathered) == b"abc"
    doubles = array.array("d", [1.5, 2])
    assert alone.all_reduce(doubles) == doubles and alone.all_reduce(doubles) is not doubles
    numbers = (ctypes.c_int * 3)(1, 2, 3)
    into = array.array("i", [0] * 3)
    assert alone.all_reduce(numbers, into) is into and into.tolist() == [1, 2, 3]
    view = memoryview(array.array("h", [1, 2, 3, 4])).cast("B").cast("h", (2, 2))
    assert alone.all_reduce(view).tolist() == [[1, 2], [3, 4]]


def test_memory_is_written_where_it_lies(alone):
    x = np.arange(6, dtype=np.float32)
    out = np.zeros((2, 3), np.float32)
    assert alone.all_reduce(x, out) is out and out.tolist() == [[0, 1, 2], [3, 4, 5]]
    registered = ccoll.allocate(1 << 16)
    own = np.frombuffer(registered, np.int32)
    own[:] = 3
    assert alone.all_reduce(own, own) is own
    assert bytes(alone.all_reduce(registered))[:4] == b"\3\0\0\0"
    with pytest.raises(BufferError, match="still use"):
        registered.free()
    del own
    registered.free()
    with pytest.raises(BufferError, match="freed"):
        memoryview(registered)


def test_dlpack(alone):
    x = strict.asarray([[1.0, 2.0], [3.0, 4.0]])
    made = alone.all_reduce(x)
    assert type(made) is type(x) and bool(strict.all(made == x))
    assert alone.all_gather(x).shape == (1, 2, 2)
    for name in ("int8", "uint16", "int64", "float32", "bool", "complex64"):
        each = strict.asarray([0, 1], dtype=getattr(strict, name))
        assert bool(strict.all(alone.all_reduce(each) == each)), name


class Exported:
    """An array that supports only DLPack."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **options):
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


def test_dlpack_alone(alone):
    x = np.arange(4.0)
    into = np.zeros(4)
    assert alone.all_reduce(Exported(x), into).tolist() == [0, 1, 2, 3]
    target = Exported(into)
    assert alone.all_reduce(x + 1, target) is target and into.tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="no new array"):
        alone.all_reduce(Exported(x))
    assert alone.all_reduce(Exported(x[::2]), np.zeros(2)).tolist() == [0, 2]
    assert alone.all_reduce(Exported(x.reshape(2, 2).T), into).tolist() == [0, 2, 1, 3]
    references = sys.getrefcount(x)
    for _ in range(100):
        alone.all_reduce(Exported(x), into)
    assert sys.getrefcount(x) == references


def test_torch(alone):
    torch = pytest.importorskip("torch", reason="there is no torch (pip install torch)")
    names = "int8 uint8 int16 int32 int64 float16 bfloat16 float32 float64 bool float8_e4m3fn float8_e5m2"
    for name in [*names.split(), "complex64", "complex128"]:
        x = torch.tensor([0, 1, 2]).to(getattr(torch, name))
        made = alone.all_reduce(x)
        assert made.dtype == x.dtype and torch.equal(made.to(torch.float64), x.to(torch.float64)), name
        assert alone.all_gather(x).shape == (1, 3)
    x = torch.ones(2, requires_grad=True)
    assert alone.all_reduce(x).tolist() == [1, 1]
    with pytest.raises(TypeError, match="memory of the host or of a CUDA device"):
        alone.all_reduce(torch.ones(2, device="meta"))
    with pytest.raises(TypeError, match="torch.*qint8|elements that are"):
        alone.all_reduce(torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8))


def views(matrix):
    """Views of a matrix of 6 rows and 8 columns with gaps between their elements, and of nothing."""
    return [matrix[:, 2:5], matrix[:, 7], matrix[::2], matrix[1::3], matrix[:, 3:4], matrix[:0, 1:3]]


def test_numpy_arrays_with_gaps(alone):
    for dtype in (np.int8, np.float32, np.complex128, ml_dtypes.bfloat16):
        matrix = np.arange(48).reshape(6, 8).astype(dtype)
        for x, number in zip(views(matrix), range(100)):
            assert np.array_equal(alone.all_reduce(x), x)
            into = np.full((6, 8), 99).astype(dtype)
            wanted = into.copy()
            views(wanted)[number][...] = x
            out = views(into)[number]
            assert alone.all_reduce(x, out) is out and np.array_equal(into, wanted)
    deep = np.zeros((3, 4, 5))
    alone.all_reduce(np.ones((3, 4, 2)), deep[:, :, 1:3])
    assert deep.sum() == 24 and deep[:, :, 1:3].all()


def test_torch_tensors_with_gaps(alone):
    torch = pytest.importorskip("torch", reason="there is no torch (pip install torch)")
    for dtype in (torch.int64, torch.bfloat16, torch.complex64):
        matrix = torch.arange(48).reshape(6, 8).to(dtype)
        for x, number in zip(views(matrix), range(100)):
            assert torch.equal(alone.all_reduce(x), x)
            into = torch.full((6, 8), 99).to(dtype)
            wanted = into.clone()
            views(wanted)[number].copy_(x)
            alone.all_reduce(x, views(into)[number])
            assert torch.equal(into, wanted)


def test_columns_of_a_matrix_go_where_they_belong():
    def columns(matrix, width):
        return [matrix[:, at : at + width] for at in range(0, matrix.shape[1], width)]

    def rank(comm):
        me = comm.rank
        gathered = np.zeros((5, 8), np.int32)
        comm.gather_v(np.tile(np.int32([10 * me, 10 * me + 1]), (5, 1)), columns(gathered, 2), root=0)
        if me == 0:
            assert gathered.tolist() == [[0, 1, 10, 11, 20, 21, 30, 31]] * 5
        mine = np.tile(10 * me + np.arange(4, dtype=np.int32), (5, 1))
        column = np.zeros((5, 1), np.int32)
        comm.reduce_scatter_v(columns(mine, 1), column)
        assert column.tolist() == [[60 + 4 * me]] * 5
        exchanged = np.zeros((5, 4), np.int32)
        comm.all_to_all_v(columns(mine, 1), columns(exchanged, 1))
        assert exchanged.tolist() == [[me, 10 + me, 20 + me, 30 + me]] * 5
        comm.send_recv(mine[:, 0], (me + 1) % 4, exchanged[:, 3], (me + 3) % 4)
        assert exchanged[:, 3].tolist() == [(me + 3) % 4 * 10] * 5

    ranks(4, rank)


def test_a_buffer_of_pointers_to_rows_is_refused(alone):
    testing = pytest.importorskip("_testbuffer", reason="this Python has no _testbuffer")
    flags = testing.ND_PIL | testing.ND_WRITABLE
    x = testing.ndarray(list(range(12)), shape=[3, 4], format="b", flags=flags)
    with pytest.raises(ValueError, match="x is .*ndarray.*: expected elements in C order, in rows .*can copy"):
        alone.all_reduce(x, np.zeros(12, np.int8))


def test_counts_of_an_array_with_gaps_are_whole_rows(alone):
    matrix = np.arange(24).reshape(6, 4)
    out = np.zeros(12, np.int64)
    alone.all_gather_v(matrix[:, :2], out, counts=[12])
    assert out.tolist() == matrix[:, :2].ravel().tolist()


WRONG = [
    (None, TypeError, "x is None: expected an array"),
    (3.5, TypeError, "x is float: expected an array"),
    ("text", TypeError, "x is str: expected an array"),
    (np.zeros(3, object), TypeError, "numpy.ndarray of object.*expected elements"),
    (np.zeros(3, ">i4"), TypeError, "of >i4.*this machine's byte order"),
    (np.zeros(3, "M8[s]"), TypeError, "datetime64.*expected elements"),
    (np.zeros(3, np.longdouble), TypeError, "expected elements"),
    (np.zeros(3, "i4,f4"), TypeError, "expected elements"),
    (np.zeros(3, ml_dtypes.float8_e4m3fnuz), TypeError, "float8_e4m3fnuz.*expected elements"),
]


@pytest.mark.parametrize("x, error, text", WRONG, ids=lambda each: None)
def test_inputs_that_do_not_fit_are_named(alone, x, error, text):
    for call in (alone.all_reduce, alone.all_gather, alone.reduce, alone.gather):
        with pytest.raises(error, match=f"^{call.__name__}: x .*{text.removeprefix('x ')}"):
            call(x, out=np.zeros(3))


def test_outputs_that_do_not_fit_are_named(alone):
    x = np.zeros(3)
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="all_reduce: out is numpy.ndarray of float64.*may be written"):
        alone.all_reduce(x, read_only)
    with pytest.raises(ValueError, match="out is bytes.*may be written"):
        alone.all_reduce(b"abc", b"xyz")
    small = np.zeros(3, ml_dtypes.bfloat16)
    small.flags.writeable = False
    with pytest.raises(ValueError, match="may be written"):
        alone.all_reduce(np.zeros(3, ml_dtypes.bfloat16), small)
    for out in (np.zeros(4), np.zeros(3, np.float32)):
        with pytest.raises(ccoll.InvalidArgument, match="all_reduce") as raised:
            alone.all_reduce(x, out)
        assert raised.value.kind == "invalid_argument" and isinstance(raised.value, ValueError)
    with pytest.raises(ValueError, match=r"x has shape \(3,\): expected a first dimension of 1"):
        alone.reduce_scatter(x)
    assert alone.all_reduce(x).tolist() == [0, 0, 0]  # none of these broke anything


def test_other_arguments_that_do_not_fit_are_named(alone):
    x = np.zeros(3)
    with pytest.raises(ValueError, match="op is 'mean': expected one of sum, product"):
        alone.all_reduce(x, op="mean")
    with pytest.raises(TypeError, match="op is 3.5: expected a ReduceOp"):
        alone.all_reduce(x, op=3.5)
    with pytest.raises(ValueError, match="bit_and"):
        alone.all_reduce(x, op="bit_and")
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout is .*: expected more than 0"):
            alone.all_reduce(x, timeout=timeout)
    with pytest.raises(ValueError, match="root"):
        alone.broadcast(x, 5)
    with pytest.raises(ValueError, match="nonsense"):
        alone.all_reduce(x, algorithm="nonsense")
    with pytest.raises(ValueError, match="counts of one array"):
        alone.all_gather_v(x, x)
    with pytest.raises(TypeError):
        alone.all_reduce(x, tiemout=3)
    with pytest.raises(ValueError, match="type is 'float': expected one of int8"):
        alone.explain("all_reduce", 3, "float")


def test_options_that_do_not_fit_are_named():
    with pytest.raises(TypeError, match="'tiemout' is not an option: expected one of algorithm"):
        ccoll.create(tiemout=3)
    with pytest.raises(TypeError, match="option checksum is 'x': expected bool"):
        ccoll.create(checksum="x")
    with pytest.raises(ValueError, match="timeout is -3.0* s: expected more than 0"):
        ccoll.create(timeout=-3)
    with pytest.raises(ValueError, match="pigeon"):
        ccoll.create(transport="pigeon")
    with pytest.raises(TypeError, match="rank given without an id or a store|rank and size given"):
        ccoll.create(rank=0, size=2)
    with pytest.raises(ValueError, match="3 bytes are given: expected 128"):
        ccoll.create(b"abc", rank=0, size=1)
    with pytest.raises(TypeError, match="expected one of them"):
        ccoll.create(b"abc", store=ccoll.inproc_store(), rank=0, size=1)


@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "c8", "<f4"])
def test_an_array_of_a_known_type_is_looked_at_as_closely(alone, dtype):
    """From the second array of a type on, numpy is not asked for a buffer."""
    for _ in range(2):
        x = np.ones((2, 3), dtype)
        assert alone.all_reduce(x, np.zeros((2, 3), dtype)).tolist() == x.tolist()
        assert alone.all_gather(x).shape == (1, 2, 3)
        assert alone.all_reduce(x[:0]).shape == (0, 3)
        for view in (x.T, x[:, ::2]):
            assert alone.all_reduce(view).tolist() == view.tolist()
        if x.dtype.itemsize > 1:
            with pytest.raises(TypeError, match="byte order"):
                alone.all_reduce(x.astype(x.dtype.newbyteorder(">"))[:1])
        x.flags.writeable = False
        assert alone.all_reduce(x, np.zeros((2, 3), dtype)).tolist() == x.tolist()
        for call in (lambda: alone.all_reduce(x, x), lambda: alone.all_reduce(np.ones((2, 3), dtype), x)):
            with pytest.raises(ValueError, match="read-only"):
                call()
