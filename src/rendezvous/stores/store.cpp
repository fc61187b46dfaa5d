// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "rendezvous/stores/backend.hpp"

namespace ccoll::rendezvous {
namespace {

class BackedStore final : public Store {
 public:
  explicit BackedStore(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  void set(std::string_view key, std::string_view value, Timeout timeout) override {
    call({Op::set, {std::string(key)}, {std::string(value)}, 0}, timeout);
  }
  std::string get(std::string_view key, Timeout timeout) override {
    return std::move(call({Op::get, {std::string(key)}, {}, 0}, timeout).values[0]);
  }
  void wait(std::span<const std::string> keys, Timeout timeout) override {
    call({Op::wait, {keys.begin(), keys.end()}, {}, 0}, timeout);
  }
  std::int64_t add(std::string_view key, std::int64_t delta, Timeout timeout) override {
    return call({Op::add, {std::string(key)}, {}, delta}, timeout).number;
  }
  bool compare_set(std::string_view key, std::optional<std::string_view> expected,
                   std::string_view desired, Timeout timeout) override {
    Request request{Op::compare_set, {std::string(key)}, {std::string(desired)}, 0};
    if (expected) request.values.emplace_back(*expected);
    return call(std::move(request), timeout).number != 0;
  }
  std::size_t append(std::string_view key, std::string_view value, Timeout timeout) override {
    const auto response = call({Op::append, {std::string(key)}, {std::string(value)}, 0}, timeout);
    return static_cast<std::size_t>(response.number);
  }
  bool check(std::span<const std::string> keys, Timeout timeout) override {
    return call({Op::check, {keys.begin(), keys.end()}, {}, 0}, timeout).number != 0;
  }
  bool remove(std::string_view key, Timeout timeout) override {
    return call({Op::remove, {std::string(key)}, {}, 0}, timeout).number != 0;
  }
  std::vector<std::string> multi_get(std::span<const std::string> keys, Timeout timeout) override {
    return call({Op::get, {keys.begin(), keys.end()}, {}, 0}, timeout).values;
  }
  void multi_set(std::span<const std::pair<std::string, std::string>> pairs,
                 Timeout timeout) override {
    Request request{Op::set, {}, {}, 0};
    for (const auto& [key, value] : pairs) {
      request.keys.push_back(key);
      request.values.push_back(value);
    }
    call(std::move(request), timeout);
  }
  std::vector<std::string> list(std::string_view prefix, Timeout timeout) override {
    return call({Op::list, {std::string(prefix)}, {}, 0}, timeout).values;
  }
  void barrier(std::string_view key, std::size_t count, Timeout timeout) override {
    call({Op::barrier, {std::string(key)}, {}, static_cast<std::int64_t>(count)}, timeout);
  }
  std::string address() const override { return backend_->address(); }

 private:
  Response call(Request request, Timeout timeout) {
    if (const Status status = check_request(request); !status) raise(status.error());
    const std::size_t wanted = request.op == Op::get ? request.keys.size() : 0;
    auto response = value_or_throw(backend_->call(std::move(request), timeout));
    if (wanted > 0 && response.values.size() != wanted)
      raise({ErrorKind::corrupt,
             fmt::format("the store answered a get of {} keys with {} values", wanted,
                         response.values.size()),
             std::nullopt});
    return response;
  }

  const std::unique_ptr<Backend> backend_;
};

}  // namespace

std::shared_ptr<Store> make_store(std::unique_ptr<Backend> backend) {
  return std::make_shared<BackedStore>(std::move(backend));
}

}  // namespace ccoll::rendezvous
