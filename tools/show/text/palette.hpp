// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Terminal colours. Each tone has its own background, so its text is legible on white and black
/// terminals. A test computes the contrasts.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ccoll::show {

/// Two of the 216 colours and 24 greys that themes cannot change (16 to 255).
struct Tone {
  int background;
  int text;
};

inline constexpr int kBlackText = 16;
inline constexpr int kWhiteText = 231;

// Cells show what happens to them, in the same hues as on a page.
inline constexpr Tone kSending = {25, kWhiteText};
inline constexpr Tone kCopied = {75, kBlackText};
inline constexpr Tone kCombined = {214, kBlackText};
inline constexpr Tone kComplete = {36, kBlackText};
inline constexpr Tone kFault = {166, kBlackText};

/// The hues of blocks, after Okabe and Ito. The letter is always printed, too.
inline constexpr std::array<Tone, 8> kBlockTones = {{
    {214, kBlackText},
    {75, kBlackText},
    {36, kBlackText},
    {227, kBlackText},
    {25, kWhiteText},
    {166, kBlackText},
    {175, kBlackText},
    {250, kBlackText},
}};

inline Tone tone_of_block(std::uint32_t block) { return kBlockTones[block % kBlockTones.size()]; }

/// `text` in that tone.
std::string painted(std::string_view text, Tone tone);

}  // namespace ccoll::show
