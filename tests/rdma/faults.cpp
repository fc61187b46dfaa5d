// SPDX-License-Identifier: Apache-2.0
#include "rdma/faults.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "rdma/device.hpp"

namespace ccoll::testing::rdma {
namespace {

enum class Kill : std::uint8_t { no, at_once, memory_first };

struct Failing {
  int code = 0;
  std::uint64_t from = 0, until = 0;  ///< in calls since the start of the process
  Kill kill = Kill::no;
};

enum class Change : std::uint8_t { status, lost, repeated };
struct Changing {
  Change change = Change::status;
  Of of = Of::sends;
  std::uint64_t left = 0;
  ibv_wc_status status = IBV_WC_SUCCESS;
};

struct Flip {
  std::uint64_t bit = 0, left = 0;
  std::uint32_t least = 0;
};

struct Plan {
  std::array<Failing, kCalls> failing{};
  std::vector<Changing> changing;
  std::optional<std::mt19937_64> mixing;
  std::optional<Flip> flip;
  std::optional<std::uint32_t> most_inline;
};

std::mutex mutex;
Plan plan;                                   // guarded by mutex
std::set<std::string, std::less<>> lacking;  // guarded by mutex
std::array<std::uint64_t, kCalls> called{};  // guarded by mutex
std::map<std::uint32_t, ibv_qp*> pairs;      // guarded by mutex; by number
std::set<ibv_mr*> registered;                // guarded by mutex
int (*deregister)(ibv_mr*) = nullptr;

/// Meanwhile this end's device refuses writes to it.
constexpr std::chrono::milliseconds kWithoutMemory{5};

/// The caller holds the mutex.
[[noreturn]] void die(Kill kill) {
  if (kill == Kill::memory_first) {
    for (ibv_mr* const memory : registered) deregister(memory);
    std::this_thread::sleep_for(kWithoutMemory);
  }
  raise(SIGKILL);
  std::abort();
}

/// Counts a call; returns the errno with which it must fail, or 0.
int count(Call call) {
  const std::lock_guard lock(mutex);
  const auto number = ++called[static_cast<std::size_t>(call)];
  const Failing& failing = plan.failing[static_cast<std::size_t>(call)];
  if (number < failing.from || number >= failing.until) return 0;
  if (failing.kill != Kill::no) die(failing.kill);
  return failing.code;
}

/// Called instead of a function: raises the fault or calls the function.
template <Call kCall, typename Function>
struct Between;
template <Call kCall, typename Result, typename... Arguments>
struct Between<kCall, Result (*)(Arguments...)> {
  static inline Result (*real)(Arguments...) = nullptr;
  static Result call(Arguments... arguments) {
    const int code = count(kCall);
    if (code == 0) return real(arguments...);
    // Calls that return an error leave errno as it is.
    if constexpr (std::is_pointer_v<Result>) {
      errno = code;
      return nullptr;
    } else {
      return kCall == Call::poll_cq ? -1 : code;
    }
  }
};

template <Call kCall, typename Function>
void* put(void* real) {
  Between<kCall, Function>::real = reinterpret_cast<Function>(real);
  return reinterpret_cast<void*>(&Between<kCall, Function>::call);
}

using Create = Between<Call::create_qp, decltype(&::ibv_create_qp)>;
using Destroy = Between<Call::destroy_qp, decltype(&::ibv_destroy_qp)>;
using Modify = Between<Call::modify_qp, decltype(&::ibv_modify_qp)>;
using Register = Between<Call::reg_mr, decltype(&::ibv_reg_mr)>;
using RegisterExported =
    Between<Call::reg_dmabuf_mr,
            ibv_mr* (*)(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int)>;
using Open = Between<Call::open_device, decltype(&::ibv_open_device)>;
using PostSend = Between<Call::post_send, decltype(ibv_context_ops::post_send)>;
using PostReceive = Between<Call::post_recv, decltype(ibv_context_ops::post_recv)>;
using Poll = Between<Call::poll_cq, decltype(ibv_context_ops::poll_cq)>;
using Arm = Between<Call::req_notify_cq, decltype(ibv_context_ops::req_notify_cq)>;

ibv_qp* create_qp(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  {
    const std::lock_guard lock(mutex);
    if (plan.most_inline && attributes->cap.max_inline_data > *plan.most_inline) {
      errno = EINVAL;
      return nullptr;
    }
  }
  ibv_qp* const made = Create::call(domain, attributes);
  const std::lock_guard lock(mutex);
  if (made != nullptr) pairs[made->qp_num] = made;
  return made;
}

int destroy_qp(ibv_qp* pair) {
  {
    const std::lock_guard lock(mutex);
    pairs.erase(pair->qp_num);
  }
  return Destroy::call(pair);
}

ibv_mr* register_memory(ibv_pd* domain, void* begin, std::size_t bytes, int access) {
  ibv_mr* const made = Register::call(domain, begin, bytes, access);
  const std::lock_guard lock(mutex);
  if (made != nullptr) registered.insert(made);
  return made;
}

ibv_mr* register_exported(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                          std::uint64_t address, int file, int access) {
  ibv_mr* const made = RegisterExported::call(domain, offset, bytes, address, file, access);
  const std::lock_guard lock(mutex);
  if (made != nullptr) registered.insert(made);
  return made;
}

int deregister_memory(ibv_mr* memory) {
  {
    const std::lock_guard lock(mutex);
    registered.erase(memory);
  }
  return deregister(memory);
}

int post_send(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** bad) {
  std::byte* byte = nullptr;
  std::byte mask{};
  {
    const std::lock_guard lock(mutex);
    auto& flip = plan.flip;
    if (flip && request->num_sge > 0 && request->sg_list->length >= flip->least &&
        --flip->left == 0) {
      const auto bit = flip->bit % (std::uint64_t{8} * request->sg_list->length);
      byte = reinterpret_cast<std::byte*>(request->sg_list->addr) + bit / 8;
      mask = static_cast<std::byte>(1 << bit % 8);
      flip.reset();
    }
  }
  if (byte != nullptr) *byte ^= mask;
  return PostSend::call(pair, request, bad);
}

/// Whether the completion is of a send; if it failed, only its status is valid.
Of kind_of(const ibv_wc& completion) {
  return (completion.opcode & IBV_WC_RECV) != 0 ? Of::receives : Of::sends;
}

/// Applies the planned faults; returns how often to deliver it. The caller holds the mutex.
int befall(ibv_wc& completion, ibv_qp*& broken) {
  if (completion.status != IBV_WC_SUCCESS) return 1;
  int copies = 1;
  for (auto& each : plan.changing) {
    if (each.left == 0 || each.of != kind_of(completion) || --each.left > 0) continue;
    if (each.change == Change::lost) return 0;
    if (each.change == Change::repeated) copies = 2;
    if (each.change != Change::status) continue;
    completion.status = each.status;
    completion.vendor_err = 0x5a;
    // As on a device, later work is flushed.
    if (const auto found = pairs.find(completion.qp_num); found != pairs.end())
      broken = found->second;
  }
  return copies;
}

/// Interleaves them at random; each kind keeps its order.
void mix(std::vector<ibv_wc>& all, std::mt19937_64& random) {
  if (std::ranges::any_of(all, [](const auto& each) { return each.status != IBV_WC_SUCCESS; }))
    return;
  std::vector<ibv_wc> of_sends, of_receives, mixed;
  for (const auto& each : all)
    (kind_of(each) == Of::sends ? of_sends : of_receives).push_back(each);
  auto send = of_sends.begin();
  auto receive = of_receives.begin();
  while (send != of_sends.end() || receive != of_receives.end()) {
    const bool takes_send =
        receive == of_receives.end() || (send != of_sends.end() && random() % 2 == 0);
    mixed.push_back(takes_send ? *send++ : *receive++);
  }
  all = std::move(mixed);
}

int poll_cq(ibv_cq* queue, int most, ibv_wc* places) {
  std::vector<ibv_wc> all;
  ibv_qp* broken = nullptr;
  int asked = std::max(1, most - 1);  // one may be delivered twice
  {
    const std::lock_guard lock(mutex);
    if (plan.mixing) asked = 1 + static_cast<int>((*plan.mixing)() % static_cast<unsigned>(asked));
  }
  const int count = Poll::call(queue, asked, places);
  if (count <= 0) return count;
  const std::lock_guard lock(mutex);
  for (int i = 0; i < count; i++)
    for (int copies = befall(places[i], broken); copies > 0; copies--) all.push_back(places[i]);
  if (plan.mixing) mix(all, *plan.mixing);
  all.resize(std::min(all.size(), static_cast<std::size_t>(most)));
  std::ranges::copy(all, places);
  if (broken != nullptr) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    Modify::real(broken, &attributes, IBV_QP_STATE);
  }
  return static_cast<int>(all.size());
}

ibv_context* open_device(ibv_device* device) {
  ibv_context* const context = Open::call(device);
  if (context == nullptr) return nullptr;
  PostSend::real = std::exchange(context->ops.post_send, post_send);
  PostReceive::real = std::exchange(context->ops.post_recv, PostReceive::call);
  Poll::real = std::exchange(context->ops.poll_cq, poll_cq);
  Arm::real = std::exchange(context->ops.req_notify_cq, Arm::call);
  return context;
}

constexpr std::array<std::string_view, kCalls> kNames = {
    "open_device",         "alloc_pd",  "query_device", "query_port", "reg_mr",     "reg_dmabuf_mr",
    "create_comp_channel", "create_cq", "create_qp",    "modify_qp",  "destroy_qp", "post_send",
    "post_recv",           "poll_cq",   "req_notify_cq"};

void set(Call call, Failing failing) {
  const std::lock_guard lock(mutex);
  const auto now = called[static_cast<std::size_t>(call)];
  failing.from += now;
  failing.until += now;
  plan.failing[static_cast<std::size_t>(call)] = failing;
}

void change(Changing changing) {
  const std::lock_guard lock(mutex);
  plan.changing.push_back(changing);
}

}  // namespace

std::string_view to_string(Call call) { return kNames[static_cast<std::size_t>(call)]; }

void fail(Call call, int code, std::uint64_t number, std::uint64_t times) {
  set(call, {code, number, number + times, Kill::no});
}

void complete_with(ibv_wc_status status, Of of, std::uint64_t number) {
  change({Change::status, of, number, status});
}
void lose_completion(Of of, std::uint64_t number) { change({Change::lost, of, number}); }
void repeat_completion(Of of, std::uint64_t number) { change({Change::repeated, of, number}); }
bool have_befallen() {
  const std::lock_guard lock(mutex);
  return std::ranges::all_of(plan.changing, [](const auto& each) { return each.left == 0; });
}
void mix_completions(std::uint64_t seed) {
  const std::lock_guard lock(mutex);
  plan.mixing.emplace(seed);
}

void flip(std::uint64_t bit, std::uint64_t number, std::uint32_t least) {
  const std::lock_guard lock(mutex);
  plan.flip = {bit, number, least};
}

void grant_inline(std::uint32_t bytes) {
  const std::lock_guard lock(mutex);
  plan.most_inline = bytes;
}

void lack(std::string_view name) {
  const std::lock_guard lock(mutex);
  lacking.emplace(name);
}

bool lacks(std::string_view name) {
  const std::lock_guard lock(mutex);
  return lacking.contains(name);
}

void reset() {
  const std::lock_guard lock(mutex);
  plan = {};
  lacking.clear();
}

std::uint64_t times_called(Call call) {
  const std::lock_guard lock(mutex);
  return called[static_cast<std::size_t>(call)];
}

void* between(std::string_view name, void* function) {
  if (function == nullptr || lacks(name)) return nullptr;
  if (name == "ibv_open_device")
    return put<Call::open_device, decltype(&::ibv_open_device)>(function),
           reinterpret_cast<void*>(open_device);
  if (name == "ibv_create_qp")
    return put<Call::create_qp, decltype(&::ibv_create_qp)>(function),
           reinterpret_cast<void*>(create_qp);
  if (name == "ibv_destroy_qp")
    return put<Call::destroy_qp, decltype(&::ibv_destroy_qp)>(function),
           reinterpret_cast<void*>(destroy_qp);
  if (name == "ibv_alloc_pd") return put<Call::alloc_pd, decltype(&::ibv_alloc_pd)>(function);
  if (name == "ibv_query_device")
    return put<Call::query_device, decltype(&::ibv_query_device)>(function);
  if (name == "ibv_query_port") return put<Call::query_port, decltype(&::ibv_query_port)>(function);
  if (name == "ibv_reg_mr")
    return put<Call::reg_mr, decltype(&::ibv_reg_mr)>(function),
           reinterpret_cast<void*>(register_memory);
  if (name == "ibv_reg_dmabuf_mr") {
    RegisterExported::real = reinterpret_cast<decltype(RegisterExported::real)>(function);
    return reinterpret_cast<void*>(register_exported);
  }
  if (name == "ibv_dereg_mr") {
    deregister = reinterpret_cast<decltype(deregister)>(function);
    return reinterpret_cast<void*>(deregister_memory);
  }
  if (name == "ibv_create_comp_channel")
    return put<Call::create_comp_channel, decltype(&::ibv_create_comp_channel)>(function);
  if (name == "ibv_create_cq") return put<Call::create_cq, decltype(&::ibv_create_cq)>(function);
  if (name == "ibv_modify_qp") return put<Call::modify_qp, decltype(&::ibv_modify_qp)>(function);
  return function;
}

void arm(const std::string& text) {
  const auto wrong = [&] { throw std::runtime_error("CCOLL_TEST_RDMA: what is '" + text + "'?"); };
  if (text.starts_with("mix:")) return mix_completions(std::stoull(text.substr(4)));
  if (text.starts_with("ports:"))
    return set_ports(static_cast<std::uint8_t>(std::stoul(text.substr(6))));
  const auto at = text.find('@'), colon = text.find(':');
  const auto how = text.substr(0, at);
  if (colon == text.npos || (how != "kill" && how != "kill-memory-first")) wrong();
  const auto* const found = std::ranges::find(kNames, text.substr(at + 1, colon - at - 1));
  if (found == kNames.end()) wrong();
  const auto number = std::stoull(text.substr(colon + 1));
  set(static_cast<Call>(found - kNames.begin()),
      {0, number, number + 1, how == "kill" ? Kill::at_once : Kill::memory_first});
}

}  // namespace ccoll::testing::rdma
