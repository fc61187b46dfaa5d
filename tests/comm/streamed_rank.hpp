// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A rank's parts with a call in a stream that is made up: no GPU, and no CUDA.

#include <cstddef>
#include <memory>
#include <optional>

#include "comm/parts.hpp"
#include "comm/streams/stream_calls.hpp"

namespace ccoll::test {

/// A stream that has reached, and passed, what the test says.
class MadeUpOp final : public device::StreamOp {
 public:
  Status enqueue(std::shared_ptr<device::StreamListener> /*listener*/) override { return {}; }
  bool reached() const override { return is_reached; }
  bool passed() const override { return is_passed; }
  Status trouble() const override { return {}; }
  std::byte* on_host(const void* /*place*/, std::size_t /*part*/) const override { return nullptr; }
  void release() override { releases++; }
  void forsake() override { forsaken++; }
  bool is_made_by_device() const override { return by_device; }
  bool is_looked_at() const override { return by_device; }
  Status outcome() const override { return result; }

  bool is_reached = false, is_passed = false, by_device = false;
  int releases = 0, forsaken = 0;
  Status result;
};

/// A rank with one call in a stream, which begins an operation when the stream has reached it.
struct StreamedRank : Parts {
  StreamedRank() : Parts(0, {0, 1}, 30) {
    call->begin_when_reached([this](Owned /*owned*/) {
      begun++;
      return Result<ccoll::Operations>(ccoll::Operations{operation});
    });
    const Owner owned(progress);
    under_way.in_streams().add(owned, call);
  }
  /// A round over the calls in streams.
  std::optional<Failure> look() {
    const Owner owned(progress);
    std::optional<Failure> trouble;
    under_way.in_streams().advance(owned, trouble);
    return trouble;
  }
  bool are_under_way() {
    const Owner owned(progress);
    return under_way.in_streams().busy(owned);
  }

  int begun = 0;
  /// Beside a device's call it is a collective.
  const std::shared_ptr<Operation> operation = std::make_shared<CollectiveOperation>();
  const std::shared_ptr<StreamOperation> shown = std::make_shared<StreamOperation>();
  const std::shared_ptr<MadeUpOp> stream = std::make_shared<MadeUpOp>();
  /// Expires with the calls.
  std::shared_ptr<StreamCalls> all{&under_way.in_streams(), [](StreamCalls*) {}};
  const std::shared_ptr<StreamCall> call =
      std::make_shared<StreamCall>(all, stream, ccoll::Operations{shown});
};

}  // namespace ccoll::test
