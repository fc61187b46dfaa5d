// SPDX-License-Identifier: Apache-2.0
// Prints the result of Environment::detect in one line, for tests under real launchers. With "meet"
// it then opens the store and adds 1 to a key until all have done so; with "fail" it fails once all
// have opened the store.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "ccoll/environment.hpp"
#include "rendezvous/open_store.hpp"

namespace {

/// Opens the store and fails. The launcher kills the others when the first rank fails, so none ends
/// before all have passed the meeting point.
int fail(const ccoll::Environment& environment) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  try {
    const auto opened =
        ccoll::value_or_throw(ccoll::open_store(environment, "", std::chrono::seconds(20)));
    opened.store->barrier("all", static_cast<std::size_t>(environment.size));
    throw std::runtime_error("failed as asked");
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  const auto place = environment.store.substr(std::string_view("file://").size());
  while (std::filesystem::exists(place) && std::chrono::steady_clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 1;
}

void meet(const ccoll::Environment& environment) {
  std::string token;
  if (!environment.token_file.empty()) {
    token = ccoll::value_or_throw(ccoll::read_token_file(environment.token_file));
  }
  const auto opened =
      ccoll::value_or_throw(ccoll::open_store(environment, token, std::chrono::seconds(20)));
  opened.store->add("here", 1);
  opened.store->barrier("all", static_cast<std::size_t>(environment.size));
  fmt::print("met={}\n", opened.store->get("here"));
  // The rank that serves the store must outlive the others' last use of it.
  opened.store->barrier("done", static_cast<std::size_t>(environment.size));
}

}  // namespace

int main(int count, char** arguments) try {
  const auto found = ccoll::Environment::detect();
  fmt::print("launcher={} rank={} size={} local_rank={} local_size={} store={} meeting={}\n",
             found.launcher, found.rank, found.size, found.local_rank, found.local_size,
             found.store, found.meeting_place);
  std::fflush(stdout);
  const std::string what = count > 1 ? arguments[1] : "";
  if (what == "meet") meet(found);
  return what == "fail" ? fail(found) : 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
