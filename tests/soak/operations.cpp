// SPDX-License-Identifier: Apache-2.0
#include "soak/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "soak/nccl_part.hpp"
#include "support/checked_call.hpp"

namespace ccoll::testing::soak {
namespace {

/// Elements of a block: one line, a few, or many slices.
std::size_t draw_count(Draw& draw, int size) {
  const int most = std::max(1, 400'000 / size);
  const int scale = draw.from(0, 9);
  const int up_to = scale < 4 ? 16 : scale < 7 ? 1000 : scale < 9 ? 30'000 : 200'000;
  return static_cast<std::size_t>(draw.from(1, std::min(up_to, most)));
}

/// `size` ranks, which run on one host or are treated so.
Collective draw_collective(Draw& draw, int size, bool may_be_ragged) {
  std::vector<const CatalogueEntry*> all;
  for (const auto& entry : catalogue())
    if (!entry.by_host) all.push_back(&entry);
  const auto& entry =
      *all[static_cast<std::size_t>(draw.from(0, static_cast<int>(all.size()) - 1))];
  Collective what{entry.kind, false, entry.algorithm, draw_count(draw, size)};
  what.ragged = draw.chance(40) && may_be_ragged && entry.ragged;
  what.by_cost = draw.chance(40);
  what.salt = draw.from(1, 1000);
  what.registered = draw.chance(20);
  return what;
}

/// A failure breaks one communicator only: a rank that has heard of it does not join a part, and
/// those that have joined find out only by a time limit.
GroupOptions options_of_part() {
  GroupOptions options;
  options.timeout = std::chrono::seconds(8);
  return options;
}

void expect_message(const Elements& got, const Received& told, int from, const Elements& wanted) {
  if (told.from != from || told.count != wanted.size() || got != wanted)
    throw WrongResult(fmt::format("a message of rank {} is wrong", from));
}

}  // namespace

void Operations::next() {
  switch (draw_.from(0, 10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return blocking(ranks_);
    case 4:
    case 5:
      return asynchronous();
    case 6:
      return grouped();
    case 7:
      return around_the_ring();
    case 8:
      return batch();
    case 9:
      return through_nccl();
    default:
      return on_part();
  }
}

void Operations::blocking(Communicator& ranks) {
  const auto what = draw_collective(draw_, ranks.size(), true);
  const int root = draw_.from(0, ranks.size() - 1);
  text_ = what.text();
  calls_++;
  Checked(ranks, what, root).run();
}

void Operations::asynchronous() {
  text_ = "asynchronous:";
  std::deque<Checked> calls;
  std::vector<Work> works;
  for (int left = draw_.from(1, 4); left > 0; left--) {
    const auto what = draw_collective(draw_, ranks_.size(), false);
    const int root = draw_.from(0, ranks_.size() - 1);
    text_ += fmt::format(" {}", what.text());
    calls_++;
    calls.emplace_back(ranks_, what, root);
  }
  // The calls must end in any case, because their buffers end with this function.
  for (auto& call : calls) works.push_back(call.begin_async());
  const bool backwards = draw_.chance(50);
  for (std::size_t i = 0; i < works.size(); i++) works[backwards ? works.size() - 1 - i : i].wait();
  for (const auto& call : calls) call.check();
}

void Operations::grouped() {
  text_ = "grouped:";
  std::deque<Checked> calls;
  CallGroup group;
  for (int left = draw_.from(2, 4); left > 0; left--) {
    const auto what = draw_collective(draw_, ranks_.size(), true);
    text_ += fmt::format(" {}", what.text());
    calls_++;
    calls.emplace_back(ranks_, what, draw_.from(0, ranks_.size() - 1));
  }
  for (auto& call : calls) call.begin();
  group.end();
  for (const auto& call : calls) call.check();
}

void Operations::around_the_ring() {
  const int size = ranks_.size(), me = ranks_.rank();
  const int by = draw_.from(0, size - 1), tag = draw_.from(0, 3), salt = draw_.from(1, 1000);
  const auto count = draw_count(draw_, 16);
  text_ = fmt::format("send_recv of {}", count);
  calls_++;
  const int to = (me + by) % size, from = (me + size - by) % size;
  Elements out, in(count, -1), wanted;
  give(out, me, to, count, salt);
  give(wanted, from, me, count, salt);
  const auto told = ranks_.send_recv(out, to, in, from, tag);
  expect_message(in, told, from, wanted);
}

void Operations::batch() {
  const int size = ranks_.size(), me = ranks_.rank();
  const int salt = draw_.from(1, 1000), tag = draw_.from(0, 3);
  const auto count = draw_count(draw_, 16 * size);
  // The pairs that exchange data, about a third of all, the same on all ranks.
  std::vector<std::vector<bool>> sends(static_cast<std::size_t>(size));
  for (auto& row : sends)
    for (int to = 0; to < size; to++) row.push_back(draw_.chance(33));
  text_ = fmt::format("batch of messages of {}", count);
  calls_++;
  std::deque<Elements> out, in, wanted;
  std::vector<MessageRequest> requests;
  std::vector<int> senders;
  for (int peer = 0; peer < size; peer++) {
    if (sends[static_cast<std::size_t>(me)][static_cast<std::size_t>(peer)]) {
      give(out.emplace_back(), me, peer, count, salt);
      requests.push_back(MessageRequest::send(out.back(), peer, tag));
    }
    if (sends[static_cast<std::size_t>(peer)][static_cast<std::size_t>(me)]) {
      in.emplace_back(count, -1);
      give(wanted.emplace_back(), peer, me, count, salt);
      requests.push_back(MessageRequest::recv(in.back(), peer, tag));
      senders.push_back(peer);
    }
  }
  const auto told = ranks_.batch(requests);
  for (std::size_t i = 0; i < senders.size(); i++)
    expect_message(in[i], told[i], senders[i], wanted[i]);
}

void Operations::on_part() {
  const int size = ranks_.size();
  const int how = draw_.from(0, 2), colors = draw_.from(1, 3), calls = draw_.from(1, 3);
  std::vector<int> some(static_cast<std::size_t>(size));
  std::iota(some.begin(), some.end(), 0);
  std::erase_if(some, [&](int rank) { return rank > 0 && draw_.chance(40); });
  // The part draws from its own seed, because ranks outside of it draw nothing meanwhile.
  Draw of_part(static_cast<std::uint64_t>(draw_.from(0, 1 << 30)));
  text_ = how == 0 ? "duplicate" : how == 1 ? "split" : "subgroup";
  const auto what = text_;
  calls_ += 2;
  const auto options = options_of_part();
  std::optional<Communicator> part;
  bool well = true;
  try {
    if (how == 0)
      part = ranks_.duplicate(options);
    else if (how == 1)
      part = ranks_.split(ranks_.rank() % colors, -ranks_.rank(), options);
    else if (std::ranges::find(some, ranks_.rank()) != some.end())
      part = ranks_.subgroup(some, options);
    for (int call = 0; part && call < calls; call++) {
      const auto one = draw_collective(of_part, part->size(), true);
      text_ = fmt::format("{}: {}", what, one.text());
      calls_++;
      Checked(*part, one, of_part.from(0, part->size() - 1)).run();
    }
  } catch (const Error& error) {
    on_error_(part ? *part : ranks_, text_, error);
    well = false;
  }
  part.reset();
  agree(well, what);
}

void Operations::through_nccl() {
  Draw of_part(static_cast<std::uint64_t>(draw_.from(0, 1 << 30)));
  text_ = "nccl";
  calls_++;
  bool well = true;
  try {
    NcclPart part(ranks_.duplicate(options_of_part()));
    for (int left = of_part.from(1, 4); left > 0; left--) {
      part.next(of_part, text_);
      calls_++;
    }
    part.end(of_part, text_);
  } catch (const Error& error) {
    // The duplicate's ranks have the communicator's numbers.
    on_error_(ranks_, text_, error);
    well = false;
  }
  agree(well, "nccl");
}

void Operations::agree(bool well, const std::string& what) {
  text_ = fmt::format("after {}: all_reduce of 1", what);
  std::vector<std::int32_t> all(1, well ? 1 : 0);
  ranks_.all_reduce(all, ReduceOp::min);
  if (all[0] == 0) throw PartFailed{what};
}

}  // namespace ccoll::testing::soak
