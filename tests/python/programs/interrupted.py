# SPDX-License-Identifier: Apache-2.0
"""Waits in the given way for something that never comes, and prints how the wait ended."""

import signal
import sys
import time

import numpy as np

import ccoll


def wait_in(kind, comm):
    x = np.ones(4)
    if kind == "call":
        comm.recv(x, 1 - comm.rank)
    elif kind == "work":
        comm.recv_async(x, 1 - comm.rank).wait()
    elif kind == "probe":
        comm.probe()
    elif kind == "group":
        comm.split(0)
    elif kind == "object":
        comm.recv_object()


def main():
    kind = sys.argv[1]
    # A program that was started in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("waiting", flush=True)
    began = time.monotonic()
    try:
        if kind == "start":
            ccoll.create(store=ccoll.inproc_store(), rank=0, size=2)
        else:
            comms = ccoll.create_all(2)
            wait_in(kind, comms[0])
    except KeyboardInterrupt:
        print(f"interrupted after {time.monotonic() - began:.1f} s", flush=True)


main()
