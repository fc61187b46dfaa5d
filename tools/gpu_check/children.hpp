// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A phase's further processes.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpu_check/phases.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::gpu_check {

std::string own_path();

/// The path of a program of that name, by PATH or among `more` folders; empty if not found.
std::string find_program(const std::string& name, const std::string& more = "");

/// Starts a program with its arguments; it dies with the calling thread.
pid_t start_program(const std::vector<std::string>& command);

/// A child's status, or 128 plus the signal that ended it. Empty if it did not end by itself in
/// time, and so was killed.
std::optional<int> status_within(pid_t child, std::chrono::seconds patience);

/// Starts this program again as `kind` (--peer-of), before any use of CUDA, with the descriptors
/// that `inherited` holds. It dies with the calling thread.
pid_t start_peer(const std::string& kind, const std::string& handle,
                 const std::vector<FileDescriptor>& inherited = {});

/// The arguments of most peers: the handle's parts.
struct PeerArguments {
  explicit PeerArguments(const std::string& handle);
  static std::string text(const std::string& kind, int size, int rank, const PhaseContext& context);

  std::string kind;
  int size = 0;
  int rank = 0;
  std::uint64_t seed = 0;
  std::string out;
};

/// Waits for all, and ends those that do not end by themselves, so that the next check can run: by
/// the end of `patience`, or 10 s after one has failed. Each reports its own errors.
void await_peers(const std::vector<pid_t>& children, Findings& findings,
                 std::chrono::seconds patience);

}  // namespace ccoll::gpu_check
