# SPDX-License-Identifier: Apache-2.0
"""Ranks for tests: threads of this process, or processes that cc-run starts."""

import os
import re
import subprocess
import sys
import threading

import ccoll

HERE = os.path.dirname(os.path.abspath(__file__))


def page(name):
    """The path of a page of docs/: tools/wheel puts it beside the tests."""
    places = (os.path.join(HERE, name), os.path.join(HERE, "..", "..", "docs", name))
    return next(path for path in places if os.path.exists(path))


def blocks(path, language):
    """The page's code in that language."""
    with open(path, encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)


def in_threads(count, function, *, join=60, what="thread"):
    """Runs function(number) in so many threads at the same moment; returns the results and the errors, by number."""
    gate = threading.Barrier(count)
    results, errors = [None] * count, [None] * count

    def call(number):
        try:
            gate.wait(20)
            results[number] = function(number)
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(join)
        assert not each.is_alive(), f"a {what} hangs"
    return results, errors


def ranks(size, function, *, close=True, join=60, **settings):
    """Runs function(comm) in a thread per rank; returns the results by rank, or raises the first error."""
    settings = {"timeout": 20, "start_timeout": 20} | settings
    comms = ccoll.create_all(size, **settings)

    def rank(number):
        try:
            return function(comms[number])
        except BaseException as error:
            # The others must not wait for it until their time limit.
            try:
                comms[number].abort(f"{type(error).__name__} in a test")
            except ccoll.Error:
                pass
            raise

    results, errors = in_threads(size, rank, join=join, what="rank")
    failed = [each for each in errors if each is not None]
    if failed:
        raise next((each for each in failed if not isinstance(each, ccoll.Aborted)), failed[0])
    if close:
        for each in comms:
            each.close()
    return results


def start(program, size, *arguments, **options):
    """cc-run with `size` ranks of programs/PROGRAM, as a subprocess.Popen."""
    command = [sys.executable, "-m", "ccoll.run", "-n", str(size), os.path.join(HERE, "programs", program)]
    return subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def run(program, size, *arguments, timeout=60):
    """The exit status of such a run, and its output."""
    with start(program, size, *arguments) as process:
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()
            said, _ = process.communicate()
            raise AssertionError(f"{program} hangs; it said: {said}") from None
    return process.returncode, said
