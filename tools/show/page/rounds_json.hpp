// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A picture as JSON, for pages and scripts. It contains everything they show, so they need not
/// know any algorithm. An incompatible change increases "schema".
///
///     {
///       "schema": 1,
///       "title": "all_reduce by ring, 4 ranks, 8 elements",
///       "operation": "all_reduce", "meaning": "everyone gets the sum of all buffers",
///       "algorithm": "ring", "source": "Patarasuk and Yuan 2009; …",   // null: of a file
///       "combines": true,                // whether the operation combines contributions
///       "ranks": 4, "root": null,        // a rank, where the operation has a root
///       "count": 8, "blocks": 4, "block_elems": [2, 2, 2, 2],   // null where each rank's differ
///       "op": "sum", "type": "int32",    // of "numbers"; "op" null where nothing is combined
///       "broken": null,                  // a sentence: what was changed to make it wrong
///       "theory": {"rounds": 6, "busiest": LOAD, "total": LOAD},       // null: of a file
///       "verdict": {"ok": true, "text": "proven: …",
///                   "slots": 2, "findings": [{"kind": "result", "message": "…"}],
///                   "explanation": ""},  // lines for learners, where it is not ok
///       "trees": [{"blocks": [0], "root": 0, "parents": [null, 2, …]}],
///       "trees_are": "mirrored",         // or "shifted": how the second of two is made; or ""
///       "programs": [                    // by rank
///         [{"lane": 0, "steps": ["input[3] -> send 1 lend always", …]}]],
///       "contents": [                    // what a place can hold; others name them by index
///         {"block": 0, "text": "0+1", "ranks": [0, 1],   // a rank that is in twice stands twice
///          "sources": [0, 5],            // the contents that it was combined from
///          "complete": false,            // has every rank's contribution, once
///          "numbers": ["10", "12"]}],    // its elements, the first 16
///       "rounds": [                      // the first is what is there before any message
///         {"round": 1, "depth": 1,
///          "phase": "combining 1/3",     // empty where nothing is combined
///          "sentence": "Each rank sends …",
///          "messages": [
///            {"from": 0, "lane": 0, "step": 0, "to": 1, "to_lane": 0, "to_step": 1,
///             "received": true,          // false only in a broken schedule: then no to_…
///             "reduces": true,           // combined with the receiver's data, or copied
///             "elems": 2,
///             "pieces": [                // "to_block": its number at the receiver
///               {"block": 3, "to_block": 3, "content": 3, "elems": 2}],
///             "left": [[0, 3]], "reached": [[1, 3]]}],   // cells: row and column
///          "cells": [[0, 1, 2, null]],   // by row and column: contents, as cells.hpp has them
///          "done": [[3]],                // by row: the columns with correct results
///          "held": [                     // by rank, after the round
///            [{"place": "input", "lane": 0, "block": 0, "content": 0, "result": false}]],
///          "so_far": [LOAD],             // by rank
///          "results": {"complete": 0, "all": 16}}]
///     }
///
/// LOAD is {"messages": 1, "elems_sent": 2, "elems_reduced": 0}. "place" is input, output, scratch
/// or passing: on its way from a receive to a send without being stored. "result" marks the
/// rank's correct final content. "content" is null if a finding has spoilt it.

#include <nlohmann/json_fwd.hpp>

#include "show/model/picture.hpp"

namespace ccoll::show {

/// The document has every rank's buffers after every round: it grows with the cube of the ranks.
inline constexpr Rank kMostRanksInJson = 64;

nlohmann::ordered_json json_of(const Picture& picture);

}  // namespace ccoll::show
