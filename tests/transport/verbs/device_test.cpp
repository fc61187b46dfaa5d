// SPDX-License-Identifier: Apache-2.0
// Descriptions of RDMA devices and of their absence, on the in-memory device of tests/rdma.
#include "transport/verbs/device/device.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <thread>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"
#include "support/children.hpp"

using namespace ccoll;
using namespace ccoll::verbs;
namespace rdma = ccoll::testing::rdma;

namespace {

/// The output of `cc-bench info` with these variables set; resets faults.
std::string description(Settings settings = {}) {
  const auto library = Library::find();
  Result<const Devices*> devices = nullptr;
  std::optional<Devices> opened;
  if (!library) {
    devices = tl::unexpected(library.error());
  } else if (auto made = Devices::open(*library, std::move(settings)); !made) {
    devices = tl::unexpected(made.error());
  } else {
    opened.emplace(std::move(*made));
    devices = &*opened;
  }
  std::string text;
  for (const auto& line : describe(devices)) text += line + "\n";
  rdma::reset();
  rdma::set_port(IBV_PORT_ACTIVE);
  return text;
}

}  // namespace

TEST_CASE("verbs: a port that works is described by device, rate, link layer and addresses",
          "[transport][verbs]") {
  const auto text = description();
  CHECK_THAT(text, Catch::StartsWith("yes: "));
  for (const char* part : {"fake0 port 1", "100 Gbit/s", "Ethernet (RoCE)", "GID 3 127.0.0.1"})
    CHECK_THAT(text, Catch::Contains(part));
}

TEST_CASE("verbs: a library that lacks what is needed is named, with what to do",
          "[transport][verbs]") {
  for (const auto name : rdma::names()) {
    CAPTURE(name);
    rdma::lack(name);
    const auto text = description();
    // Older libraries ask the kernel about addresses, and here it knows none.
    if (name == "_ibv_query_gid_ex")
      CHECK_THAT(text, Catch::Contains("no RoCE v2 address"));
    else if (name == "ibv_resize_cq" || name == "ibv_reg_dmabuf_mr")  // not used, or not needed
      CHECK_THAT(text, Catch::StartsWith("yes: "));
    else
      CHECK_THAT(text, Catch::StartsWith("no: ") && Catch::Contains(std::string(name)) &&
                           Catch::Contains("install a newer rdma-core"));
  }
}

TEST_CASE("verbs: where there is no library, or no device, what to install is said",
          "[transport][verbs]") {
  rdma::lack("libibverbs.so.1");
  CHECK_THAT(description(), Catch::StartsWith("no: libibverbs.so.1 cannot be loaded (") &&
                                Catch::Contains("install rdma-core's libibverbs1"));
  rdma::set_present(false);
  CHECK_THAT(description(), Catch::StartsWith("no: no RDMA device: ") &&
                                Catch::Contains("is ibverbs-providers installed"));
  rdma::set_present(true);
}

TEST_CASE("verbs: a device that cannot be used says why", "[transport][verbs]") {
  struct Reason {
    rdma::Call call;
    int code;
    const char* said;
  };
  for (const auto& each :
       {Reason{rdma::Call::open_device, EACCES, "Permission denied (may this user use "},
        Reason{rdma::Call::alloc_pd, ENOMEM, "Cannot allocate memory"},
        Reason{rdma::Call::query_device, EIO, "Input/output error"},
        Reason{rdma::Call::query_port, EIO, "port 1: Input/output error"}}) {
    CAPTURE(to_string(each.call));
    rdma::fail(each.call, each.code);
    CHECK_THAT(description(),
               Catch::StartsWith("no: ") && Catch::Contains("fake0") && Catch::Contains(each.said));
  }
}

TEST_CASE("verbs: a port that is down says what to look at", "[transport][verbs]") {
  rdma::set_port(IBV_PORT_DOWN);
  CHECK_THAT(description(), Catch::StartsWith("no: none of these ports") &&
                                Catch::Contains("PORT_DOWN") && Catch::Contains("cable"));
}

TEST_CASE("verbs: nobody who forks waits for devices, nor does a child for what opens them",
          "[transport][verbs]") {
  if (!testing::kChildrenHaveMemory) return;
  // In a process that has not opened them yet.
  const pid_t fresh = fork();
  if (fresh == 0) {
    alarm(10);
    rdma::hold_opening(true);
    const auto opens = [] { return Devices::of_process().has_value(); };
    bool opened = false;
    std::thread other([&] { opened = opens(); });
    while (!rdma::is_opening()) usleep(1000);
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      const auto devices = Devices::of_process();
      const auto said = devices ? "" : devices.error().message;
      _exit(said.find("forked while its parent was opening the devices") != said.npos ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    rdma::hold_opening(false);
    other.join();
    const pid_t late = fork();
    if (late == 0) _exit(opens() ? 0 : 1);
    int late_status = -1;
    waitpid(late, &late_status, 0);
    _exit(status == 0 && opened && late_status == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(fresh, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("verbs: variables that leave nothing are named", "[transport][verbs]") {
  Settings settings;
  settings.ports = PortFilter::parse("other").value();
  CHECK_THAT(description(settings), Catch::Contains("CCOLL_IB_HCA selects none"));
  settings.ports = {};
  settings.gid_index = 2;  // of the first RoCE
  CHECK_THAT(description(settings), Catch::Contains("CCOLL_IB_GID_INDEX"));
}

TEST_CASE("verbs: who may lock too little memory is told how much, and where that is set",
          "[transport][verbs]") {
  CHECK_FALSE(complaint_of_limit(0, true));
  CHECK_FALSE(complaint_of_limit(64 << 20, false));
  CHECK_THAT(*complaint_of_limit(8 << 20, false),
             Catch::Contains("8192 KiB") && Catch::Contains("ulimit -l"));
}

TEST_CASE("verbs: a port's network interface by which no route leaves is named",
          "[transport][verbs]") {
  const std::string heading = "Iface\tDestination\tGateway\n";
  const auto complaint = complaint_of_routes("eth1", heading);
  REQUIRE(complaint);
  CHECK_THAT(*complaint,
             Catch::Contains("no route") && Catch::Contains("eth1") && Catch::Contains("ip route"));
  CHECK(complaint_of_routes("eth1", heading + "eth10\t000200C0\t00000000\n"));
  CHECK(complaint_of_routes("eth1", heading + "eth0\t000200C0\t00000000\n"));
  CHECK_FALSE(complaint_of_routes("eth1", heading + "eth0\t00\t00\neth1\t00\t00\n"));
}
