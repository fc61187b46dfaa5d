// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Docstrings of collectives.

namespace ccoll::python::docs {

inline constexpr const char* kAsync =
    "The same without waiting: returns a Work, whose wait() returns the result.\n\n"
    "The arrays belong to the operation until it is over: do not write to x, nor use out, before.";

inline constexpr const char* kAllReduce =
    "Combines x of all ranks element by element; every rank gets the result.\n\n"
    "x: an array of any shape; every rank gives the same number of elements and type.\n"
    "out: where the result goes, with as many elements. None: a new array like x. x itself: in "
    "place.\n"
    "op: a ReduceOp or its name, a Reduction, or a function (a, b) of two arrays; None: sum.\n"
    "x may be a list of arrays of one type: then one call reduces all of them, and a list is "
    "returned.\n"
    "timeout: in seconds; None: the communicator's. algorithm: see explain(). label: for error "
    "messages.\n\n"
    "Returns out. Raises Mismatch where ranks differ, TimeoutError, PeerLost; ValueError or "
    "TypeError\n"
    "where an array does not fit, before anything is sent.";
inline constexpr const char* kReduce =
    "Combines x of all ranks at rank root.\n\n"
    "As all_reduce, but only the root's out is used. Returns out at the root, None elsewhere.";
inline constexpr const char* kBroadcast =
    "Copies x of rank root to x of all ranks (in place), or to out.\n\n"
    "x: the same number of elements everywhere. With out, only the root's x is used, others may "
    "give None.\n"
    "x may be a list of arrays of one type. Returns out, or x where there is none.";
inline constexpr const char* kAllGather =
    "Gathers x of all ranks everywhere.\n\n"
    "out: size() times the elements of x, rank r's at part r. None: a new array of shape (size(), "
    "*x.shape).\n"
    "In place: x is this rank's part of out. x may be a list of arrays of one type. Returns out.";
inline constexpr const char* kReduceScatter =
    "Combines x of all ranks; rank r gets part r of the result.\n\n"
    "x: size() parts of one length. out: one part. None: a new array of shape x.shape[1:], for "
    "which\n"
    "x.shape[0] must be size(). In place: out is this rank's part of x. x may be a list of "
    "arrays.\n"
    "op: as for all_reduce. Returns out.";
inline constexpr const char* kAllToAll =
    "Sends part r of x to rank r; part r of out is what rank r sent.\n\n"
    "x and out: size() parts of one length; they may overlap. out None: a new array like x. "
    "Returns out.";
inline constexpr const char* kGather =
    "Gathers x of all ranks at rank root.\n\n"
    "out: at the root, as for all_gather; unused elsewhere. Returns out at the root, None "
    "elsewhere.";
inline constexpr const char* kScatter =
    "Sends part r of the root's x to rank r.\n\n"
    "x: used at the root only: size() parts of one length; others may give None. out: one part. "
    "None, at the\n"
    "root only: a new array of shape x.shape[1:]. Returns out.";
inline constexpr const char* kBarrier = "Returns when every rank has come.";

}  // namespace ccoll::python::docs
