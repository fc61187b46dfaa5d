// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Docstrings of a communicator, and of what makes and ends one.

namespace ccoll::python::docs {

inline constexpr const char* kCommunicator =
    "A group of ranks and the operations that they run together; ccoll.create() makes one.\n\n"
    "Every rank calls the same collectives in the same order. Arrays are those of numpy and torch, "
    "and anything\n"
    "with DLPack or the buffer protocol, of any strides. Those in C order, or in rows that are "
    "equally\n"
    "far apart (columns of a matrix), are used where they lie; the call packs others.\n"
    "Time limits are in seconds: None is the communicator's own, math.inf is none.\n"
    "A failure breaks the communicator on every rank: further calls raise its first cause, and "
    "shrink() makes a\n"
    "new one. Any thread may make asynchronous calls; ranks must begin collectives in the same "
    "order.\n"
    "Ctrl-C ends a wait; the operation goes on and keeps its arrays.\n"
    "As a context manager it is closed at the end, and left without a goodbye where an exception "
    "passes.";
inline constexpr const char* kDuplicate =
    "A new communicator of the same ranks. Collective.\n\n"
    "name: what its errors begin with. timeout: of its calls, in seconds; None: as here.";
inline constexpr const char* kSplit =
    "A new communicator of the ranks that give the same color (0 or more), ordered by key, then "
    "rank.\n\n"
    "color None: this rank is in none, and gets None. Collective over all ranks.";
inline constexpr const char* kSubgroup =
    "A new communicator of `ranks`, in that order. Collective over those ranks only; others must "
    "not call.\n\n"
    "Raises Mismatch where two ranks wait for each other with different lists.";
inline constexpr const char* kShrink =
    "A new communicator of the ranks that are left, also of one that is broken. All of them must "
    "call it.\n\n"
    "excluded: ranks that are left out, whether they are there or not. Raises TimeoutError, which "
    "names ranks that\n"
    "did not come: it may be called again. Raises PeerLost on a rank that the others count as "
    "lost.";
inline constexpr const char* kClose =
    "Ends it; what is under way ends with Aborted. Raises what no call could report any more. "
    "Again: does nothing.";
inline constexpr const char* kLeave =
    "Goes without disturbing the others; a call that needs this rank ends there.";
inline constexpr const char* kAbort =
    "Ends what is under way on every rank with Aborted, which names this rank and `reason`. From "
    "any thread.";

}  // namespace ccoll::python::docs
