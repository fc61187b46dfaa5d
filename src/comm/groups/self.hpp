// SPDX-License-Identifier: Apache-2.0
#pragma once

/// This rank in one communicator: who it is, and how callers are told about ranks, calls and
/// failures. It does not change, so any thread may use it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ccoll/communicator.hpp"
#include "comm/groups/group.hpp"
#include "comm/groups/member.hpp"
#include "control/control.hpp"
#include "core/result.hpp"
#include "core/signature.hpp"

namespace ccoll {

struct PlanRun;

class Self {
 public:
  Self(std::shared_ptr<Member> member, std::uint64_t id, const CommunicatorOptions& options,
       Group group);

  Rank rank() const { return group_.rank(); }
  Rank size() const { return group_.size(); }
  const Group& group() const { return group_; }
  std::uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const CommunicatorOptions& options() const { return options_; }

  const std::shared_ptr<Member>& member() const { return member_; }
  Control& control() const { return member_->control(); }
  const std::shared_ptr<net::Service>& service() const { return member_->service(); }
  std::uint64_t job() const { return member_->control().job(); }
  std::uint32_t job_rank() const { return member_->rank(); }
  /// The transport that is in use to that rank, or will be.
  Result<std::string> transport_to(Rank peer) const;

  /// Fails if this thread is inside a reduction's function that one of the communicator's calls
  /// invoked: a wait for that call would never end.
  Status called_from_outside() const;

  /// Returns the failure as the caller sees it: the call's label and the communicator's name come
  /// first, the culprit's rank here comes last. Apply it once, on the way to the caller; failures
  /// passed on inside, and between ranks, have none of these.
  Failure for_caller(Failure failure, std::string_view label = {}) const;
  /// The same as a function, for calls that end later. It may be called only while the
  /// communicator lives.
  auto teller(std::string_view label) const {
    return [this, label = std::string(label)](Failure failure) {
      return for_caller(std::move(failure), label);
    };
  }
  /// Returns the value, or throws the failure as the caller sees it.
  template <typename T>
  T value_or_raise(Result<T> result, std::string_view label = {}) const {
    if (!result) raise(for_caller(std::move(result.error()), label));
    if constexpr (!std::is_void_v<T>) return std::move(*result);
  }
  /// Makes a shortage or an exception here a failure of this rank, to tell the others.
  Failure failed_here(const Failure& failure) const;

  /// "all_reduce of 8 float32 (sum), by ring (call 3) on rank 1".
  std::string name_of(std::uint64_t sequence, const Signature& signature,
                      std::string_view label) const;
  std::string name_of(const PlanRun& run, std::string_view label) const;
  /// The ranks with their hosts and processes, or "nobody".
  std::string ranks_text(const std::vector<Rank>& ranks) const;

 private:
  const std::shared_ptr<Member> member_;
  const std::uint64_t id_;
  const CommunicatorOptions options_;
  const Group group_;
  const std::string name_;
};

}  // namespace ccoll
