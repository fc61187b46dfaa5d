// SPDX-License-Identifier: Apache-2.0
// Groups that torch makes of a group of this backend, and the name that it gives them.
#include <algorithm>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backend.hpp"

namespace ccoll::plugin {
namespace {

void check_all_there(const Communicator& parent, Communicator& made,
                     const std::vector<std::int64_t>& excluded) {
  const auto expected = static_cast<std::size_t>(parent.size()) - excluded.size();
  if (static_cast<std::size_t>(made.size()) == expected) return;
  std::vector<std::int64_t> missing;
  for (int rank = 0; rank < parent.size(); rank++)
    if (!parent.rank_in(made, rank) &&
        std::find(excluded.begin(), excluded.end(), rank) == excluded.end())
      missing.push_back(rank);
  made.leave();
  auto all = excluded;
  all.insert(all.end(), missing.begin(), missing.end());
  std::sort(all.begin(), all.end());
  TORCH_CHECK(false, "ccoll: shrink_group: ranks ", as_list(missing), " are lost, too: exclude ",
              as_list(all));
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> Backend::split(const StorePointer& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return nullptr;
  auto of = group_->membership();
  of.store = store;
  of.rank = static_cast<int>(own - ranks.begin());
  of.size = static_cast<int>(ranks.size());
  of.timeout = options ? options->timeout : group_->timeout();
  of.name = options && !options->group_name.empty() ? options->group_name : of.name + "/split";
  return c10::make_intrusive<Backend>(Group::make(std::move(of)));
}

c10::intrusive_ptr<c10d::Backend> Backend::shrink(const std::vector<std::int64_t>& excluded,
                                                  int flags,
                                                  const c10::intrusive_ptr<Options>& options) {
  constexpr int kAbort = 1;  // torch.distributed.SHRINK_ABORT
  const auto parent = group_->communicator();
  const auto number = std::to_string(++shrinks_);
  auto of = group_->membership();
  of.timeout = options ? options->timeout : group_->timeout();
  of.name += "/shrunk" + number;
  try {
    if ((flags & kAbort) != 0) group_->abort_calls("shrink_group");
    auto made = parent->shrink_without(std::vector<int>(excluded.begin(), excluded.end()),
                                       {.name = "torch group " + of.name, .timeout = of.timeout});
    check_all_there(*parent, made, excluded);
    of.rank = made.rank();
    of.size = made.size();
    auto backend = c10::make_intrusive<Backend>(
        Group::make(std::move(of), std::move(made), group_->identity() + "-" + number));
    backend->is_misnamed_ = true;
    return backend;
  } catch (const Error& error) {
    throw_as_torchs(error);
  }
}

// torch's shrink_group registers every backend for the CPU as gloo, and DDP's logger then reads it
// as gloo's own, past its end. DDP makes a call before that.
void Backend::mend_name() {
  if (!is_misnamed_.exchange(false)) return;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(getGroupUid());
  } catch (const std::exception&) {  // nobody has made a group of it
    return;
  }
  constexpr auto kCustom = c10d::ProcessGroup::BackendType::CUSTOM;
  for (const auto device : {at::kCPU, at::kCUDA})
    group->setBackend(device, kCustom, c10::intrusive_ptr<Backend>::reclaim_copy(this));
  group->setDefaultBackend(kCustom);
}

}  // namespace ccoll::plugin
