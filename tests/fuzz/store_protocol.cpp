// SPDX-License-Identifier: Apache-2.0
// Requests of the store's clients, its answers, and the records of a file store. The input is
// frames, as on a connection.
#include "core/bytes.hpp"
#include "fuzz/target.hpp"
#include "rendezvous/stores/request.hpp"
#include "rendezvous/stores/state.hpp"

namespace ccoll::rendezvous {
namespace {

void check_answer(std::string_view body) {
  const auto response = decode_response(body);
  if (!response) return;
  const auto again = decode_response(encode(response->id, response->content));
  fuzz::require(again && again->id == response->id, "an answer is read as it was written");
  fuzz::require(again->content.has_value() == response->content.has_value(), "so is its outcome");
  if (response->content)
    fuzz::require(again->content->values == response->content->values &&
                      again->content->number == response->content->number,
                  "so are its values");
}

/// Makes a request, as a store's server does. Each is answered once, or waits.
void ask(State& state, State::Ticket ticket, const Request& request) {
  int answers = 0;
  state.submit(ticket, request, [&answers](State::Ticket, const Result<Response>&) { answers++; });
  fuzz::require(answers <= 1, "no request is answered twice");
  fuzz::require((answers == 0) == state.waits(ticket), "what is not answered waits");
  if (answers == 0) state.abandon(ticket);
}

void put_request(State& state, State::Ticket ticket, std::string_view body) {
  const auto request = decode_request(body);
  if (!request) return;
  fuzz::require(encode(request->id, request->content) == body, "a request has one form");
  // The session handles cancelling.
  if (request->content.op != Op::cancel) ask(state, ticket, request->content);
}

}  // namespace
}  // namespace ccoll::rendezvous

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ccoll;
  rendezvous::State state;
  net::Reader frames(fuzz::text_of(data, size));
  for (rendezvous::State::Ticket ticket = 1; !frames.complete(); ticket++) {
    const auto body = frames.text();
    if (frames.bad()) break;
    rendezvous::put_request(state, ticket, body);
    rendezvous::check_answer(body);
  }
  return 0;
}
