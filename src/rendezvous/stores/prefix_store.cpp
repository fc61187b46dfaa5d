// SPDX-License-Identifier: Apache-2.0
#include "ccoll/store.hpp"
#include "core/result.hpp"

namespace ccoll {
namespace {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> inner, std::string prefix)
      : inner_(std::move(inner)), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value, Timeout timeout) override {
    inner_->set(full(key), value, timeout);
  }
  std::string get(std::string_view key, Timeout timeout) override {
    return inner_->get(full(key), timeout);
  }
  void wait(std::span<const std::string> keys, Timeout timeout) override {
    inner_->wait(full(keys), timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta, Timeout timeout) override {
    return inner_->add(full(key), delta, timeout);
  }
  bool compare_set(std::string_view key, std::optional<std::string_view> expected,
                   std::string_view desired, Timeout timeout) override {
    return inner_->compare_set(full(key), expected, desired, timeout);
  }
  std::size_t append(std::string_view key, std::string_view value, Timeout timeout) override {
    return inner_->append(full(key), value, timeout);
  }
  bool check(std::span<const std::string> keys, Timeout timeout) override {
    return inner_->check(full(keys), timeout);
  }
  bool remove(std::string_view key, Timeout timeout) override {
    return inner_->remove(full(key), timeout);
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys, Timeout timeout) override {
    return inner_->multi_get(full(keys), timeout);
  }
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs,
                 Timeout timeout) override {
    std::vector<std::pair<std::string, std::string>> renamed;
    renamed.reserve(pairs.size());
    for (const auto& [key, value] : pairs) renamed.emplace_back(full(key), value);
    inner_->multi_set(renamed, timeout);
  }
  std::vector<std::string> list(std::string_view prefix, Timeout timeout) override {
    auto keys = inner_->list(full(prefix), timeout);
    for (std::string& key : keys) key.erase(0, prefix_.size());
    return keys;
  }
  void barrier(std::string_view key, std::size_t count, Timeout timeout) override {
    inner_->barrier(full(key), count, timeout);
  }
  std::string address() const override { return inner_->address(); }

 private:
  std::string full(std::string_view key) const { return prefix_ + std::string(key); }
  std::vector<std::string> full(std::span<const std::string> keys) const {
    std::vector<std::string> renamed;
    renamed.reserve(keys.size());
    for (const std::string& key : keys) renamed.push_back(prefix_ + key);
    return renamed;
  }

  const std::shared_ptr<Store> inner_;
  const std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> make_prefix_store(std::shared_ptr<Store> inner, std::string prefix) {
  if (!inner)
    raise({ErrorKind::invalid_argument,
           fmt::format("make_prefix_store: no store (null) for the prefix '{}'", prefix),
           std::nullopt});
  return std::make_shared<PrefixStore>(std::move(inner), std::move(prefix));
}

}  // namespace ccoll
