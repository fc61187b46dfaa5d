// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A communicator whose calls go through nccl.h, in host mode.

#include <memory>
#include <string>
#include <string_view>

#include "ccoll/ccoll.hpp"
#include "soak/round.hpp"

namespace ccoll::nccl {
class Comm;
}
struct ncclComm;

namespace ccoll::testing::soak {

class NcclPart {
 public:
  /// It uses an existing communicator: a start-up of its own would read the round's options from
  /// variables, which all rounds of a process share.
  explicit NcclPart(Communicator part);
  ~NcclPart();
  NcclPart(const NcclPart&) = delete;
  NcclPart& operator=(const NcclPart&) = delete;

  /// Makes random calls, the same on all ranks, checks them, and describes them in `text`. Throws
  /// Error with the communicator's kind and ncclGetLastError's text, or WrongResult.
  void next(Draw& draw, std::string& text);
  /// Ends it in one of the ways that programs use.
  void end(Draw& draw, std::string& text);

 private:
  explicit NcclPart(ncclComm* handle);

  void group(Draw& draw, std::string& text);
  void messages(Draw& draw, std::string& text);
  void split(Draw& draw, std::string& text);
  /// Throws if a function has failed.
  void must(int code, std::string_view function) const;

  std::shared_ptr<nccl::Comm> comm_;
  ncclComm* handle_;
};

}  // namespace ccoll::testing::soak
