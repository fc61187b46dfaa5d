// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Links whose state a test sets, and that write down the calls made on them.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/link.hpp"

namespace ccoll::test {

using Calls = std::vector<std::string>;

class FakeSendLink final : public SendLink {
 public:
  explicit FakeSendLink(Calls& calls, std::string name = "send")
      : calls_(calls), name_(std::move(name)) {}

  bool connected() const override { return is_connected; }
  const Failure* failure() const override { return failed ? &*failed : nullptr; }
  void revoke() override {}
  bool has_room() override { return room_left; }
  std::byte* room(std::size_t) override { return memory.data(); }
  void push(const SliceHeader&) override { calls_.push_back(name_ + " push"); }
  void lend(const SliceHeader&, const std::byte*, Copier) override {
    calls_.push_back(name_ + " lend");
  }
  std::byte* shared_room(const std::byte*, std::size_t) override { return shared; }
  bool push_shared(const SliceHeader&, const std::byte*) override {
    if (!takes_shared) return false;
    calls_.push_back(name_ + " push shared");
    return true;
  }
  bool progress() override {
    calls_.push_back(name_ + " progress");
    return false;
  }
  bool drained() override { return is_drained; }

  bool is_connected = true, room_left = true, is_drained = true;
  std::optional<Failure> failed;
  std::array<std::byte, 64> memory{};
  std::byte* shared = nullptr;  ///< the room that it offers for several links
  bool takes_shared = true;

 private:
  Calls& calls_;
  const std::string name_;
};

class FakeReceiveLink final : public ReceiveLink {
 public:
  explicit FakeReceiveLink(Calls& calls, std::string name = "receive")
      : calls_(calls), name_(std::move(name)) {}

  bool connected() const override { return is_connected; }
  const Failure* failure() const override { return failed ? &*failed : nullptr; }
  void revoke() override {}
  const SliceHeader* peek() override { return view ? &view->header : nullptr; }
  void offer(std::byte*, std::size_t) override { calls_.push_back(name_ + " offer"); }
  const View* front() override {
    calls_.push_back(name_ + " front");
    return view ? &*view : nullptr;
  }
  bool whole() const override { return view.has_value(); }
  bool begin_read() override { return is_owned; }
  bool pop() override {
    calls_.push_back(name_ + " pop");
    return is_owned;
  }

  bool is_connected = true;
  bool is_owned = true;  ///< the sender has not taken its slice back
  std::optional<View> view;
  std::optional<Failure> failed;

 private:
  Calls& calls_;
  const std::string name_;
};

}  // namespace ccoll::test
