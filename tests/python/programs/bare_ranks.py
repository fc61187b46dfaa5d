# SPDX-License-Identifier: Apache-2.0
"""A rank that uses only the standard library."""

import array

import ccoll

with ccoll.create(timeout=30) as comm:
    total = comm.all_reduce(array.array("q", [comm.rank, 1]))
    assert total.tolist() == [sum(range(comm.size)), comm.size], total
    assert comm.all_gather_object(comm.rank) == list(range(comm.size))
