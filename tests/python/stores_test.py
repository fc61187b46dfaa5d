# SPDX-License-Identifier: Apache-2.0
"""Stores: every method of the library's own, and a store written in Python."""

import threading
import time

import numpy as np
import pytest
from support import in_threads

import ccoll


def test_every_method_of_a_store():
    store = ccoll.prefix_store(ccoll.inproc_store(), "job/")
    store.set("a", b"1")
    assert store.get("a") == b"1" and store.check(["a"]) and not store.check(["a", "b"])
    assert store.compare_set("b", None, b"x") and not store.compare_set("b", None, b"y")
    assert store.compare_set("b", b"x", b"y") and store.get("b") == b"y"
    assert store.append("b", b"z") == 2
    store.multi_set({"c": b"3", "d": b"\x00"})
    assert store.multi_get(["d", "c"]) == [b"\x00", b"3"]
    assert store.list("") == ["a", "b", "c", "d"] and store.list("c") == ["c"]
    store.wait(["a", "d"])
    assert store.add("n", 5) == 5 and store.add("n", -7) == -2
    assert store.remove("a") and not store.remove("a")
    with pytest.raises(ccoll.TimeoutError):
        store.wait(["a"], timeout=0.05)
    store.barrier("all", 1)
    with pytest.raises(ccoll.TimeoutError):
        store.barrier("all", 2, timeout=0.05)


class Own:
    """The methods that a custom store needs."""

    def __init__(self):
        self.values = {}
        self.changed = threading.Condition()

    def set(self, key, value, timeout):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def get(self, key, timeout):
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, timeout):
                raise TimeoutError(f"no {key}")
            return self.values[key]

    def compare_set(self, key, expected, desired, timeout):
        with self.changed:
            if self.values.get(key) != expected:
                return False
            self.values[key] = desired
            self.changed.notify_all()
            return True

    def list(self, prefix, timeout):
        with self.changed:
            return [key for key in self.values if key.startswith(prefix)]


def meet(store, size=3, **settings):
    def rank(number):
        with ccoll.create(store=store, rank=number, size=size, **settings) as comm:
            return float(comm.all_reduce(np.ones(1))[0])

    return in_threads(size, rank, join=30, what="rank")


def test_ranks_meet_in_a_store_written_in_python():
    own = Own()
    results, errors = meet(own)
    assert errors == [None] * 3 and results == [3.0] * 3
    assert own.values


def test_what_such_a_store_raises_ends_the_start():
    class Broken(Own):
        def set(self, key, value, timeout):
            raise KeyError("no quorum")

        def compare_set(self, key, expected, desired, timeout):
            raise KeyError("no quorum")

    _, errors = meet(Broken(), size=2, start_timeout=2)
    assert all(isinstance(each, ccoll.Error) for each in errors), errors
    assert any("KeyError: 'no quorum'" in str(each) for each in errors), errors


def test_a_rank_that_is_missing_there_is_named():
    began = time.monotonic()
    with pytest.raises(ccoll.TimeoutError, match="rank 1") as raised:
        ccoll.create(store=Own(), rank=0, size=2, start_timeout=0.5)
    assert raised.value.culprit == 1 and time.monotonic() - began < 20


def test_an_object_that_is_no_store_is_refused_by_name():
    with pytest.raises(TypeError, match="no method set"):
        ccoll.create(store=object(), rank=0, size=1)
