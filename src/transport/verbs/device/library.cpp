// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include "system/file_descriptor.hpp"

namespace ccoll::verbs {
namespace {

constexpr const char* kName = "libibverbs.so.1";
/// Where the kernel lists RDMA devices: a cheap check on machines that have none.
constexpr const char* kSysfs = "/sys/class/infiniband";

}  // namespace

Result<Library> Library::find() {
  if (access(kSysfs, F_OK) != 0)
    return fail(ErrorKind::unsupported,
                "the kernel has no RDMA devices: there is no {} (is the card's driver loaded? "
                "soft-RoCE: rdma link add rxe0 type rxe netdev eth0)",
                kSysfs);
  const StandardStreamsTaken taken;
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return fail(ErrorKind::unsupported,
                "{} cannot be loaded ({}): install rdma-core's libibverbs1 and ibverbs-providers",
                kName, dlerror());
  Library library{};
  const char* missing = nullptr;
  const auto look = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(handle, name));
    return entry != nullptr;
  };
  const auto find = [&](auto& entry, const char* name) {
    if (!look(entry, name)) missing = name;
  };
  find(library.get_device_list, "ibv_get_device_list");
  find(library.free_device_list, "ibv_free_device_list");
  find(library.get_device_name, "ibv_get_device_name");
  find(library.open_device, "ibv_open_device");
  find(library.close_device, "ibv_close_device");
  find(library.query_device, "ibv_query_device");
  find(library.query_port, "ibv_query_port");
  find(library.query_gid, "ibv_query_gid");
  find(library.port_state_str, "ibv_port_state_str");
  find(library.alloc_pd, "ibv_alloc_pd");
  find(library.dealloc_pd, "ibv_dealloc_pd");
  find(library.reg_mr, "ibv_reg_mr");
  find(library.dereg_mr, "ibv_dereg_mr");
  find(library.create_comp_channel, "ibv_create_comp_channel");
  find(library.destroy_comp_channel, "ibv_destroy_comp_channel");
  find(library.create_cq, "ibv_create_cq");
  find(library.destroy_cq, "ibv_destroy_cq");
  find(library.get_cq_event, "ibv_get_cq_event");
  find(library.ack_cq_events, "ibv_ack_cq_events");
  find(library.create_qp, "ibv_create_qp");
  find(library.modify_qp, "ibv_modify_qp");
  find(library.destroy_qp, "ibv_destroy_qp");
  find(library.get_async_event, "ibv_get_async_event");
  find(library.ack_async_event, "ibv_ack_async_event");
  if (missing != nullptr)
    return fail(ErrorKind::unsupported, "{} lacks {}: it is too old; install a newer rdma-core",
                kName, missing);
  look(library.query_gid_ex, "_ibv_query_gid_ex");
  look(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
  return library;
}

Result<const Library*> Library::load() {
  static const Result<Library> library = find();
  if (!library) return tl::unexpected(library.error());
  return &*library;
}

}  // namespace ccoll::verbs
