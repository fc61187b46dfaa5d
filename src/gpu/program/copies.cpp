// SPDX-License-Identifier: Apache-2.0
#include "gpu/program/copies.hpp"

#include <algorithm>

namespace ccoll::device {
namespace {

/// The least average size of copies. This is an estimate: a GPU's memory moves as much in the
/// microseconds that a copy takes before its first byte. (Links between GPUs move less in that
/// time.)
constexpr std::uint64_t kBytesPerCopy = 4 << 20;

std::uint32_t input_of(Rank rank) { return 2 * rank; }
std::uint32_t output_of(Rank rank) { return 2 * rank + 1; }

/// By GPU: its ranks.
using RanksOf = std::vector<std::vector<Rank>>;

RanksOf ranks_by_device(Rank size, std::span<const std::uint32_t> devices) {
  RanksOf ranks_of;
  for (Rank rank = 0; rank < size; ++rank) {
    const std::uint32_t device = devices.empty() ? 0 : devices[rank];
    ranks_of.resize(std::max<std::size_t>(ranks_of.size(), device + 1));
    ranks_of[device].push_back(rank);
  }
  return ranks_of;
}

/// `add(sent, senders, receivers)` adds the copies from ranks of one GPU to those of another.
template <typename Add>
std::vector<TeamCopies> sent_in_turn(const RanksOf& ranks_of, const Add& add) {
  std::vector<TeamCopies> copies(ranks_of.size());
  for (std::size_t device = 0; device < copies.size(); ++device) {
    for (std::size_t turn = 1; turn <= copies.size(); ++turn) {
      const auto& receivers = ranks_of[(device + turn) % copies.size()];
      if (!receivers.empty()) add(copies[device].sent, ranks_of[device], receivers);
    }
  }
  return copies;
}

/// Copies each block to the output of one rank of each GPU, and that output to the other ranks'
/// there. With n ranks on one GPU these are 2n - 1 copies instead of n² from inputs alone, of as
/// many bytes; with n ranks on n GPUs n². Each block enters each other GPU once.
std::vector<TeamCopies> all_gather_of(const Problem& problem, std::uint64_t width,
                                      const RanksOf& ranks_of) {
  const Rank size = problem.size;
  const auto bytes_of = [&](Rank rank) {
    return width * block_elems(problem, size, rank, Buffer::output);
  };
  std::vector<std::uint64_t> begins(size);
  std::uint64_t all = 0;
  for (Rank rank = 0; rank < size; ++rank) {
    begins[rank] = all;
    all += bytes_of(rank);
  }
  auto copies = sent_in_turn(ranks_of, [&](auto& sent, const auto& senders, const auto& receivers) {
    for (const Rank from : senders) {
      sent.push_back(
          {input_of(from), output_of(receivers.front()), 0, begins[from], bytes_of(from)});
    }
  });
  for (std::size_t device = 0; device < copies.size(); ++device) {
    for (const Rank to : ranks_of[device]) {
      const Rank first = ranks_of[device].front();
      if (to != first)
        copies[device].spread.push_back({output_of(first), output_of(to), 0, 0, all});
    }
  }
  return copies;
}

std::vector<TeamCopies> all_to_all_of(const Problem& problem, std::uint64_t width,
                                      const RanksOf& ranks_of) {
  const Rank size = problem.size;
  return sent_in_turn(ranks_of, [&](auto& sent, const auto& senders, const auto& receivers) {
    for (const Rank to : receivers) {
      const Problem receiver = view_of(problem, to);
      for (const Rank from : senders) {
        const Problem sender = view_of(problem, from);
        sent.push_back({input_of(from), output_of(to),
                        width * block_offset(sender, size, to, Buffer::input),
                        width * block_offset(receiver, size, from, Buffer::output),
                        width * block_elems(sender, size, to, Buffer::input)});
      }
    }
  });
}

/// Whether `next` begins where `last` ends, and both can be one copy, which must not read what it
/// writes.
bool can_follow(const PlacedCopy& last, const PlacedCopy& next,
                const std::function<std::uint64_t(const void*)>& bytes_from) {
  if (last.from + last.bytes != next.from || last.to + last.bytes != next.to) return false;
  const std::uint64_t bytes = last.bytes + next.bytes;
  const bool is_apart = last.from + bytes <= last.to || last.to + bytes <= last.from;
  return is_apart && bytes <= bytes_from(last.from) && bytes <= bytes_from(last.to);
}

std::vector<PlacedCopy> place(std::span<const TeamCopy> copies, std::byte* const* buffers,
                              const std::function<std::uint64_t(const void*)>& bytes_from) {
  std::vector<PlacedCopy> placed;
  for (const TeamCopy& copy : copies) {
    const PlacedCopy next{buffers[copy.from] + copy.from_offset, buffers[copy.to] + copy.to_offset,
                          copy.bytes};
    if (next.from == next.to) continue;
    if (!placed.empty() && can_follow(placed.back(), next, bytes_from)) {
      placed.back().bytes += next.bytes;
    } else {
      placed.push_back(next);
    }
  }
  return placed;
}

}  // namespace

std::vector<TeamCopies> copies_of(const Problem& problem, DataType type,
                                  std::span<const std::uint32_t> devices) {
  const RanksOf ranks_of = ranks_by_device(problem.size, devices);
  std::vector<TeamCopies> copies;
  if (problem.kind == Kind::all_gather) copies = all_gather_of(problem, size_of(type), ranks_of);
  if (problem.kind == Kind::all_to_all) copies = all_to_all_of(problem, size_of(type), ranks_of);
  bool are_any = false;
  for (TeamCopies& each : copies) {
    for (auto* const list : {&each.sent, &each.spread}) {
      std::erase_if(*list, [](const TeamCopy& copy) { return copy.bytes == 0; });
      are_any = are_any || !list->empty();
    }
  }
  if (!are_any) copies.clear();
  return copies;
}

PlacedCopies place(const TeamCopies& copies, std::byte* const* buffers,
                   const std::function<std::uint64_t(const void*)>& bytes_from) {
  return {place(copies.sent, buffers, bytes_from), place(copies.spread, buffers, bytes_from)};
}

bool are_wanted(CopyUse use, std::span<const TeamCopies> copies) {
  std::uint64_t bytes = 0, count = 0;
  for (const TeamCopies& each : copies) {
    for (const auto* const list : {&each.sent, &each.spread}) {
      for (const TeamCopy& copy : *list) bytes += copy.bytes;
      count += list->size();
    }
  }
  return use == CopyUse::always || (use == CopyUse::by_size && bytes >= kBytesPerCopy * count);
}

}  // namespace ccoll::device
