// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Decides which programs go by words (tiny_words.hpp), and where those lie. Pure.

#include "gpu/program/lower.hpp"

namespace ccoll::device {

/// Makes all slices of a program go by words, if they are few and small enough and it needs no
/// other order of memory than words give. Otherwise it returns false, and the program goes by
/// slots, as before. The program's steps, ends and channels must be there, but no slots yet.
bool put_by_words(const LowerRequest& request, LoweredTeam& team);

}  // namespace ccoll::device
