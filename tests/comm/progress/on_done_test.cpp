// SPDX-License-Identifier: Apache-2.0
// Work::on_done: callbacks for when operations are over.
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/ranks.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::expect;
using testing::run_ranks;

namespace {

/// A callback for on_done and the error text that it got: "" for success, nothing if it was not
/// called within 20 s.
class Heard {
 public:
  std::function<void(const Error*)> function() {
    return [this](const Error* error) { told_.set_value(error == nullptr ? "" : error->what()); };
  }
  std::optional<std::string> text() {
    auto told = told_.get_future();
    if (told.wait_for(20s) != std::future_status::ready) return std::nullopt;
    return told.get();
  }

 private:
  std::promise<std::string> told_;
};

}  // namespace

TEST_CASE("on_done: a function is called once its operation is over", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data{1, 2};
    Heard heard, later, of_batch;
    auto work = communicator.all_reduce_async(data);
    work.on_done(heard.function());
    expect(heard.text() == "", "no error");
    expect(work.test() && data == std::vector<float>{2, 4}, "the result is there");
    work.on_done(later.function());
    expect(later.text() == "", "of an operation that was over");

    const int other = 1 - communicator.rank();
    std::vector<int> out{communicator.rank()}, in{-1};
    const std::array requests{MessageRequest::send(out, other), MessageRequest::recv(in, other)};
    communicator.batch_async(requests).on_done(of_batch.function());
    expect(of_batch.text() == "", "a batch");
    expect(in.front() == other, "all of the batch is over");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("on_done: an operation that fails tells why", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data(10);
    if (communicator.rank() == 0) {
      Heard heard;
      auto work = communicator.recv_async(data, 1);
      work.on_done(heard.function());
      const std::vector<int> begun{1};
      communicator.send(begun, 1);
      const auto text = heard.text();
      expect(text && text->find("on purpose") != std::string::npos, text.value_or("nothing came"));
    } else {
      std::vector<int> begun(1);
      communicator.recv(begun, 0);
      communicator.abort("on purpose");
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("on_done: a function may begin operations, and wait for what others tell", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> first{1}, second{1};
    std::promise<float> over;
    communicator.all_reduce_async(first).on_done([&](const Error*) {
      std::promise<void> nested;
      auto work = communicator.all_reduce_async(second);
      work.on_done([&](const Error*) { nested.set_value(); });
      nested.get_future().wait();
      over.set_value(second.front());
    });
    expect(over.get_future().get() == 2.0F, "the second one's result");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("on_done: what a function throws ends nothing", "[comm]") {
  const auto errors = run_ranks(2, {}, [](Communicator& communicator) {
    std::vector<float> data{1};
    Heard heard;
    communicator.all_reduce_async(data).on_done(
        [](const Error*) { throw std::runtime_error("oh"); });
    communicator.all_reduce_async(data).on_done(heard.function());
    expect(heard.text() == "", "the next one is told");
    expect(data.front() == 4, "the result");
  });
  CHECK(errors == std::vector<std::string>(2));
}
