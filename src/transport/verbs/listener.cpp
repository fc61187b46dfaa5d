// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/listener.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <list>

#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "system/log.hpp"
#include "system/runtime.hpp"
#include "transport/verbs/events.hpp"

namespace ccoll::verbs {
namespace {

class Watch final : public Listener, public std::enable_shared_from_this<Watch> {
 public:
  Watch(std::shared_ptr<net::Service> service, const Devices& devices)
      : service_(std::move(service)), devices_(devices) {}
  ~Watch() override {
    // In a forked child, leak them: closing would remove them from the parent's epoll set.
    if (service_->is_forked()) (void)new auto(std::move(watched_));
  }

  const std::shared_ptr<net::Service>& service() const { return service_; }

  /// On the service thread.
  void begin() {
    for (const auto& device : devices_.opened()) {
      ibv_context* const context = device->context;
      // A duplicate: asio closes this descriptor, and libibverbs its own.
      FileDescriptor own(fcntl(context->async_fd, F_DUPFD_CLOEXEC, 0));
      if (!own.open()) {
        log().warn("RDMA: the events of a device cannot be received: {}", std::strerror(errno));
        continue;
      }
      fcntl(own.number(), F_SETFL, fcntl(own.number(), F_GETFL) | O_NONBLOCK);
      auto& watched = watched_.emplace_back(*device, service_->context());
      watched.descriptor.assign(own.release());
      wait(watched);
    }
  }

 private:
  struct Watched {
    Watched(Devices::Opened& of, asio::io_context& where) : device(of), descriptor(where) {}
    Devices::Opened& device;
    asio::posix::stream_descriptor descriptor;
  };

  void wait(Watched& watched) {
    watched.descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                  [weak = weak_from_this(), &watched](const std::error_code& code) {
                                    const auto self = code ? nullptr : weak.lock();
                                    if (!self) return;
                                    self->hear(watched);
                                    self->wait(watched);
                                  });
  }

  void hear(const Watched& watched) {
    const auto& library = devices_.library();
    ibv_async_event event{};
    while (library.get_async_event(watched.device.context, &event) == 0) {
      pass_on(event, watched.device);
      // Not before: the acknowledgement lets its queue pair be destroyed.
      library.ack_async_event(&event);
    }
  }

  void pass_on(const ibv_async_event& event, Devices::Opened& device) {
    const auto type = event.event_type;
    std::string where = devices_.library().get_device_name(device.context->device);
    switch (concern_of(type)) {
      case Concern::pair:
        if (failure_of(type, Path()))
          static_cast<Alarm*>(event.element.qp->qp_context)->raise(type);
        break;
      case Concern::queue:
        static_cast<Alarm*>(event.element.cq->cq_context)->raise(type);
        break;
      case Concern::port:
        where += fmt::format(" port {}", event.element.port_num);
        if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE)
          devices_.set_down(device, event.element.port_num, type == IBV_EVENT_PORT_ERR);
        break;
      case Concern::device:
        devices_.set_down(device, std::nullopt, true);
        device.alarms.raise(type);
        break;
      case Concern::none:
        break;
    }
    if (const auto remark = remark_of(type, where)) log().at(remark->level, "{}", remark->text);
  }

  const std::shared_ptr<net::Service> service_;
  const Devices& devices_;
  std::list<Watched> watched_;  // the service thread's
};

struct Watching {
  std::weak_ptr<Watch> watch;
};

}  // namespace

std::shared_ptr<Listener> Listener::of_process(const std::shared_ptr<net::Service>& service,
                                               const Devices& devices) {
  const auto watching = Runtime::one<Guarded<Watching, ProcessMutex>>().lock();
  auto made = watching->watch.lock();
  if (made && made->service() == service) return made;
  watching->watch = made = std::make_shared<Watch>(service, devices);
  asio::post(service->context(), [weak = std::weak_ptr(made)] {
    if (const auto self = weak.lock()) self->begin();
  });
  return made;
}

}  // namespace ccoll::verbs
