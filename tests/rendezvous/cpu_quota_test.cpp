// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/cpu_quota.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/directory.hpp"

namespace ccoll {
namespace {

/// Simulated contents of /proc and the mounted hierarchies.
class Machine {
 public:
  Machine(const std::string& groups, const std::string& mounts) {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo", mounts);
  }

  /// Sets a version-1 group's quota and period in microseconds; a quota of -1 means none.
  Machine& v1(const std::string& directory, int quota, int period = 100000) {
    write(directory + "/cpu.cfs_quota_us", std::to_string(quota) + "\n");
    write(directory + "/cpu.cfs_period_us", std::to_string(period) + "\n");
    return *this;
  }
  Machine& v2(const std::string& directory, const std::string& most) {
    write(directory + "/cpu.max", most + "\n");
    return *this;
  }
  double quota() const { return quota_cores(directory_.path()); }

 private:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(directory_.file(file)).parent_path());
    directory_.write(file, text);
  }

  testing::Directory directory_;
};

constexpr auto kCpuMount =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:8 - cgroup cgroup "
    "rw,cpu,cpuacct\n";
constexpr auto kUnifiedMount = "35 24 0:30 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n";

}  // namespace

TEST_CASE("cpu quota: version 1 counts as version 2 does, the least of all groups above",
          "[rendezvous][unit]") {
  const auto* const groups = "5:cpuset:/other\n4:cpu,cpuacct:/job/step\n0::/\n";
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct";
  CHECK(Machine(groups, kCpuMount).v1(cpu + "/job/step", 150000).quota() == 1.5);
  CHECK(Machine(groups, kCpuMount).v1(cpu + "/job", 50000).v1(cpu + "/job/step", -1).quota() ==
        0.5);
  CHECK(Machine(groups, kCpuMount).v1(cpu + "/job/step", 40000, 20000).v1(cpu, 100000).quota() ==
        1);
  CHECK(Machine(groups, kCpuMount).v1(cpu + "/job/step", -1).quota() == HUGE_VAL);
  // A neighbour's quota does not matter.
  CHECK(Machine(groups, kCpuMount).v1(cpu + "/job/step2", 50000).quota() == HUGE_VAL);
}

TEST_CASE("cpu quota: version 2, the least of all groups above", "[rendezvous][unit]") {
  const auto* const groups = "0::/user.slice/job\n";
  const std::string user = "sys/fs/cgroup/user.slice";
  CHECK(Machine(groups, kUnifiedMount).v2(user + "/job", "max 100000").quota() == HUGE_VAL);
  CHECK(Machine(groups, kUnifiedMount)
            .v2(user, "250000 100000")
            .v2(user + "/job", "max 100000")
            .quota() == 2.5);
}

TEST_CASE("cpu quota: hybrid hierarchies, whichever has the controller", "[rendezvous][unit]") {
  const auto* const groups = "3:cpu:/job\n0::/job\n";
  const auto mounts = std::string(kCpuMount) +
                      "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
  CHECK(Machine(groups, mounts).v1("sys/fs/cgroup/cpu,cpuacct/job", 300000).quota() == 3);
  CHECK(Machine(groups, mounts).v2("sys/fs/cgroup/unified/job", "50000 100000").quota() == 0.5);
}

TEST_CASE("cpu quota: a container sees its own group at the mount's root", "[rendezvous][unit]") {
  const auto* const groups = "4:cpu:/docker/abc/inner\n";
  const auto* const mounts =
      "33 31 0:30 /docker/abc /a\\040place ro - cgroup cgroup rw,cpu\n"
      "34 31 0:30 /docker/abcd /other ro - cgroup cgroup rw,cpu\n";
  CHECK(Machine(groups, mounts).v1("a place/inner", 50000).v1("a place", 200000).quota() == 0.5);
  CHECK(Machine(groups, mounts).v1("a place", 200000).v1("other", 50000).quota() == 2);
}

TEST_CASE("cpu quota: nothing known is no limit", "[rendezvous][unit]") {
  CHECK(Machine("", "").quota() == HUGE_VAL);
  CHECK(Machine("nonsense\n0:\n4:cpu:\n", "nonsense\n - \n1 2 3 - cgroup\n").quota() == HUGE_VAL);
}

TEST_CASE("cpu quota: the kernel's own of version 1", "[rendezvous][unit]") {
  const std::filesystem::path group = "/sys/fs/cgroup/cpu/ccoll-quota-" + std::to_string(getpid());
  std::error_code refused;
  if (!std::filesystem::create_directory(group, refused)) {
    WARN("skipped: no group of the cpu controller can be made below /sys/fs/cgroup/cpu");
    return;
  }
  std::ofstream(group / "cpu.cfs_period_us") << 100000;
  std::ofstream(group / "cpu.cfs_quota_us") << 50000;
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(group / "cgroup.procs") << getpid();
    _exit(quota_cores() == 0.5 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  std::filesystem::remove(group, refused);
}

}  // namespace ccoll
