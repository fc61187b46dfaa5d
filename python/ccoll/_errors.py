# SPDX-License-Identifier: Apache-2.0
"""The exceptions of ccoll, each of which is also the built-in one that fits."""

from __future__ import annotations

import builtins


class Error(RuntimeError):
    """Any failure of the library.

    kind: "timed_out", "peer_lost", …: by what the caller can do about it.
    culprit: the rank at fault where the text names one, else None.
    """

    kind = "internal"

    @property
    def culprit(self) -> int | None:
        if self.kind in ("invalid_argument", "unsupported", "internal"):
            return None
        import re  # costs every import some milliseconds, and is seldom needed

        for pattern in _AT_FAULT:
            match = re.search(pattern, str(self))
            if match:
                return int(match.group(1))
        return None


# How the library's texts name the rank at fault, the surest first.
_AT_FAULT = (
    r"\brank (\d+)(?: \([^)]*\))?,?(?: which| that)? "
    r"(?:ha[sd] not come|was lost|has left|has closed|did not come|aborted)",
    r"\bwait(?:s|ing) (?:in [^,;]* )?for ranks? (\d+)",
    r"\branks? (\d+)",
)


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


def make(kind: str, text: str) -> Error:
    """The exception for a failure of the library."""
    return _BY_KIND.get(kind, Internal)(text)
