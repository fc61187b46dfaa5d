// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which programs go by words (tiny_words.hpp), and where those lie. Pure.

#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Has all slices of a program go by words, where they are few and small enough for that and it
/// needs no other order of memory than words give it; false where not, and then it is as before.
/// The program's steps, ends and channels are there, slots not yet.
bool put_by_words(const LowerRequest& request, LoweredTeam& team);

}  // namespace ccoll::device
