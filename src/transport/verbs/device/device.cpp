// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/device.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/text.hpp"
#include "system/file_descriptor.hpp"
#include "system/locks.hpp"
#include "system/read_file.hpp"
#include "system/runtime.hpp"
#include "system/variables.hpp"

namespace ccoll::verbs {
namespace {

/// Limit of table entries to read; devices announce a thousand, nearly all empty.
constexpr int kMostGids = 128;

double lanes_of(std::uint8_t active_width) {
  switch (active_width) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

/// The rate of one lane, after its encoding.
double gbit_of(std::uint8_t active_speed) {
  switch (active_speed) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 0;
  }
}

/// The kernel's attribute of an entry in a port's address table; empty if it has none.
std::string attribute(std::string_view name, std::string_view device, unsigned port, int index) {
  const auto text = kernel_line(
      fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs/{}/{}", device, port, name, index));
  return text.value_or("");
}

/// Whether an entry is of RoCE v2. Libraries without query_gid_ex are older than this kernel file.
bool is_roce_v2(const Library& library, ibv_context* context, std::uint8_t port, int index) {
  if (library.query_gid_ex != nullptr) {
    ibv_gid_entry entry{};
    return library.query_gid_ex(context, port, static_cast<std::uint32_t>(index), &entry, 0,
                                sizeof entry) == 0 &&
           entry.gid_type == IBV_GID_TYPE_ROCE_V2;
  }
  return attribute("types", library.get_device_name(context->device), port, index) == "RoCE v2";
}

/// IPv4 becomes IPv4-mapped IPv6; `before_ipv4` fills its first ten bytes (0xff for a mask). None
/// for other families.
std::optional<GidBytes> bytes_of(const sockaddr* address, std::uint8_t before_ipv4) {
  GidBytes bytes{};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
    return bytes;
  }
  if (address->sa_family != AF_INET) return std::nullopt;
  std::fill_n(bytes.begin(), 10, before_ipv4);
  bytes[10] = bytes[11] = 0xff;
  std::memcpy(&bytes[12], &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  return bytes;
}

/// The network of `ip` among this machine's interfaces; all zero if no interface has that address.
GidBytes own_network(const GidBytes& ip) {
  const StandardStreamsTaken taken;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(found, freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if (bytes_of(each->ifa_addr, 0) != ip) continue;
    if (const auto mask = bytes_of(each->ifa_netmask, 0xff)) return network_of(ip, *mask);
  }
  return {};
}

/// The devices of one process.
struct Kept {
  explicit Kept(const Kept* of_parent)
      : forked_amid(of_parent != nullptr && (of_parent->forked_amid || of_parent->is_opening)) {}

  const pid_t process = getpid();
  /// An ancestor was opening them when it forked: its libraries' locks may be held here forever.
  const bool forked_amid;
  std::atomic<bool> is_opening = false;
  Guarded<std::optional<Result<const Devices*>>> devices;
};

struct KeptDevices {
  Kept* last = nullptr;  ///< a forked child makes its own
};

tl::unexpected<Failure> not_here() {
  return fail(ErrorKind::unsupported,
              "no RDMA device: this process was forked while its parent was opening the devices, "
              "and would wait for locks of the parent");
}

}  // namespace

Result<const Devices*> Devices::of_process() {
  // That lock ends before they are opened: fork() waits for it, and a driver may take long.
  Kept& own = *Runtime::one<Guarded<KeptDevices, ProcessMutex>>().with([](KeptDevices& kept) {
    // A forked child cannot use its parent's devices. Never closed: links may end later at exit.
    if (kept.last == nullptr || kept.last->process != getpid()) kept.last = new Kept(kept.last);
    return kept.last;
  });
  const auto devices = own.devices.lock();
  if (!*devices) {
    const struct Opening {
      std::atomic<bool>& is_opening;
      explicit Opening(std::atomic<bool>& flag) : is_opening(flag) { is_opening = true; }
      ~Opening() { is_opening = false; }
    } opening(own.is_opening);
    if (own.forked_amid)
      *devices = not_here();
    else
      *devices =
          open().map([](Devices&& made) -> const Devices* { return new Devices(std::move(made)); });
  }
  // To copy the result as a whole would end the process if there is no memory for its text.
  const auto& result = **devices;
  if (!result) return tl::unexpected(result.error());
  return *result;
}

Result<Devices> Devices::open() {
  auto settings = Settings::from_environment();
  if (!settings) return tl::unexpected(settings.error());
  const auto library = [] {
    const NoFork no_fork;  // loading is quick, and a child loads libraries, too
    return Library::load();
  }();
  if (!library) return tl::unexpected(library.error());
  return open(**library, std::move(*settings));
}

Result<Devices> Devices::open(const Library& library, Settings settings) {
  Devices devices;
  devices.settings_ = std::move(settings);
  devices.library_ = &library;
  int count = 0;
  ibv_device** const list = [&] {
    const NoFork no_fork;  // it loads drivers
    return library.get_device_list(&count);
  }();
  for (int i = 0; list != nullptr && i < count; i++) devices.add(list[i]);
  if (list != nullptr) library.free_device_list(list);
  devices.are_active_ = std::make_unique<std::atomic<bool>[]>(devices.ports_.size());
  for (std::size_t i = 0; i < devices.ports_.size(); i++)
    devices.are_active_[i] = devices.ports_[i].is_active;
  if (!devices.ports_.empty()) return devices;
  if (count == 0)
    return fail(ErrorKind::unsupported,
                "no RDMA device: libibverbs lists none (is the driver loaded, and is "
                "ibverbs-providers installed? soft-RoCE: rdma link add rxe0 type rxe netdev eth0)");
  return fail(ErrorKind::unsupported, "none of the {} RDMA devices can be used: {}", count,
              devices.refusals_.empty() ? set_as("CCOLL_IB_HCA") + " selects none of their ports"
                                        : joined(devices.refusals_));
}

void Devices::add(ibv_device* device) {
  const char* const name = library_->get_device_name(device);
  ibv_context* const context = [&] {
    const StandardStreamsTaken taken;
    return library_->open_device(device);
  }();
  if (context == nullptr) {
    refusals_.push_back(
        fmt::format("{} could not be opened: {} (may this user use "
                    "/dev/infiniband?)",
                    name, std::strerror(errno)));
    return;
  }
  ibv_device_attr attributes{};
  ibv_pd* const domain = library_->alloc_pd(context);
  // This call returns the error, and the one before sets errno.
  const int error = domain == nullptr ? errno : library_->query_device(context, &attributes);
  if (error != 0) {
    refusals_.push_back(fmt::format("{}: {}", name, std::strerror(error)));
    if (domain != nullptr) library_->dealloc_pd(domain);
    library_->close_device(context);
    return;
  }
  const auto before = ports_.size();
  for (unsigned port = 1; port <= attributes.phys_port_cnt; port++)
    if (settings_.ports.takes(name, static_cast<std::uint8_t>(port)))
      add_port(domain, name, static_cast<std::uint8_t>(port));
  if (ports_.size() > before) {
    opened_.emplace_back(new Opened{*library_, context, domain, {}});
    registrations_.resize(ports_.size(), Registrations::make(*library_, domain));
    return;
  }
  library_->dealloc_pd(domain);
  library_->close_device(context);
}

void Devices::add_port(ibv_pd* domain, const char* device, std::uint8_t number) {
  ibv_port_attr attributes{};
  const int error = library_->query_port(domain->context, number,
                                         reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
  if (error != 0) {
    refusals_.push_back(fmt::format("{} port {}: {}", device, number, std::strerror(error)));
    return;
  }
  Port port{.device = device,
            .number = number,
            .state = library_->port_state_str(attributes.state),
            .is_active = attributes.state == IBV_PORT_ACTIVE,
            .layer = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::ethernet
                     : attributes.link_layer == IBV_LINK_LAYER_INFINIBAND ||
                             attributes.link_layer == IBV_LINK_LAYER_UNSPECIFIED
                         ? LinkLayer::infiniband
                         : LinkLayer::other,
            .gbit_per_s = lanes_of(attributes.active_width) * gbit_of(attributes.active_speed),
            .lid = attributes.lid,
            .mtu = static_cast<std::uint8_t>(attributes.active_mtu),
            .gids = {}};
  const auto wanted = settings_.gid_index;
  for (int index = 0; index < std::min(attributes.gid_tbl_len, kMostGids); index++) {
    union ibv_gid gid {};
    if (wanted && *wanted != index) continue;
    if (library_->query_gid(domain->context, number, index, &gid) != 0) continue;
    GidBytes bytes;
    std::ranges::copy(gid.raw, bytes.begin());
    if (bytes == GidBytes{}) continue;
    port.gids.push_back(
        {index, bytes, is_roce_v2(*library_, domain->context, number, index),
         port.layer == LinkLayer::ethernet ? own_network(bytes) : subnet_of(bytes)});
  }
  ports_.push_back(std::move(port));
  domains_.push_back(domain);
}

Alarms& Devices::alarms_of(std::size_t port) const {
  const auto is_its = [&](const auto& each) { return each->context == domains_[port]->context; };
  return (*std::ranges::find_if(opened_, is_its))->alarms;
}

bool Devices::is_down_now(std::size_t port) const {
  ibv_port_attr attributes{};
  const auto asked = library_->query_port(domains_[port]->context, ports_[port].number,
                                          reinterpret_cast<_compat_ibv_port_attr*>(&attributes));
  return is_down(port) || (asked == 0 && attributes.state != IBV_PORT_ACTIVE);
}

std::vector<Port> Devices::ports_now() const {
  auto ports = ports_;
  for (std::size_t i = 0; i < ports.size(); i++) ports[i].is_active = !is_down(i);
  return ports;
}

void Devices::set_down(const Opened& device, std::optional<int> number, bool down) const {
  for (std::size_t i = 0; i < ports_.size(); i++)
    if (domains_[i]->context == device.context &&
        ports_[i].number == number.value_or(ports_[i].number))
      are_active_[i] = !down;
}

std::uint8_t Devices::fabrics() const {
  std::uint8_t all = 0;
  for (const Port& port : ports_) all |= fabrics_of(port);
  return all;
}

std::uint8_t Devices::rails() const {
  const auto all = fabrics();
  return all == 0 ? 0 : static_cast<std::uint8_t>(rails_in(ports_, best_of(all)).size());
}

namespace {

/// The reason why IPv4 routes do not lead to other hosts, as far as the kernel knows.
std::optional<std::string> complaint_of_routes(const Port& port) {
  constexpr auto kIpv4 = static_cast<std::uint8_t>(Fabric::roce_ipv4);
  if ((fabrics_of(port) & kIpv4) == 0) return std::nullopt;
  const auto routes = kernel_text("/proc/net/route").value_or("");
  std::optional<std::string> complaint;
  for (const Gid& gid : port.gids) {
    const auto interface = attribute("ndevs", port.device, port.number, gid.index);
    if (interface.empty() || routes.empty()) continue;
    complaint = verbs::complaint_of_routes(interface, routes);
    if (!complaint) break;
  }
  return complaint;
}

std::string text_of(const Port& port) {
  std::string text = fmt::format("{} port {}: {}, {:g} Gbit/s, {}", port.device, port.number,
                                 port.state, port.gbit_per_s,
                                 port.layer == LinkLayer::infiniband ? "InfiniBand"
                                 : port.layer == LinkLayer::ethernet ? "Ethernet (RoCE)"
                                                                     : "of another link layer");
  for (const Gid& gid : port.gids)
    text += fmt::format(", GID {} {}", gid.index, verbs::text_of(gid.bytes));
  if (!port.is_active)
    return text + "; it is not used (is its cable plugged in, and is its link up?)";
  if (fabrics_of(port) == 0)
    text +=
        "; it is not used, as it has no RoCE v2 address (check the IP address of its network "
        "interface, and CCOLL_IB_GID_INDEX)";
  if (const auto complaint = complaint_of_routes(port)) text += "; " + *complaint;
  return text;
}

std::vector<std::string> rail_names(const Devices& devices) {
  const auto ports = devices.ports_now();
  std::vector<std::string> names;
  for (const auto& rail : rails_in(ports, best_of(devices.fabrics())))
    names.push_back(fmt::format("{} port {}", ports[rail.port].device, ports[rail.port].number));
  return names;
}

}  // namespace

std::optional<std::string> complaint_of_limit(std::uint64_t most_bytes, bool is_privileged) {
  // Enough for 32 links.
  constexpr std::uint64_t kEnough = 64U << 20;
  if (is_privileged || most_bytes >= kEnough) return std::nullopt;
  return fmt::format(
      "only {} KiB of memory may be locked for devices, and a link takes 1024 KiB at each end: "
      "raise ulimit -l (memlock in /etc/security/limits.conf, LimitMEMLOCK of a systemd unit)",
      most_bytes >> 10);
}

std::optional<std::string> complaint_of_routes(std::string_view interface,
                                               std::string_view routes) {
  // After the heading, each line begins with an interface's name.
  if (routes.find(fmt::format("\n{}\t", interface)) != routes.npos) return std::nullopt;
  return fmt::format(
      "no route leaves by its network interface {}: ranks on other hosts cannot be reached (see "
      "'ip route'; is its address a /32, without a network?)",
      interface);
}

std::vector<std::string> describe(const Result<const Devices*>& devices) {
  if (!devices) return {"no: " + devices.error().message};
  std::vector<std::string> lines{(*devices)->fabrics() != 0
                                     ? "yes: ranks on hosts with RDMA devices"
                                     : "no: none of these ports can be used"};
  if (const auto rails = rail_names(**devices); rails.size() > 1)
    lines.front() += fmt::format("; lanes are spread over {}", joined(rails));
  for (const Port& port : (*devices)->ports_now()) lines.push_back(text_of(port));
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
    if (auto complaint = complaint_of_limit(locked.rlim_cur, geteuid() == 0))
      lines.push_back(std::move(*complaint));
  return lines;
}

}  // namespace ccoll::verbs
