// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Further processes of a phase.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpu_check/phases.hpp"
#include "system/file_descriptor.hpp"

namespace ccoll::gpu_check {

std::string own_path();

/// Where a program of that name is, by PATH or among `more` folders; empty: nowhere.
std::string find_program(const std::string& name, const std::string& more = "");

/// A program with its arguments, which dies with the thread that starts it.
pid_t start_program(const std::vector<std::string>& command);

/// A child's status, 128 and more where a signal has ended it; nothing where it did not end by
/// itself in that time, and so was killed.
std::optional<int> status_within(pid_t child, std::chrono::seconds patience);

/// This program again as `kind` (--peer-of), with nothing of CUDA in it yet, and with the
/// descriptors that `inherited` holds. It dies with the thread that starts it.
pid_t start_peer(const std::string& kind, const std::string& handle,
                 const std::vector<FileDescriptor>& inherited = {});

/// What most of them are told: the handle's parts.
struct PeerArguments {
  explicit PeerArguments(const std::string& handle);
  static std::string text(const std::string& kind, int size, int rank, const PhaseContext& context);

  std::string kind;
  int size = 0;
  int rank = 0;
  std::uint64_t seed = 0;
  std::string out;
};

/// Waits for all, and ends those that do not by themselves, so that what comes next is tried. What
/// one of them finds wrong, it has said.
void await_peers(const std::vector<pid_t>& children, Findings& findings,
                 std::chrono::seconds patience);

}  // namespace ccoll::gpu_check
