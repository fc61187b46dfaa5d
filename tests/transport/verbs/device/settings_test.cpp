// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/settings.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

using namespace ccoll;
using namespace ccoll::verbs;

namespace {

/// Sets an environment variable while it lives.
class Set {
 public:
  Set(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Set() { ::unsetenv(name_); }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  const char* const name_;
};

}  // namespace

TEST_CASE("verbs: what is not set is as documented", "[transport][verbs]") {
  const auto settings = Settings::from_environment().value();
  CHECK(settings.ports.takes("any", 1));
  CHECK_FALSE(settings.gid_index);
  CHECK(int(settings.traffic_class) == 0);
  CHECK(int(settings.service_level) == 0);
  CHECK(int(settings.timeout) == 18);
  CHECK(int(settings.retries) == 6);
}

TEST_CASE("verbs: each variable sets what it is named after", "[transport][verbs]") {
  const Set hca("CCOLL_IB_HCA", "a:1"), gid("CCOLL_IB_GID_INDEX", "3"), tc("CCOLL_IB_TC", "106"),
      sl("CCOLL_IB_SL", "5"), timeout("CCOLL_IB_TIMEOUT", "14"), retries("CCOLL_IB_RETRY_CNT", "7");
  const auto settings = Settings::from_environment().value();
  CHECK(settings.ports.takes("a", 1));
  CHECK_FALSE(settings.ports.takes("b", 1));
  CHECK(settings.gid_index == 3);
  CHECK(int(settings.traffic_class) == 106);
  CHECK(int(settings.service_level) == 5);
  CHECK(int(settings.timeout) == 14);
  CHECK(int(settings.retries) == 7);
}

TEST_CASE("verbs: an index of -1 leaves the choice of the address to ccoll, as NCCL's does",
          "[transport][verbs]") {
  const Set gid("CCOLL_IB_GID_INDEX", "-1");
  CHECK_FALSE(Settings::from_environment().value().gid_index);
}

TEST_CASE("verbs: a value that makes no sense is refused with the variable and what it may be",
          "[transport][verbs]") {
  struct Wrong {
    const char* name;
    const char* value;
    const char* range;
  };
  for (const auto& [name, value, range] : {Wrong{"CCOLL_IB_GID_INDEX", "-2", "from -1 to 1023"},
                                           {"CCOLL_IB_TC", "256", "from 0 to 255"},
                                           {"CCOLL_IB_SL", "16", "from 0 to 15"},
                                           {"CCOLL_IB_TIMEOUT", "0", "from 1 to 31"},  // for ever
                                           {"CCOLL_IB_TIMEOUT", "18s", "from 1 to 31"},
                                           {"CCOLL_IB_RETRY_CNT", "8", "from 0 to 7"},
                                           {"CCOLL_IB_RETRY_CNT", "many", "from 0 to 7"}}) {
    CAPTURE(name, value);
    const Set set(name, value);
    const auto settings = Settings::from_environment();
    REQUIRE_FALSE(settings);
    CHECK(settings.error().kind == ErrorKind::invalid_argument);
    CHECK_THAT(settings.error().message,
               Catch::StartsWith(std::string(name) + "=" + value) && Catch::Contains(range));
  }
}
