// SPDX-License-Identifier: Apache-2.0
// A made-up request that notes which road it takes.
#include "comm/api/roads.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ccoll/call_group.hpp"
#include "comm/progress/operation.hpp"

namespace ccoll::test {
namespace {

/// The traits of a call by which its road is chosen.
struct Traits {
  bool is_like_last = false;
  bool has_stream = false;
  bool has_device_memory = false;
  bool is_wrong = false;
};

class RoadRequest {
 public:
  explicit RoadRequest(const Traits& traits) : traits_(traits) {}

  bool at_once() {
    took.emplace_back("at once?");
    return traits_.is_like_last;
  }
  struct Checked {
    RoadRequest& request;
    CallOptions options;

    bool is_for_stream() const {
      return options.stream.has_value() || request.traits_.has_device_memory;
    }
    Work by_stream(Until until) { return request.took_road("stream", until); }
    Work by_queue(Until until) { return request.took_road("queue", until); }
    Work in_stream_of_group() { return request.took_road("stream of group", Until::begun); }
  };
  Checked checked() {
    took.emplace_back("checked");
    if (traits_.is_wrong) throw std::invalid_argument("wrong");
    Checked call{*this, {}};
    if (traits_.has_stream) call.options.stream.emplace();
    return call;
  }

  std::vector<std::string> took;
  /// The call's operation, which its Work has.
  const std::shared_ptr<Operation> operation = std::make_shared<StreamOperation>();

 private:
  Work took_road(const std::string& road, Until until) {
    took.push_back(road + (until == Until::begun ? ", begun" : ", done"));
    auto state = std::make_shared<Work::State>();
    state->operations = {operation};
    return Work(std::move(state));
  }

  const Traits traits_;
};

/// The road by the header's table, as RoadRequest notes it.
std::vector<std::string> road_of(const Traits& traits, Until until, bool in_group) {
  std::vector<std::string> expected;
  if (until == Until::done) {
    expected.emplace_back("at once?");
    if (traits.is_like_last) return expected;
  }
  expected.emplace_back("checked");
  const bool is_blocking_in_group = in_group && until == Until::done;
  if (is_blocking_in_group && traits.has_stream)
    expected.emplace_back("stream of group, begun");
  else
    expected.push_back(
        std::string(traits.has_stream || traits.has_device_memory ? "stream" : "queue") +
        (is_blocking_in_group || until == Until::begun ? ", begun" : ", done"));
  return expected;
}

}  // namespace

TEST_CASE("roads: every call takes the first road that is open to it, and no other",
          "[comm][unit][property]") {
  for (unsigned bits = 0; bits < 32; bits++) {
    const Traits traits{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    const auto until = (bits & 8) != 0 ? Until::begun : Until::done;
    const bool in_group = (bits & 16) != 0;
    CAPTURE(traits.is_like_last, traits.has_stream, traits.has_device_memory, until == Until::begun,
            in_group);
    RoadRequest request(traits);
    std::optional<CallGroup> group;
    if (in_group) group.emplace();
    auto work = submit(request, until);
    CHECK(request.took == road_of(traits, until, in_group));
    const bool is_over = request.took.size() == 1;
    // A call that was over at once has no operation.
    CHECK(work.test() == is_over);
    request.operation->end();
    if (group) group->end();
    CHECK(work.test());
  }
}

TEST_CASE("roads: a call that is wrong takes none, and leaves its group as it was",
          "[comm][unit]") {
  CallGroup group;
  RoadRequest request(Traits{.is_wrong = true});
  CHECK_THROWS_AS(submit(request), std::invalid_argument);
  CHECK(request.took.back() == "checked");
  CHECK(call_group::works_with_room().empty());
  group.end();
}

TEST_CASE("roads: an open group waits for its blocking calls, but for no others",
          "[comm][unit][property]") {
  for (unsigned bits = 0; bits < 16; bits++) {
    const Traits traits{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    const auto until = (bits & 8) != 0 ? Until::begun : Until::done;
    CAPTURE(traits.is_like_last, traits.has_stream, traits.has_device_memory,
            until == Until::begun);
    RoadRequest request(traits);
    CallGroup group;
    submit(request, until);
    const bool is_waited_for = until == Until::done && !traits.is_like_last && !traits.has_stream;
    CHECK(call_group::works_with_room().size() == (is_waited_for ? 1 : 0));
    request.operation->end();
    group.end();
  }
}

}  // namespace ccoll::test
