// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/stores/backend.hpp"
#include "rendezvous/stores/state.hpp"

namespace ccoll {
namespace rendezvous {
namespace {

class InprocBackend final : public Backend {
 public:
  Result<Response> call(Request request, std::chrono::milliseconds timeout) override {
    const auto deadline = deadline_after(timeout);
    const auto slot = std::make_shared<Slot>();
    State::Ticket ticket = 0;
    {
      const auto shared = shared_.lock();
      ticket = ++shared->last_ticket;
      shared->state.submit(
          ticket, std::move(request),
          [slot](State::Ticket, Result<Response> response) { slot->fill(std::move(response)); });
    }
    auto answer = slot->wait_patiently(deadline);
    const bool is_ended = answer && !*answer && answer->error().kind == ErrorKind::aborted;
    if (!answer || is_ended) {
      // Either it still waits and is answered here, or it has just been answered.
      shared_.lock()->state.cancel(ticket);
    }
    if (answer) return std::move(*answer);
    auto response = *slot->wait_until(deadline);
    if (!response && response.error().kind == ErrorKind::timed_out) {
      response.error().message += fmt::format(" after {}", seconds(timeout));
    }
    return response;
  }

 private:
  struct Shared {
    State state;
    State::Ticket last_ticket = 0;
  };
  Guarded<Shared> shared_;
};

}  // namespace
}  // namespace rendezvous

std::shared_ptr<Store> make_inproc_store() {
  return rendezvous::make_store(std::make_unique<rendezvous::InprocBackend>());
}

}  // namespace ccoll
