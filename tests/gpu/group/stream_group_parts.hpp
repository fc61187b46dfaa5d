// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The parts of stream_group_test that have files of their own.

#include <vector>

#include "gpu/team/team_memory.hpp"
#include "support/memory_kind.hpp"

namespace ccoll::test {

// In stream_group_lending_test.cpp.
void test_lent(unsigned seed);
void test_freed(unsigned seed, testing::MemoryKind kind);
void test_not_mapped(unsigned seed);
void test_not_shared(unsigned seed);
void test_parts(unsigned seed);
void test_many(unsigned seed);
void test_outlives();

// In stream_group_failures_test.cpp.
using MakeCase = TeamCase (*)(Rank size);
/// Stream steps treat a call by words like any other.
std::vector<MakeCase> kinds_of_calls();
void test_killed(unsigned seed);
void test_killed_among_words(unsigned seed);
void test_late();
void test_given_up_while_lent();
void test_ended_here();
void test_beside(MakeCase make);
void test_given_up(MakeCase make);

// In stream_group_room_test.cpp.
void test_room(unsigned seed);
void test_fewest_blocks();

}  // namespace ccoll::test
