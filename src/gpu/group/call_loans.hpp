// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The buffers that a rank lends in a call. This rank alone decides that, when the call is put into
/// its stream. Only in builds with CUDA; knows no CUDA itself.

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
  bool are_apart = true;  ///< the buffers do not overlap
  /// For input and output: where each of them begins, which may be before its memory does.
  std::array<std::optional<Lending::Loan>, 2> of;

  bool lends(std::size_t buffer, bool if_separate) const {
    return of[buffer] && (are_apart || !if_separate);
  }
  /// The value that readers get (said_of_loan).
  std::uint32_t said(std::size_t buffer) const {
    return of[buffer] ? said_of_loan(of[buffer]->number, are_apart) : 0;
  }
};

/// Waits for others only if the call is captured, because its loans then stay as they are.
CallLoans find_loans(Lending& lending, const BufferUse& use, const GroupCall& call);

}  // namespace ccoll::device
