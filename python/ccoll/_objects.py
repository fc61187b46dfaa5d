# SPDX-License-Identifier: Apache-2.0
"""Collectives and messages of Python objects. Large buffers within them travel as they lie, without being pickled.

Unpickling runs what the sender says: only talk to ranks that you trust, or give a `codec`.
"""

from __future__ import annotations

from ccoll import _native  # type: ignore[attr-defined]

TYPE_CHECKING = False  # as in _arrays
if TYPE_CHECKING:
    import pickle
    from array import array
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from ccoll import Communicator

    class Codec(Protocol):
        """As json: `dumps` to text or bytes, and `loads`."""

        dumps: Callable[[Any], str | bytes]
        loads: Callable[[Any], Any]


# Buffers from this size on are sent apart from the pickle.
_APART = 64 << 10


def _packed(value: Any, codec: Codec | None) -> list[Any]:
    """The pieces that stand for a value: the pickle first, then the buffers."""
    if codec is not None:
        text = codec.dumps(value)
        return [text.encode() if isinstance(text, str) else text]
    import pickle

    apart: list[memoryview] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if raw.nbytes < _APART:
            return True
        apart.append(raw)
        return False

    return [pickle.dumps(value, protocol=5, buffer_callback=keep), *apart]


def _unpacked(pieces: Sequence[Any], codec: Codec | None) -> Any:
    if codec is not None:
        return codec.loads(bytes(pieces[0]))
    import pickle

    return pickle.loads(pieces[0], buffers=pieces[1:])


def _longs(numbers: Sequence[int]) -> array[int]:
    from array import array

    return array("q", numbers)


def _sizes(pieces: Sequence[Any]) -> array[int]:
    return _longs([len(piece) for piece in pieces])


def _room(sizes: Sequence[int]) -> list[bytearray]:
    """Memory for pieces; each its own, so that an array that lies there may outlive the others."""
    return [bytearray(size) for size in sizes]


def broadcast_object(
    self: Communicator, value: Any = None, root: int = 0, *, codec: Codec | None = None, timeout: float | None = None
) -> Any:
    """The root's object, on every rank; the root's own is returned there as it is.

    Numpy arrays and other objects with buffers of 64 KiB and more travel without a copy (pickle protocol 5).
    codec: `json`, or what else has dumps and loads, in place of pickle.
    """
    _native._refuse_in_group("broadcast_object")
    is_root = self.rank == root
    pieces = _packed(value, codec) if is_root else []
    head = _longs([len(pieces)])
    self.broadcast(head, root, timeout=timeout)
    sizes = _sizes(pieces) if is_root else _longs([0] * head[0])
    self.broadcast(sizes, root, timeout=timeout)
    if not is_root:
        pieces = _room(sizes)
    for piece in pieces:
        if len(piece) > 0:
            self.broadcast(piece, root, timeout=timeout)
    return value if is_root else _unpacked(pieces, codec)


def _all_sizes(self: Communicator, pieces: Sequence[Any], timeout: float | None) -> list[list[int]]:
    """The sizes of every rank's pieces, on every rank."""
    counts = _longs([0] * self.size)
    self.all_gather(_longs([len(pieces)]), counts, timeout=timeout)
    flat = _longs([0] * sum(counts))
    self.all_gather_v(_sizes(pieces), flat, counts=list(counts), timeout=timeout)
    sizes = list(flat)
    by_rank = []
    for count in counts:
        by_rank.append(sizes[:count])
        del sizes[:count]
    return by_rank


def all_gather_object(
    self: Communicator, value: Any, *, codec: Codec | None = None, timeout: float | None = None
) -> list[Any]:
    """Every rank's object by rank, on every rank; this rank's own as it is. codec: as for broadcast_object."""
    _native._refuse_in_group("all_gather_object")
    pieces = _packed(value, codec)
    sizes = _all_sizes(self, pieces, timeout)
    room = [pieces if rank == self.rank else _room(each) for rank, each in enumerate(sizes)]
    for turn in range(max(map(len, sizes))):
        blocks = [each[turn] if turn < len(each) else b"" for each in room]
        own = pieces[turn] if turn < len(pieces) else b""
        outputs = [bytearray() if len(block) == 0 else block for block in blocks]
        if isinstance(own, bytes) or memoryview(own).readonly:
            outputs[self.rank] = bytearray(len(own))  # this rank's own part is written, too
        self.all_gather_v(own, outputs, timeout=timeout)
    return [value if rank == self.rank else _unpacked(each, codec) for rank, each in enumerate(room)]


def gather_object(
    self: Communicator, value: Any, root: int = 0, *, codec: Codec | None = None, timeout: float | None = None
) -> list[Any] | None:
    """Every rank's object by rank at the root; None elsewhere. codec: as for broadcast_object."""
    _native._refuse_in_group("gather_object")
    is_root = self.rank == root
    pieces = [] if is_root else _packed(value, codec)
    sizes = _all_sizes(self, pieces, timeout)
    room = [_room(each) for each in sizes] if is_root else []
    for turn in range(max(map(len, sizes))):
        outputs = [each[turn] if turn < len(each) else bytearray() for each in room]
        own = pieces[turn] if turn < len(pieces) else b""
        self.gather_v(own, outputs if is_root else None, root, timeout=timeout)
    if not is_root:
        return None
    return [value if rank == root else _unpacked(each, codec) for rank, each in enumerate(room)]


def scatter_object(
    self: Communicator,
    values: Sequence[Any] | None = None,
    root: int = 0,
    *,
    codec: Codec | None = None,
    timeout: float | None = None,
) -> Any:
    """values[r] of the root, on rank r; others give None. codec: as for broadcast_object."""
    _native._refuse_in_group("scatter_object")
    is_root = self.rank == root
    packed: list[list[Any]] = []
    if is_root:
        if values is None or len(values) != self.size:
            given = "None" if values is None else f"{len(values)} objects"
            raise ValueError(f"scatter_object: values is {given}: expected {self.size}, one for each rank")
        packed = [[] if rank == root else _packed(value, codec) for rank, value in enumerate(values)]
    most = max(map(len, packed), default=0)
    heads = _longs([number for pieces in packed for number in (len(pieces), most)])
    head = _longs([0, 0])
    self.scatter(heads if is_root else None, head, root, timeout=timeout)
    sizes = _longs([0] * head[0])
    self.scatter_v([_sizes(each) for each in packed] if is_root else None, sizes, root, timeout=timeout)
    room = _room(sizes)
    for turn in range(head[1]):
        inputs = [each[turn] if turn < len(each) else b"" for each in packed]
        own = room[turn] if turn < len(room) else bytearray()
        self.scatter_v(inputs if is_root else None, own, root, timeout=timeout)
    return values[root] if is_root and values is not None else _unpacked(room, codec)


def send_object(
    self: Communicator, value: Any, to: int, tag: int = 0, *, codec: Codec | None = None, timeout: float | None = None
) -> None:
    """Sends an object to rank `to`. codec: as for broadcast_object."""
    _native._refuse_in_group("send_object")
    pieces = _packed(value, codec)
    sizes = _sizes(pieces)
    self.send(sizes, to, tag, timeout=timeout)
    for piece in pieces:
        self.send(piece, to, tag, timeout=timeout)


def recv_object(
    self: Communicator,
    source: int = -1,
    tag: int = -1,
    *,
    codec: Codec | None = None,
    timeout: float | None = None,
) -> Any:
    """An object that send_object sent; source and tag may be ANY_RANK and ANY_TAG."""
    _native._refuse_in_group("recv_object")
    found = self.probe(source, tag, timeout=timeout)
    sizes = _longs([0] * (found.bytes // 8))
    self.recv(sizes, found.source, found.tag, timeout=timeout)
    pieces = _room(sizes)
    for piece in pieces:
        self.recv(piece, found.source, found.tag, timeout=timeout)
    return _unpacked(pieces, codec)


METHODS = (broadcast_object, all_gather_object, gather_object, scatter_object, send_object, recv_object)
