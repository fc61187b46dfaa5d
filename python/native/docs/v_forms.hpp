// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Docstrings of collectives whose blocks differ in size.

namespace ccoll::python::docs {

inline constexpr const char* kAsyncV =
    "The same without waiting: returns a Work, whose wait() returns the result.\n\n"
    "The arrays belong to the operation until it is over.";
inline constexpr const char* kAllGatherV =
    "Gathers x of all ranks everywhere; ranks give different numbers of elements.\n\n"
    "out: a list with an array for each rank, or one array with counts, the elements of each "
    "rank.\n"
    "None: a new array of sum(counts) elements. Every rank gives all sizes, the same. Returns out.";
inline constexpr const char* kReduceScatterV =
    "Combines x of all ranks; rank r gets part r, and parts differ in size.\n\n"
    "x: a list with an array for each rank, or one array with counts. out: this rank's part; None: "
    "a new\n"
    "array of one dimension. op: as for all_reduce. Returns out.";
inline constexpr const char* kAllToAllV =
    "Sends part r of x to rank r; part r of out is what rank r sent.\n\n"
    "x: a list with an array for each rank, or one array with counts. out: the same with "
    "out_counts; None: a\n"
    "new array of sum(out_counts) elements. Sizes that differ between two ranks raise Mismatch. "
    "Returns out.";
inline constexpr const char* kGatherV =
    "Gathers x of all ranks at rank root; ranks give different numbers of elements.\n\n"
    "out and counts: as for all_gather_v, used at the root only. Returns out at the root, None "
    "elsewhere.";
inline constexpr const char* kScatterV =
    "Sends part r of the root's x to rank r; parts differ in size.\n\n"
    "x: used at the root only: a list with an array for each rank, or one array with counts.\n"
    "out: this rank's part. Returns out.";

}  // namespace ccoll::python::docs
