# SPDX-License-Identifier: Apache-2.0
"""Arrays of whatever library the caller uses. Neither numpy nor torch is imported unless the caller has done so."""

from __future__ import annotations

import sys
from _thread import RLock

TYPE_CHECKING = False  # as mypy takes it; `typing` costs every import some milliseconds
if TYPE_CHECKING:
    from typing import Any

LIKE, STACKED, PART, FLAT = range(4)


def describe(x: Any) -> str:
    """Describes an argument, for errors."""
    kind = type(x)
    said = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if x is None:
        return "None"
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        said += f" of {dtype}"
    if getattr(x, "shape", None) is not None:
        said += f" with shape {tuple(x.shape)}"
    strides = getattr(x, "strides", None)
    if strides is None and callable(getattr(x, "stride", None)):
        strides = x.stride()
    if strides:
        said += f" and strides {tuple(strides)}"
    return said


def _shape(shape: tuple[int, ...], form: int, size: int, count: int) -> tuple[int, ...]:
    if form == LIKE:
        return shape
    if form == STACKED:
        return (size, *shape)
    if form == FLAT:
        return (count,)
    if not shape or shape[0] != size:
        raise ValueError(
            f"x has shape {shape}: expected a first dimension of {size}, one part for each rank, or an array as out"
        )
    return shape[1:]


def empty(x: Any, form: int, size: int, count: int) -> Any:
    """A new array of x's kind and type: itself, or (array, what makes the result of it)."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
        return numpy.empty(_shape(x.shape, form, size, count), x.dtype)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.empty(_shape(tuple(x.shape), form, size, count), dtype=x.dtype, device=x.device)
    if hasattr(x, "__cuda_array_interface__"):
        cupy = sys.modules.get("cupy")
        if cupy is None or not isinstance(x, cupy.ndarray):
            raise TypeError(f"x is {describe(x)}, memory of a GPU, and no new one is made: expected an array as out")
        return cupy.empty(_shape(x.shape, form, size, count), x.dtype)
    if hasattr(x, "__array_namespace__"):
        return _by_namespace(x, form, size, count)
    try:
        view = memoryview(x)
    except TypeError:
        raise TypeError(f"x is {describe(x)}, of which no new array can be made: expected an array as out") from None
    return _by_buffer(x, view, form, size, count)


def _by_namespace(x: Any, form: int, size: int, count: int) -> Any:
    """Arrays of the array API may be immutable, so a numpy array takes the result."""
    import numpy

    namespace = x.__array_namespace__()
    like = numpy.asarray(numpy.from_dlpack(x))
    return numpy.empty(_shape(tuple(x.shape), form, size, count), like.dtype), namespace.from_dlpack


def _by_buffer(x: Any, view: memoryview, form: int, size: int, count: int) -> Any:
    shape = _shape(view.shape or (), form, size, count)
    elements = 1
    for extent in shape:
        elements *= extent
    room = bytearray(elements * view.itemsize)
    if isinstance(x, (bytes, bytearray)):
        return room
    array = sys.modules.get("array")
    if array is not None and isinstance(x, array.array):
        return array.array(x.typecode, room)
    plain = memoryview(room)
    if view.format == "B" and len(shape) == 1 or 0 in shape or view.format is None:
        return plain
    return plain.cast(view.format, shape)  # type: ignore[call-overload, unused-ignore]


def pack(x: Any, is_written: bool) -> tuple[Any, Any] | None:
    """A copy of an array whose elements lie one after another, and the array as what may be written; None if no
    library at hand makes one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return x.detach().resolve_conj().resolve_neg().contiguous(), x
    if hasattr(x, "__cuda_array_interface__"):
        cupy = sys.modules.get("cupy")
        return None if cupy is None else (cupy.array(x, order="C"), cupy.asarray(x))
    try:
        import numpy

        shown = x if hasattr(x, "__array_interface__") or not hasattr(x, "__dlpack__") else numpy.from_dlpack(x)
        target = numpy.asarray(shown)
    except (ImportError, AttributeError, TypeError, ValueError, BufferError, RuntimeError):
        return None
    if is_written and not target.flags.writeable:
        return None
    return numpy.array(target, order="C"), target


class Copies:
    """Copies of arrays on which a call works. Called when the call is over, it brings them to their arrays, once."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Any, Any]] = []
        self._lock = RLock()  # a signal's handler may ask for the result, too

    def add(self, pair: tuple[Any, Any]) -> None:
        self._pairs.append(pair)

    def __call__(self) -> None:
        with self._lock:
            while self._pairs:
                pair = self._pairs[-1]
                _assign(*pair)
                # Only then: an exception, such as Ctrl-C's, leaves the rest to the next call.
                if self._pairs and self._pairs[-1] is pair:
                    self._pairs.pop()


def _assign(copy: Any, target: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(target, torch.Tensor):
        target[...] = copy
        return
    # A tensor of inference mode is written in that mode alone, which a thread of the library is not in.
    with torch.inference_mode() if target.is_inference() else torch.no_grad():
        target.copy_(copy)


def finish_all(pair: tuple[list[Any], list[Any]]) -> list[Any]:
    """The results of a call on a list of arrays."""
    return [array if finish is None else finish(array) for array, finish in zip(*pair)]


def torch_map() -> tuple[Any, dict[Any, int]] | None:
    """torch.Tensor, and the number of the DataType of each dtype; complex ones are 100 more than their parts."""
    torch = sys.modules["torch"]
    if not hasattr(torch, "Tensor") or not hasattr(torch, "complex128"):
        return None
    names = (
        "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 "
        "float8_e4m3fn float8_e5m2 bool"
    ).split()
    types = {getattr(torch, name): number for number, name in enumerate(names) if hasattr(torch, name)}
    types[torch.complex64] = 100 + names.index("float32")
    types[torch.complex128] = 100 + names.index("float64")
    return torch.Tensor, types


_FORMATS = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d", "bool": "?",
}  # fmt: skip
_SMALL = {"bfloat16": "bfloat16", "float8_e4m3": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}


def _typed(view: memoryview, kind: str) -> Any:
    try:
        import numpy
    except ImportError:
        return view.cast(_FORMATS[kind]) if kind in _FORMATS else view  # type: ignore[call-overload]
    if kind in _FORMATS:
        return numpy.frombuffer(view, _FORMATS[kind])
    import ml_dtypes  # type: ignore[import-not-found, unused-ignore]

    return numpy.frombuffer(view, getattr(ml_dtypes, _SMALL[kind]))


def combine(function: Any, left: memoryview, inout: memoryview, kind: str) -> None:
    """Calls the function of a reduction on two pieces of memory."""
    right = _typed(inout, kind)
    made = function(_typed(left, kind), right)
    if made is not None and made is not right:
        right[:] = made
