# SPDX-License-Identifier: Apache-2.0
"""The exceptions of ccoll, each of which is also the built-in one that fits."""

from __future__ import annotations

import builtins


class Error(RuntimeError):
    """Any failure of the library.

    kind: "timed_out", "peer_lost", …: by what the caller can do about it.
    culprit: the rank to look at, in the communicator of the call that failed; None where none is known. It was
        lost, left, aborted or failed. A call that timed out waited for it. In a mismatch it is one of the two
        ranks that the text names.
    """

    kind = "internal"
    culprit: int | None = None


class InvalidArgument(Error, ValueError):
    """The call cannot be right. Nothing was sent, and nothing is broken."""

    kind = "invalid_argument"


class Unsupported(Error, NotImplementedError):
    """This build, machine or algorithm cannot do it."""

    kind = "unsupported"


class TimeoutError(Error, builtins.TimeoutError):
    """A time limit passed; the text names the ranks that the call waited for."""

    kind = "timed_out"


class PeerLost(Error, ConnectionError):
    """A rank died or left."""

    kind = "peer_lost"


class Mismatch(Error):
    """Ranks made different calls, or a message does not fit its receive; the text names both sides."""

    kind = "mismatch"


class Aborted(Error):
    """Ended on request: by close() or abort(), or by a reduction's function that raised."""

    kind = "aborted"


class Exhausted(Error, MemoryError):
    """Memory, descriptors or another resource ran out."""

    kind = "exhausted"


class Corrupt(Error):
    """Bytes arrived that cannot be right."""

    kind = "corrupt"


class Internal(Error):
    """A defect of ccoll: please report it."""


_BY_KIND = {
    each.kind: each
    for each in (InvalidArgument, Unsupported, TimeoutError, PeerLost, Mismatch, Aborted, Exhausted, Corrupt, Internal)
}


def make(kind: str, text: str, culprit: int | None = None) -> Error:
    """The exception for a failure of the library."""
    error = _BY_KIND.get(kind, Internal)(text)
    error.culprit = culprit
    return error
