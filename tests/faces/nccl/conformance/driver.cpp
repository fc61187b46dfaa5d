// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <unistd.h>

#include <algorithm>
#include <numeric>

namespace conformance {

namespace {

/// Memory that the judged library allocates.
class LibraryMemory final : public Memory {
 public:
  explicit LibraryMemory(Memory& below) : below_(below) {}
  void use(int local) override { below_.use(local); }
  const int* devices(int ranks) override { return below_.devices(ranks); }
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    if (ncclMemAlloc(&data, bytes) != ncclSuccess) {
      throw Wrong(std::string("ncclMemAlloc: ") + ncclGetLastError(nullptr));
    }
    return data;
  }
  void free(void* data) override { ncclMemFree(data); }
  void copy_in(void* to, const void* from, std::size_t bytes) override {
    below_.copy_in(to, from, bytes);
  }
  void copy_out(void* to, const void* from, std::size_t bytes) override {
    below_.copy_out(to, from, bytes);
  }
  cudaStream_t stream(int local) override { return below_.stream(local); }
  void wait(cudaStream_t stream) override { below_.wait(stream); }
  bool is_of_devices() const override { return below_.is_of_devices(); }
  void capture(cudaStream_t stream) override { below_.capture(stream); }
  void launch(cudaStream_t stream) override { below_.launch(stream); }

 private:
  Memory& below_;
};

}  // namespace

Driver::Driver(const Request& request, int process, std::vector<int> locals, const ncclUniqueId& id,
               Memory& memory)
    : request_(request),
      process_(process),
      locals_(std::move(locals)),
      id_(id),
      memory_(&memory),
      communicators_(locals_.size()),
      ranks_(request.layout.ranks()) {
  for (std::size_t i = 0; i < locals_.size(); ++i) ranks_in_.push_back(rank(i));
}

ncclResult_t Driver::settled(ncclResult_t code) {
  if (code != ncclInProgress) return code;
  for (auto* const communicator : communicators_) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      if (const auto asked = ncclCommGetAsyncError(communicator, &state); asked != ncclSuccess) {
        return asked;
      }
      if (state == ncclInProgress) ::usleep(50);
    }
    if (state != ncclSuccess) return state;
  }
  return ncclSuccess;
}

void Driver::must(ncclResult_t code, const std::string& what) {
  code = settled(code);
  if (code == ncclSuccess) return;
  throw Wrong(what + " gives " + std::to_string(code) + " (" + ncclGetErrorString(code) +
              "): " + ncclGetLastError(nullptr));
}

void Driver::make() {
  const int ranks = request_.layout.ranks();
  if (request_.layout.mode == Mode::init_all) {
    must(ncclCommInitAll(communicators_.data(), ranks, memory_->devices(ranks)), "ncclCommInitAll");
    return;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (request_.layout.mode == Mode::polled) config.blocking = 0;
  const bool in_group = request_.layout.mode == Mode::grouped;
  if (in_group) must(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    memory_->use(locals_[i]);
    // Makes one communicator in each way.
    const auto code =
        in_group && i == 0 ? ncclCommInitRank(&communicators_[i], ranks, id_, rank(i))
        : in_group && i == 1
            ? ncclCommInitRankScalable(&communicators_[i], ranks, rank(i), 1, &id_, &config)
            : ncclCommInitRankConfig(&communicators_[i], ranks, id_, rank(i), &config);
    must(code, "making the communicator");
  }
  if (in_group) must(ncclGroupEnd(), "ncclGroupEnd, which makes the communicators");
}

void Driver::check_numbers() {
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    int count = -1;
    int own = -1;
    must(ncclCommCount(communicators_[i], &count), "ncclCommCount");
    must(ncclCommUserRank(communicators_[i], &own), "ncclCommUserRank");
    if (count != ranks_ || own != ranks_in_[i]) {
      throw Wrong("rank " + std::to_string(ranks_in_[i]) + " of " + std::to_string(ranks_) +
                  " is told to be " + std::to_string(own) + " of " + std::to_string(count));
    }
  }
}

void Driver::step(const Case* cases, std::size_t count, Memory& memory) {
  const bool in_graph = memory.is_of_devices() && cases[0].seed % 4 == 1;
  std::vector<Part> parts;
  for (std::size_t c = 0; c < count; ++c) {
    for (std::size_t i = 0; i < communicators_.size(); ++i) {
      memory.use(locals_[i]);
      parts.emplace_back(cases[c], ranks_in_[i], ranks_, memory);
      parts.back().fill();
    }
  }
  const bool in_group = count > 1 || communicators_.size() > 1;
  const auto text = cases[0].text(ranks_);
  const auto of_each = [&](void (Memory::*does)(cudaStream_t)) {
    for (const int local : locals_) {
      memory.use(local);
      (memory.*does)(memory.stream(local));
    }
  };
  if (in_graph) of_each(&Memory::capture);
  if (in_group) must(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t i = p % communicators_.size();
    memory.use(locals_[i]);
    must(parts[p].call(communicators_[i], memory.stream(locals_[i])),
         "rank " + std::to_string(ranks_in_[i]) + ", " +
             cases[p / communicators_.size()].text(ranks_));
  }
  if (in_group) {
    must(ncclGroupEnd(), "ncclGroupEnd of " + std::to_string(count) + " calls from " + text);
  }
  if (in_graph) of_each(&Memory::launch);
  of_each(&Memory::wait);
  for (auto& part : parts) {
    if (auto wrong = part.wrong(); !wrong.empty()) throw Wrong(wrong);
  }
}

void Driver::go_through(const std::vector<Case>& all, Memory& memory, std::size_t most_in_group) {
  constexpr std::size_t kMostBytes = 1 << 20;
  for (std::size_t at = 0; at < all.size();) {
    // The first case's data determines how many are in the group, so all ranks know.
    const std::size_t wanted = 1 + (all[at].seed >> 32) % most_in_group;
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (count < wanted && at + count < all.size() && (count == 0 || bytes < kMostBytes)) {
      bytes += all[at + count].count * all[at + count].type->size;
      ++count;
    }
    step(&all[at], count, memory);
    at += count;
  }
}

void Driver::split() {
  std::vector<ncclComm_t> halves(communicators_.size());
  must(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    // The last rank is in none.
    const int color = rank(i) == ranks_ - 1 ? NCCL_SPLIT_NOCOLOR : rank(i) % 2;
    must(ncclCommSplit(communicators_[i], color, -rank(i), &halves[i], nullptr), "ncclCommSplit");
    if (halves[i] != nullptr) throw Wrong("ncclCommSplit has a communicator before its group ends");
  }
  must(ncclGroupEnd(), "ncclGroupEnd of ncclCommSplit");
  Driver half(*this);
  half.communicators_.clear();
  half.locals_.clear();
  half.ranks_in_.clear();
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const bool in_none = rank(i) == ranks_ - 1;
    if (in_none != (halves[i] == nullptr)) {
      throw Wrong(in_none ? "NCCL_SPLIT_NOCOLOR gives a communicator" : "a colour gives none");
    }
    if (in_none) continue;
    int own = -1;
    must(ncclCommUserRank(halves[i], &own), "ncclCommUserRank");
    const int members = (ranks_ - 1 + (rank(i) % 2 == 0 ? 1 : 0)) / 2;
    // The keys decrease, so the last rank becomes the first.
    if (own != members - 1 - rank(i) / 2) {
      throw Wrong("rank " + std::to_string(rank(i)) + " becomes rank " + std::to_string(own) +
                  " of " + std::to_string(members));
    }
    // The colours have different sizes, so each is tested by itself.
    Driver one(half);
    one.communicators_ = {halves[i]};
    one.locals_ = {locals_[i]};
    one.ranks_ = members;
    one.ranks_in_ = {own};
    half.communicators_.push_back(halves[i]);
    half.locals_.push_back(locals_[i]);
    if (communicators_.size() > 1) continue;
    const Scope scope{.full = false, .ranks = members, .seed = request_.seed + 1};
    auto some = cases(scope);
    some.resize(std::min<std::size_t>(some.size(), 20));
    one.check_numbers();
    one.go_through(some, *memory_, 4);
  }
  half.destroy();
}

void Driver::shrink() {
  if (ranks_ < 2) return;
  int excluded[] = {ranks_ - 1};
  Driver rest(*this);
  rest.communicators_.clear();
  rest.locals_.clear();
  rest.ranks_in_.clear();
  rest.ranks_ = ranks_ - 1;
  std::vector<ncclComm_t> made(communicators_.size());
  must(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    if (rank(i) == ranks_ - 1) continue;
    must(ncclCommShrink(communicators_[i], excluded, 1, &made[i], nullptr, NCCL_SHRINK_DEFAULT),
         "ncclCommShrink");
  }
  must(ncclGroupEnd(), "ncclGroupEnd of ncclCommShrink");
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    if (rank(i) == ranks_ - 1) continue;
    if (made[i] == nullptr) throw Wrong("ncclCommShrink gives no communicator");
    rest.communicators_.push_back(made[i]);
    rest.locals_.push_back(locals_[i]);
    rest.ranks_in_.push_back(rank(i));
  }
  if (rest.communicators_.empty()) return;
  auto some = cases({.full = false, .ranks = rest.ranks_, .seed = request_.seed + 2});
  some.resize(std::min<std::size_t>(some.size(), 20));
  rest.check_numbers();
  rest.go_through(some, *memory_, 4);
  rest.destroy();
}

void Driver::use_own_memory() {
  LibraryMemory memory(*memory_);
  auto some = cases({.full = false, .ranks = ranks_, .seed = request_.seed + 3});
  some.resize(std::min<std::size_t>(some.size(), 6));
  go_through(some, memory, 1);
}

void Driver::register_buffers() {
  constexpr std::size_t kBytes = 1 << 20;
  struct Registered {
    char* data = nullptr;
    void* whole = nullptr;
    void* part = nullptr;
    ncclWindow_t window = nullptr;
  };
  std::vector<Registered> all(communicators_.size());
  must(ncclGroupStart(), "ncclGroupStart");
  for (std::size_t i = 0; i < all.size(); ++i) {
    memory_->use(locals_[i]);
    all[i].data = static_cast<char*>(memory_->allocate(kBytes));
    must(ncclCommRegister(communicators_[i], all[i].data, kBytes, &all[i].whole),
         "ncclCommRegister");
    must(ncclCommRegister(communicators_[i], all[i].data + 4096, kBytes / 2, &all[i].part),
         "ncclCommRegister of a part");
    must(ncclCommWindowRegister(communicators_[i], all[i].data, kBytes, &all[i].window,
                                NCCL_WIN_COLL_SYMMETRIC),
         "ncclCommWindowRegister");
  }
  must(ncclGroupEnd(), "ncclGroupEnd of registering");
  must(ncclGroupStart(), "ncclGroupStart");
  std::vector<std::int32_t> values(1000, 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    memory_->use(locals_[i]);
    memory_->copy_in(all[i].data + 8192, values.data(), values.size() * sizeof values[0]);
    must(ncclAllReduce(all[i].data + 8192, all[i].data + 8192, values.size(), ncclInt32, ncclSum,
                       communicators_[i], memory_->stream(locals_[i])),
         "ncclAllReduce of registered memory");
  }
  must(ncclGroupEnd(), "ncclGroupEnd");
  for (std::size_t i = 0; i < all.size(); ++i) {
    memory_->use(locals_[i]);
    memory_->wait(memory_->stream(locals_[i]));
    memory_->copy_out(values.data(), all[i].data + 8192, values.size() * sizeof values[0]);
    if (std::any_of(values.begin(), values.end(), [&](int each) { return each != ranks_; })) {
      throw Wrong("ncclAllReduce of registered memory gives a wrong sum");
    }
    must(ncclCommWindowDeregister(communicators_[i], all[i].window), "ncclCommWindowDeregister");
    must(ncclCommDeregister(communicators_[i], all[i].whole), "ncclCommDeregister");
    must(ncclCommDeregister(communicators_[i], all[i].part), "ncclCommDeregister");
    memory_->free(all[i].data);
  }
}

void Driver::destroy() {
  // All ranks have to finalize together.
  must(ncclGroupStart(), "ncclGroupStart");
  for (auto* const each : communicators_) must(ncclCommFinalize(each), "ncclCommFinalize");
  must(ncclGroupEnd(), "ncclGroupEnd of ncclCommFinalize");
  for (auto* const each : communicators_) must(ncclCommDestroy(each), "ncclCommDestroy");
  communicators_.clear();
}

void Driver::run() {
  make();
  check_numbers();
  go_through(cases({.full = request_.full, .ranks = ranks_, .seed = request_.seed}), *memory_, 8);
  use_own_memory();
  register_buffers();
  split();
  shrink();
  destroy();
}

}  // namespace conformance
