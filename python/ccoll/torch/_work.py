# SPDX-License-Identifier: Apache-2.0
"""Operations under way, as torch.distributed sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from ccoll import Error, InvalidArgument, Received, TimeoutError

# DistBackendError is what torch's programs catch.
_Failed: type[RuntimeError] = getattr(torch.distributed, "DistBackendError", RuntimeError)


def as_torchs(error: BaseException) -> BaseException:
    """The error as torch's programs expect it: a ValueError for a wrong argument, else a DistBackendError."""
    if not isinstance(error, Error) or isinstance(error, (InvalidArgument, NotImplementedError)):
        return error
    # Programs look for these words.
    hint = " (timed out: the timeout has passed)" if isinstance(error, TimeoutError) else ""
    made = _Failed(f"ccoll: {error.kind}{hint}: {error}")
    made.__cause__ = error
    return made


class Work(c10d.Work):
    """One or several operations of ccoll that torch takes for one.

    tensors: the outputs.
    """

    def __init__(
        self,
        natives: list[Any],
        tensors: list[torch.Tensor],
        sequence: int = 0,
        begun: float | None = None,
    ) -> None:
        super().__init__()
        self._natives = natives
        self._tensors = tensors
        self._sequence = sequence
        self._begun = begun
        self._duration: float | None = None
        self._future: torch.futures.Future[Any] | None = None
        self._error: BaseException | None = None
        self._received: list[Received] = []
        self._over = False
        if begun is not None:
            self._when_over(self._note_duration)

    @staticmethod
    def of_all(works: list[Work]) -> Work:
        """One for all of them."""
        return Work(
            [native for each in works for native in each._natives],
            [tensor for each in works for tensor in each._tensors],
            works[-1]._sequence if works else 0,
        )

    # torch calls these.

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        if not self._over:
            seconds = timeout.total_seconds()
            deadline = time.monotonic() + seconds if seconds > 0 else None
            error: BaseException | None = None
            # All of it, though a part failed: until then the tensors are in use.
            for native in self._natives:
                left = max(deadline - time.monotonic(), 0) if deadline is not None else None
                try:
                    self._note(native.wait(left))
                except Error as failed:
                    if isinstance(failed, TimeoutError) and not native.done():
                        raise as_torchs(failed) from None  # the operation goes on
                    error = error or as_torchs(failed)
            self._error = self._error or error
            self._over = True
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._over:
            return True
        for native in self._natives:
            if not native.done():
                return False
        for native in self._natives:
            error = native.exception()
            if error is not None:
                self._error = self._error or as_torchs(error)
            else:
                self._note(native.wait(0))
        self._over = True
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._tensors

    def source_rank(self) -> int:
        self.wait()
        if not self._received:
            raise RuntimeError("ccoll: source_rank: the operation is not a receive")
        return self._received[-1].source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        if self._future is None:
            future: torch.futures.Future[Any] = torch.futures.Future()
            self._future = future

            def tell() -> None:
                if self._error is not None:
                    future.set_exception(self._error)
                else:
                    future.set_result(self._tensors)

            self._when_over(tell)
        return self._future

    def get_future_result(self) -> torch.futures.Future[int]:
        """A future of 0 (success), 1 (timeout) or 2 (another failure)."""
        future: torch.futures.Future[int] = torch.futures.Future()

        def tell() -> None:
            late = self._error is not None and isinstance(self._error.__cause__, TimeoutError)
            future.set_result(0 if self._error is None else 1 if late else 2)

        self._when_over(tell)
        return future

    def _get_sequence_number(self) -> int:
        return self._sequence

    def _get_duration(self) -> float:
        """In milliseconds."""
        if self._begun is None:
            raise RuntimeError("ccoll: _get_duration: timing was not enabled before the call")
        self.wait()
        # The library's thread may come a moment after this one.
        for _ in range(1000):
            if self._duration is not None:
                return self._duration
            time.sleep(0.001)
        raise RuntimeError("ccoll: _get_duration: the end of the operation was not recorded")

    # How it ends.

    def _note(self, result: Any) -> None:
        if isinstance(result, Received):
            self._received.append(result)
        elif isinstance(result, list):
            self._received += [each for each in result if isinstance(each, Received)]

    def _note_duration(self) -> None:
        assert self._begun is not None
        self._duration = 1000 * (time.perf_counter() - self._begun)

    def _when_over(self, tell: Callable[[], None]) -> None:
        """Calls tell() once all of it is over, in a thread of the library that may wait."""
        left = len(self._natives)
        lock = threading.Lock()

        def one_is_over(_: Error | None) -> None:
            nonlocal left
            with lock:
                left -= 1
                if left > 0:
                    return
            self.is_completed()
            tell()

        if not self._natives:
            self.is_completed()
            tell()
        for native in self._natives:
            native.on_done(one_is_over)


class Batched(Work):
    """A message that is in a batch: over when the batch is, and begun by its end only."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__([], [tensor])
        self._batch: Work | None = None

    def becomes(self, batch: Work) -> None:
        self._batch = batch

    def _real(self) -> Work:
        if self._batch is None:
            raise RuntimeError("ccoll: the batch of the message was not ended, so the message was not sent")
        return self._batch

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return self._real().wait(timeout)

    def is_completed(self) -> bool:
        return self._batch is not None and self._batch.is_completed()

    def is_success(self) -> bool:
        return self._batch is not None and self._batch.is_success()

    def exception(self) -> BaseException | None:
        return self._batch.exception() if self._batch is not None else None

    def source_rank(self) -> int:
        return self._real().source_rank()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        return self._real().get_future()

    def get_future_result(self) -> torch.futures.Future[int]:
        return self._real().get_future_result()
