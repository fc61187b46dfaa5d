# SPDX-License-Identifier: Apache-2.0
"""Reductions by name or by ReduceOp, and what is left to do when a call is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._library import has_torch, library, tell_if_forgotten
from ._values import Tensor, copy_into, divide, is_real, is_sparse

_NAMES = ("sum", "mean", "product", "min", "max", "band", "bor", "bxor")


class Reduction:
    """A reduction that a caller named. Raises ValueError for one that there is not."""

    def __init__(self, op: Any, *, is_divided: bool = False) -> None:
        """is_divided: an average by the library itself."""
        if isinstance(op, str):
            self.name = op.lower()
            if self.name not in _NAMES:
                raise ValueError(f"op is {op!r}: expected one of {', '.join(_NAMES)}, or a ReduceOp")
        elif type(op).__name__ not in ("ReduceOp", "RedOpType"):
            raise ValueError(f"op is {op!r}: expected one of {', '.join(_NAMES)}, or a ReduceOp")
        else:
            # A sum that is then divided works with every backend and type.
            self.name = "mean" if op == getattr(type(op), "AVG", None) and not is_divided else ""
        self._given = op

    @property
    def is_mean(self) -> bool:
        return self.name == "mean"

    def by(self, backend: str | None, x: Tensor) -> Reduction:
        """The same as a backend makes it of x. ccoll has a mean of its own, and tells it from a sum elsewhere."""
        if not self.is_mean or backend != "ccoll" or not is_real(x) or is_sparse(x):
            return self
        return Reduction(library().ReduceOp.AVG, is_divided=True)

    def __str__(self) -> str:
        return self.name or str(self._given)

    def of_library(self) -> Any:
        """The library's ReduceOp, which for a mean is the sum."""
        if not self.name:
            return self._given
        return getattr(library().ReduceOp, "SUM" if self.is_mean else self.name.upper())


class Later:
    """A call that goes on: its result is in place when wait() has returned."""

    def __init__(self, work: Any = None, finish: Callable[[], None] | None = None) -> None:
        self._work, self._finish = work, finish

    def wait(self, *arguments: Any) -> bool:
        """Waits; raises what went wrong. arguments: a time limit, a timedelta as torch has it."""
        if self._work is not None:
            self._work.wait(*(each if has_torch() else each.total_seconds() for each in arguments))
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        """Whether the call is over; then the result is in place, too."""
        if self._work is not None:
            is_over = getattr(self._work, "is_completed", None) or self._work.done
            if not is_over():
                return False
        if self._finish is not None:
            self.wait()
        return True


def over(work: Any, async_op: bool, finish: Callable[[], None] | None = None) -> Any:
    """The result of a call: a Work if it goes on, else None after `finish`."""
    if work is None:
        tell_if_forgotten()
    if async_op:
        return work if finish is None and hasattr(work, "is_completed") else Later(work, finish)
    if finish is not None:
        finish()
    return None


def copy_back(outputs: Sequence[Tensor], travelled: Sequence[Tensor]) -> Callable[[], None] | None:
    """A function that brings results home; None where they are there."""
    pairs = [(out, on) for out, on in zip(outputs, travelled) if on is not out and not _share(out, on)]
    if not pairs:
        return None

    def finish() -> None:
        for out, on in pairs:
            copy_into(out, on)

    return finish


def _share(one: Tensor, other: Tensor) -> bool:
    """Whether they are one tensor, but for autograd."""
    return hasattr(one, "data_ptr") and not is_sparse(one) and one.data_ptr() == other.data_ptr() != 0


def finished(reduction: Reduction, x: Tensor, on: Tensor, size: int) -> Callable[[], None] | None:
    """A function that ends a reduction of `on` and brings the result to x; None if nothing is left to do."""
    back = copy_back([x], [on])
    if not reduction.is_mean:
        return back

    def finish() -> None:
        divide(on, size)
        if back is not None:
            back()

    return finish
