// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Ranks as threads of the test's process.

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/effort.hpp"

namespace ccoll::testing {

/// Runs body(rank) for each rank in a thread of its own; returns the text that each threw, or "".
/// Catch2's assertions are not thread-safe: the body reports by throwing, and the test asserts.
inline std::vector<std::string> run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; rank++) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

inline CommunicatorOptions options_for(
    std::string_view transport, std::chrono::milliseconds timeout = kPatience,
    std::chrono::milliseconds start_timeout = CommunicatorOptions{}.start_timeout) {
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = timeout;
  options.start_timeout = start_timeout;
  return options;
}

/// Runs body(communicator) on `size` ranks with a store of their own.
inline std::vector<std::string> run_ranks(int size, const CommunicatorOptions& options,
                                          const std::function<void(Communicator&)>& body) {
  const auto store = make_inproc_store();
  return run_threads(size, [&](int rank) {
    auto communicator = Communicator::create(store, rank, size, options);
    body(communicator);
  });
}

/// "kind: text" of the Error that `call` throws.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.kind())) + ": " + error.what();
  }
  return "no error";
}

/// Throws if a check fails on a test's thread.
inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace ccoll::testing
