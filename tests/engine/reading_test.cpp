// SPDX-License-Identifier: Apache-2.0
#include "engine/reading.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace ccoll;

namespace {

/// Records the calls made on it.
class Recorded final : public ReceiveLink {
 public:
  Recorded(std::string name, bool is_good, std::vector<std::string>& done)
      : name_(std::move(name)), is_good_(is_good), done_(done) {}

  const SliceHeader* peek() override { return nullptr; }
  void offer(std::byte*, std::size_t) override {}
  const View* front() override { return nullptr; }
  bool whole() const override { return true; }
  bool connected() const override { return true; }
  bool begin_read() override {
    done_.push_back("begin " + name_);
    return true;
  }
  void end_read() override { done_.push_back("end " + name_); }
  bool pop() override {
    done_.push_back("pop " + name_);
    return is_good_;
  }
  void revoke() override {}
  const Failure* failure() const override { return nullptr; }

 private:
  const std::string name_;
  const bool is_good_;
  std::vector<std::string>& done_;
};

}  // namespace

TEST_CASE("reading: all that was read is let go before anybody is told", "[engine]") {
  std::vector<std::string> done;
  Recorded a("a", true, done), b("b", false, done), c("c", true, done);
  const std::vector<ReceiveLink*> links{&a, &b, &c};
  Reading reading(links);
  CHECK(reading.begin() == 3);
  CHECK(reading.end() == 1);  // b's data must not be used
  CHECK(done == std::vector<std::string>{"begin a", "begin b", "begin c", "end a", "end b", "end c",
                                         "pop a", "pop b", "pop c"});
}
