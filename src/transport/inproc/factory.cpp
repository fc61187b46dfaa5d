// SPDX-License-Identifier: Apache-2.0
#include "transport/inproc/factory.hpp"

#include "transport/inproc/link.hpp"

namespace ccoll::inproc {
namespace {

class InprocTransport final : public Transport {
 public:
  explicit InprocTransport(const TransportContext& context)
      : rank_(context.rank), table_(context.table) {}

  Result<std::unique_ptr<SendLink>> open_send(const LinkId& id,
                                              std::shared_ptr<Waiter> waiter) override {
    return std::make_unique<InprocSendLink>(id, std::move(waiter), resident(table_[id.to]));
  }
  Result<std::unique_ptr<ReceiveLink>> open_receive(const LinkId& id,
                                                    std::shared_ptr<Waiter> waiter) override {
    return std::make_unique<InprocReceiveLink>(id, std::move(waiter), resident(table_[rank_]));
  }

  void listen(std::shared_ptr<Arrivals> arrivals) override { inproc::listen(std::move(arrivals)); }
  void forget(std::uint64_t communicator) override { inproc::forget(communicator, rank_); }

 private:
  const std::uint32_t rank_;
  const std::vector<PeerAddress> table_;
};

}  // namespace

bool reaches(const PeerAddress& a, const PeerAddress& b) {
  return a.host == b.host && a.process == b.process;
}

std::shared_ptr<Transport> make(const TransportContext& context, std::shared_ptr<Transport>) {
  return std::make_shared<InprocTransport>(context);
}

}  // namespace ccoll::inproc
