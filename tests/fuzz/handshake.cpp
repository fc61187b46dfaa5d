// SPDX-License-Identifier: Apache-2.0
// The hello of every connection. A stranger at either side gets nowhere, nor does a man in the
// middle who changes the messages of two that know the token. The input selects one of the three;
// then come the stranger's bytes, or pairs of a position and a change.
#include <array>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <optional>
#include <utility>

#include "fuzz/target.hpp"
#include "net/handshake.hpp"

namespace ccoll {
namespace {

using Socket = asio::local::stream_protocol::socket;
constexpr std::chrono::seconds kPatience{5};
constexpr const char* kToken = "the job's token";

/// The number added to each byte of one side's messages, by position.
using Changes = std::array<std::uint8_t, 128>;

asio::awaitable<void> serve(Socket socket, std::optional<bool>& accepted) {
  const auto purpose = co_await net::answer(socket, kToken, kPatience);
  accepted = purpose.has_value();
}

asio::awaitable<void> call(Socket socket, std::optional<bool>& accepted) {
  const auto status = co_await net::greet(socket, kToken, net::Purpose::link, kPatience);
  accepted = status.has_value();
}

/// Forwards the bytes, changed, until either end has ended.
asio::awaitable<void> pass_on(Socket& from, Socket& to, const Changes& changes) {
  std::error_code error;
  std::array<char, 64> bytes;
  for (std::size_t at = 0; !error;) {
    const auto count = co_await from.async_read_some(
        asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
    for (std::size_t i = 0; i < count; i++, at++)
      if (at < changes.size()) bytes[i] = static_cast<char>(bytes[i] + changes[at]);
    std::error_code broken;
    if (count > 0)
      co_await asio::async_write(to, asio::buffer(bytes.data(), count),
                                 asio::redirect_error(asio::use_awaitable, broken));
    if (broken) break;
  }
  to.shutdown(Socket::shutdown_send, error);
}

/// `one` talks to a stranger who sends `bytes` and then nothing.
template <typename Side>
void meet_stranger(Side side, std::string_view bytes) {
  asio::io_context context;
  Socket mine(context), stranger(context);
  asio::local::connect_pair(mine, stranger);
  std::error_code ignored;
  stranger.non_blocking(true, ignored);
  stranger.write_some(asio::buffer(bytes), ignored);
  stranger.shutdown(Socket::shutdown_send, ignored);
  std::optional<bool> accepted;
  asio::co_spawn(context, side(std::move(mine), accepted), asio::detached);
  context.run();
  fuzz::require(accepted == false, "a stranger is refused");
}

/// Only these bytes count: hello and proof; challenge, verdict and proof.
constexpr std::size_t kClientBytes = 8 + 2 + 1 + 32 + 32;
constexpr std::size_t kServerBytes = 8 + 2 + 1 + 32 + 1 + 32;

bool any(const Changes& changes, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i++)
    if (changes[i] != 0) return true;
  return false;
}

void meet_through_a_stranger(std::string_view pairs) {
  Changes of_client{}, of_server{};
  for (; pairs.size() >= 2; pairs.remove_prefix(2)) {
    const auto place = static_cast<std::uint8_t>(pairs[0]);
    auto& changes = place < of_client.size() ? of_client : of_server;
    changes[place % of_client.size()] += static_cast<std::uint8_t>(pairs[1]);
  }
  asio::io_context context;
  Socket client(context), server(context), at_client(context), at_server(context);
  asio::local::connect_pair(client, at_client);
  asio::local::connect_pair(server, at_server);
  std::optional<bool> server_accepts, client_accepts;
  asio::co_spawn(context, serve(std::move(server), server_accepts), asio::detached);
  asio::co_spawn(context, call(std::move(client), client_accepts), asio::detached);
  asio::co_spawn(context, pass_on(at_client, at_server, of_client), asio::detached);
  asio::co_spawn(context, pass_on(at_server, at_client, of_server), asio::detached);
  context.run();
  const bool changed_client = any(of_client, kClientBytes);
  const bool changed_server = any(of_server, kServerBytes);
  // Verdict and last proof come after the server has decided.
  const bool changed_challenge = any(of_server, kServerBytes - 33);
  fuzz::require(server_accepts == !(changed_client || changed_challenge),
                "the server takes a client whose words came as they were, and no other");
  fuzz::require(client_accepts == !(changed_client || changed_server),
                "the client takes a server whose words came as they were, and no other");
}

}  // namespace
}  // namespace ccoll

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  if (size == 0) return 0;
  const auto said = fuzz::text_of(data, size).substr(1, 4096);
  switch (data[0] % 3) {
    case 0:
      meet_stranger([](auto&&... all) { return serve(std::forward<decltype(all)>(all)...); }, said);
      break;
    case 1:
      meet_stranger([](auto&&... all) { return call(std::forward<decltype(all)>(all)...); }, said);
      break;
    default:
      meet_through_a_stranger(said);
  }
  return 0;
}
