// SPDX-License-Identifier: Apache-2.0
#pragma once

/// What a rank lends of its buffers in a call: decided when it is put into its stream, by this rank
/// alone. Only in builds with CUDA, of which it knows nothing here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "gpu/group/group_calls.hpp"
#include "gpu/group/lending.hpp"
#include "gpu/program/buffer_use.hpp"
#include "kernels/device/loans.hpp"

namespace ccoll::device {

struct CallLoans {
  bool are_apart = true;  ///< the buffers
  /// Of input and output; where each of them begins, which may be before its memory does.
  std::array<std::optional<Lending::Loan>, 2> of;

  bool lends(std::size_t buffer, bool if_separate) const {
    return of[buffer] && (are_apart || !if_separate);
  }
  /// To readers (said_of_loan).
  std::uint32_t said(std::size_t buffer) const {
    return of[buffer] ? said_of_loan(of[buffer]->number, are_apart) : 0;
  }
};

/// Waits for others only where the call is captured, which stays as it is.
CallLoans find_loans(Lending& lending, const BufferUse& use, const GroupCall& call);

}  // namespace ccoll::device
