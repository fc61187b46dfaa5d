// SPDX-License-Identifier: Apache-2.0
// ccoll's stores by their URLs, and stores of the caller's own.
#include <cstdlib>

#include "faces/c/face.hpp"

namespace {

using namespace ccoll::c;

/// A store whose work is done by the caller's functions.
class CallersStore final : public ccoll::Store {
 public:
  CallersStore(const ccoll_store_functions& functions, void* context)
      : functions_(functions), context_(context) {}

  void set(std::string_view key, std::string_view value, Timeout timeout) override {
    check_result("set", functions_.set(context_, bytes_of(key), bytes_of(value), timeout.count()));
  }

  std::string get(std::string_view key, Timeout timeout) override {
    ccoll_bytes value{};
    check_result("get", functions_.get(context_, bytes_of(key), timeout.count(), &value));
    return taken(value);
  }

  void wait(std::span<const std::string> keys, Timeout timeout) override {
    for (const auto& key : keys) static_cast<void>(get(key, timeout));
  }

  std::int64_t add(std::string_view key, std::int64_t delta, Timeout timeout) override {
    std::int64_t sum = 0;
    check_result("add", functions_.add(context_, bytes_of(key), delta, timeout.count(), &sum));
    return sum;
  }

  bool compare_set(std::string_view key, std::optional<std::string_view> expected,
                   std::string_view desired, Timeout timeout) override {
    const auto wanted = bytes_of(expected.value_or(""));
    std::int32_t was_set = 0;
    check_result("compare_set",
                 functions_.compare_set(context_, bytes_of(key), expected ? &wanted : nullptr,
                                        bytes_of(desired), timeout.count(), &was_set));
    return was_set != 0;
  }

  std::size_t append(std::string_view key, std::string_view value, Timeout timeout) override {
    for (;;) {
      const std::string keys[] = {std::string(key)};
      std::optional<std::string> before;
      if (check(keys, timeout)) before = get(key, timeout);
      const auto after = before.value_or("").append(value);
      if (compare_set(key, before, after, timeout)) return after.size();
    }
  }

  bool check(std::span<const std::string> keys, Timeout timeout) override {
    return std::ranges::all_of(keys, [&](const std::string& key) {
      std::int32_t exists = 0;
      check_result("check", functions_.check(context_, bytes_of(key), timeout.count(), &exists));
      return exists != 0;
    });
  }

  bool remove(std::string_view key, Timeout timeout) override {
    std::int32_t existed = 0;
    check_result("remove", functions_.remove(context_, bytes_of(key), timeout.count(), &existed));
    return existed != 0;
  }

  std::vector<std::string> multi_get(std::span<const std::string> keys, Timeout timeout) override {
    std::vector<std::string> values;
    for (const auto& key : keys) values.push_back(get(key, timeout));
    return values;
  }

  void multi_set(std::span<const std::pair<std::string, std::string>> pairs,
                 Timeout timeout) override {
    for (const auto& [key, value] : pairs) set(key, value, timeout);
  }

  std::vector<std::string> list(std::string_view prefix, Timeout timeout) override {
    ccoll_bytes* keys = nullptr;
    std::size_t count = 0;
    check_result("list",
                 functions_.list(context_, bytes_of(prefix), timeout.count(), &keys, &count));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; i++) names.push_back(taken(keys[i]));
    std::free(keys);
    return names;
  }

  void barrier(std::string_view, std::size_t, Timeout) override {
    throw ccoll::Error(ccoll::ErrorKind::unsupported, "the caller's store has no barrier");
  }

 private:
  /// The functions take it by value and do not write the bytes behind it.
  static ccoll_bytes bytes_of(std::string_view text) {
    return {const_cast<char*>(text.data()), text.size()};
  }

  static std::string taken(const ccoll_bytes& value) {
    const std::unique_ptr<void, decltype(&std::free)> owned(value.data, &std::free);
    return {static_cast<const char*>(value.data), value.size};
  }

  static void check_result(std::string_view function, ccoll_result result) {
    if (result == CCOLL_OK) return;
    const bool is_known = result > CCOLL_OK && result <= CCOLL_INTERNAL;
    throw ccoll::Error(
        is_known ? static_cast<ccoll::ErrorKind>(result - 1) : ccoll::ErrorKind::internal,
        fmt::format("the caller's store: {} returned {} ({})", function, static_cast<int>(result),
                    ccoll_result_name(result)));
  }

  const ccoll_store_functions functions_;
  void* const context_;
};

constexpr std::string_view kFile = "file://", kTcp = "tcp://";

}  // namespace

ccoll_result ccoll_store_open(const char* url, const char* token, int64_t timeout_ms,
                              ccoll_store* made) {
  return guarded([&] {
    const auto where = text_of(url);
    hand_out(made, [&]() -> std::shared_ptr<ccoll::Store> {
      if (where.starts_with(kFile)) return ccoll::make_file_store(where.substr(kFile.size()));
      if (where.starts_with(kTcp))
        return ccoll::connect_tcp_store(where.substr(kTcp.size()), text_of(token),
                                        std::chrono::milliseconds(timeout_ms));
      refuse(fmt::format("a store at '{}': expected tcp://host:port or file:///path", where));
    });
  });
}

ccoll_result ccoll_store_custom(const ccoll_store_functions* functions, void* context,
                                ccoll_store* made) {
  return guarded([&] {
    ccoll_store_functions own{};
    read_struct(&given(functions, "the store's functions"), own, "ccoll_store_functions");
    if (own.set == nullptr || own.get == nullptr || own.add == nullptr ||
        own.compare_set == nullptr || own.check == nullptr || own.remove == nullptr ||
        own.list == nullptr)
      refuse("ccoll_store_functions: a function is NULL: expected all of them");
    hand_out(made, [&]() -> std::shared_ptr<ccoll::Store> {
      return std::make_shared<CallersStore>(own, context);
    });
  });
}

void ccoll_store_free(ccoll_store store) { delete store; }

ccoll_result ccoll_store_serve(const char* address, const char* token, ccoll_store_server* made) {
  return guarded([&] {
    hand_out(made, [&] { return ccoll::serve_tcp_store(text_of(address), text_of(token)); });
  });
}

ccoll_result ccoll_store_server_address(ccoll_store_server server, char* text, size_t size,
                                        size_t* needed) {
  return guarded([&] {
    write_text(given(server, "the store's server").server->address(), text, size, needed);
  });
}

void ccoll_store_server_free(ccoll_store_server server) { delete server; }
