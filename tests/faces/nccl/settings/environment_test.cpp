// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/settings/environment.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "net/interface.hpp"
#include "net/listener.hpp"
#include "system/variables.hpp"

namespace ccoll::nccl {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;

/// The translation of one variable alone.
Seen seen(const std::string& name, const std::string& value) {
  const auto read = translated({{name, value}});
  REQUIRE(read.seen.size() == 1);
  return read.seen.front();
}

Variables fallbacks(const std::string& name, const std::string& value) {
  return translated({{name, value}}).fallbacks;
}

}  // namespace

TEST_CASE("nccl environment: what has a counterpart sets it", "[faces][unit]") {
  using Row = std::tuple<std::string, std::string, std::string, std::string>;
  const Row rows[] = {
      {"NCCL_DEBUG", "INFO", "CCOLL_LOG", "info"},
      {"NCCL_DEBUG", "TRACE", "CCOLL_LOG", "trace"},
      {"NCCL_DEBUG", "ABORT", "CCOLL_LOG", "info"},
      {"NCCL_DEBUG_FILE", "/tmp/%h.%p", "CCOLL_LOG_FILE", "/tmp/%h.%p"},
      {"NCCL_SOCKET_IFNAME", "^docker", "CCOLL_SOCKET_IFNAME", "^docker"},
      {"NCCL_HOSTID", "a", "CCOLL_HOST_ID", "a"},
      {"NCCL_P2P_DISABLE", "1", "CCOLL_DEVICE_WAY", "host"},
      {"NCCL_P2P_LEVEL", "LOC", "CCOLL_DEVICE_WAY", "host"},
      {"NCCL_NET_GDR_LEVEL", "LOC", "CCOLL_GPU_DIRECT", "0"},
      {"NCCL_IB_HCA", "mlx5", "CCOLL_IB_HCA", "mlx5"},
      {"NCCL_IB_HCA", "^=mlx5_0:1,,mlx5_1,", "CCOLL_IB_HCA", "^=mlx5_0:1,mlx5_1"},
      {"NCCL_IB_TC", "106", "CCOLL_IB_TC", "106"},
      {"NCCL_IB_TC", "0x6a", "CCOLL_IB_TC", "106"},
      {"NCCL_ALGO", "Ring", "CCOLL_ALGO", "ring"},
      {"NCCL_ALGO", "Tree", "CCOLL_ALGO", "double_tree"},
      {"NCCL_MAX_CTAS", "16", "CCOLL_DEVICE_BLOCKS", "16"},
      {"NCCL_MAX_NCHANNELS", "8", "CCOLL_DEVICE_BLOCKS", "8"},
      {"NCCL_MAX_CTAS", "1000000", "CCOLL_DEVICE_BLOCKS", "65536"},
      {"NCCL_CTA_POLICY", "ZERO", "CCOLL_DEVICE_COPIES", "always"},
      {"NCCL_CTA_POLICY", "Efficiency|Zero", "CCOLL_DEVICE_COPIES", "always"},
  };
  for (const auto& [name, value, own, own_value] : rows) {
    CAPTURE(name, value);
    CHECK(fallbacks(name, value) == Variables{{own, own_value}});
    CHECK(seen(name, value).fate == Fate::used);
    // It is a variable that ccoll reads, with a valid value.
    REQUIRE(is_known_variable(own));
    if (!values_of(own).words.empty()) CHECK(check_word(own, own_value));
  }
}

TEST_CASE("nccl environment: what has no meaning sets nothing and is no error", "[faces][unit]") {
  for (const auto* name :
       {"NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_NVLS_ENABLE", "NCCL_IB_AR_THRESHOLD",
        "NCCL_SHM_DISABLE", "NCCL_TOPO_FILE", "NCCL_NET_GDR_READ", "NCCL_CUMEM_ENABLE",
        "NCCL_RAS_ENABLE", "NCCL_LAUNCH_MODE", "NCCL_CHECK_POINTERS", "NCCL_OOB_NET_IFNAME"}) {
    CAPTURE(name);
    CHECK(seen(name, "1").fate == Fate::no_meaning);
    CHECK_FALSE(seen(name, "1").is_warning);
    CHECK(fallbacks(name, "1").empty());
  }
  for (const auto* value : {"NVLS", "Ring,Tree", "^Tree", "allreduce:ring", "PAT", "^tree, collnet",
                            "ring,tree;allreduce:^NVLSTree,CollnetDirect;broadcast:ring", "^"}) {
    CAPTURE(value);
    CHECK(fallbacks("NCCL_ALGO", value).empty());
    CHECK_FALSE(seen("NCCL_ALGO", value).is_warning);
  }
}

TEST_CASE("nccl environment: refused, warned of, and others' own", "[faces][unit]") {
  CHECK(seen("NCCL_NET", "aws-ofi").fate == Fate::refused);
  CHECK(seen("NCCL_NET_PLUGIN", "aws-ofi").is_warning);
  CHECK_FALSE(seen("NCCL_NET_PLUGIN", "none").is_warning);
  CHECK(seen("NCCL_CONF_FILE", "/dev/null").fate == Fate::used);
  for (const auto& [file, why] : {std::pair{"/nosuch", "/nosuch: No such file"},
                                  {"/tmp", "/tmp: not a regular file"},
                                  {"/dev/zero", "/dev/zero: not a regular file"}}) {
    const auto unread = seen("NCCL_CONF_FILE", file);
    CHECK(unread.fate == Fate::no_meaning);
    CHECK(unread.is_warning);
    CHECK_THAT(unread.remark, Catch::Contains(why));
  }
  CHECK(seen("NCCL_ASYNC_ERROR_HANDLING", "1").fate == Fate::silent);
  CHECK(seen("NCCL_TESTS_DEVICE", "1").fate == Fate::silent);
  const auto unknown = seen("NCCL_DEBUGG", "INFO");
  CHECK(unknown.fate == Fate::unknown);
  CHECK(unknown.is_warning);
  CHECK(unknown.remark.find("NCCL_DEBUG") != std::string::npos);
  CHECK_THAT(seen("CCOLL_NCCL_HOST", "1").remark, Catch::Contains("set it in the environment"));
}

TEST_CASE("nccl environment: a value that NCCL ignores is ignored, with a warning",
          "[faces][unit]") {
  using Row = std::tuple<std::string, std::string, std::string>;
  const Row rows[] = {
      {"NCCL_DEBUG", "foo", "VERSION, WARN, INFO"},
      {"NCCL_COMM_BLOCKING", "2", "0 or 1"},
      {"NCCL_COMM_BLOCKING", "yes", "0 or 1"},
      {"NCCL_SOCKET_FAMILY", "ipv4", "AF_INET or AF_INET6"},
      {"NCCL_P2P_DISABLE", "x", "0 or 1"},
      {"NCCL_P2P_DISABLE", "2", "0 or 1"},
      {"NCCL_IB_DISABLE", "true", "0 or 1"},
      {"NCCL_LOCAL_REGISTER", "no", "0 or 1"},
      {"NCCL_GRAPH_REGISTER", "1.5", "0 or 1"},
      {"NCCL_P2P_LEVEL", "loc", "LOC, NVL"},
      {"NCCL_NET_GDR_LEVEL", "-1x", "LOC, NVL"},
      {"NCCL_MAX_CTAS", "-1", "1 or more"},
      {"NCCL_MAX_NCHANNELS", "0", "1 or more"},
      {"NCCL_MAX_NCHANNELS", "99999999999999999999", "1 or more"},
      {"NCCL_CTA_POLICY", "ZERO,EFFICIENCY", "EFFICIENCY, ZERO"},
      {"NCCL_CTA_POLICY", "4", "from 0 to 3"},
      {"NCCL_IB_GID_INDEX", "x", "from -1 to 1023"},
      {"NCCL_IB_TC", "256", "from 0 to 255"},
      {"NCCL_IB_SL", "16", "from 0 to 15"},
      {"NCCL_IB_TIMEOUT", "0", "from 1 to 31"},
      {"NCCL_IB_RETRY_CNT", "-2", "from 0 to 7"},
      {"NCCL_IB_HCA", "mlx5_0:x", "names of devices"},
      {"NCCL_IB_HCA", ":1", "names of devices"},
  };
  for (const auto& [name, value, expected] : rows) {
    CAPTURE(name, value);
    const auto read = translated({{name, value}});
    const auto& one = read.seen.front();
    CHECK(one.fate == Fate::no_meaning);
    CHECK(one.is_warning);
    CHECK_THAT(one.remark, Catch::Contains(expected) && Catch::Contains("the value is ignored"));
    CHECK(read.fallbacks.empty());
    CHECK_FALSE(read.blocking);
    CHECK(read.registers);
    CHECK_FALSE(read.logs_version);
  }
  // Valid for NCCL, though they set nothing here.
  for (const auto& [name, value] : {std::pair{"NCCL_P2P_LEVEL", "SYS"},
                                    {"NCCL_P2P_LEVEL", "5"},
                                    {"NCCL_P2P_DISABLE", "0"},
                                    {"NCCL_IB_TC", "-1"},
                                    {"NCCL_IB_GID_INDEX", "-1"},
                                    {"NCCL_CTA_POLICY", "DEFAULT"},
                                    {"NCCL_DEBUG", "NONE"},
                                    {"NCCL_LOCAL_REGISTER", "2"}}) {
    CAPTURE(name, value);
    CHECK(seen(name, value).fate == Fate::no_meaning);
    CHECK_FALSE(seen(name, value).is_warning);
  }
}

TEST_CASE("nccl environment: a function that NCCL_ALGO cannot name is warned of", "[faces][unit]") {
  for (const auto* value : {"allreduce:ring;brodcast:ring", "brodcast : ^tree", "brodcast:"}) {
    const auto wrong = seen("NCCL_ALGO", value);
    CAPTURE(value, wrong.remark);
    CHECK(wrong.fate == Fate::no_meaning);
    CHECK(wrong.is_warning);
    CHECK_THAT(wrong.remark,
               Catch::Contains("function 'brodcast'") && Catch::Contains("broadcast, reduce"));
  }
}

TEST_CASE("nccl environment: an algorithm that NCCL does not have is warned of", "[faces][unit]") {
  for (const auto* value : {"Foo", "Ring,Foo", "^Foo", "allreduce:ring;broadcast:^tree, Foo "}) {
    const auto foo = seen("NCCL_ALGO", value);
    CAPTURE(value, foo.remark);
    CHECK(foo.fate == Fate::no_meaning);
    CHECK(foo.is_warning);
    CHECK_THAT(foo.remark, Catch::Contains("'Foo'") && Catch::Contains("ring, tree"));
    CHECK(fallbacks("NCCL_ALGO", value).empty());
  }
}

TEST_CASE("nccl environment: a file at home that cannot be read is told", "[faces][unit]") {
  const auto home = fs::temp_directory_path() / ("ccoll-home-" + std::to_string(::getpid()));
  const char* const before = std::getenv("HOME");
  const std::optional<std::string> kept =
      before ? std::optional<std::string>(before) : std::nullopt;
  fs::create_directories(home);
  ::setenv("HOME", home.c_str(), 1);
  const auto none = settings_of_process();
  std::ofstream(home / ".nccl.conf") << "NCCL_LOCAL_REGISTER=0\n";
  const auto file = settings_of_process();
  fs::remove(home / ".nccl.conf");
  fs::create_directory(home / ".nccl.conf");
  const auto directory = settings_of_process();
  // The superuser may read any file.
  fs::remove(home / ".nccl.conf");
  fs::create_symlink("/dev/zero", home / ".nccl.conf");
  const auto device = settings_of_process();
  fs::remove(home / ".nccl.conf");
  fs::create_symlink("/dev/null", home / ".nccl.conf");
  const auto null = settings_of_process();
  if (kept)
    ::setenv("HOME", kept->c_str(), 1);
  else
    ::unsetenv("HOME");
  fs::remove_all(home);
  set_fallbacks({}, {});
  CHECK(none.unread.empty());
  CHECK(file.unread.empty());
  CHECK(null.unread.empty());
  CHECK_FALSE(file.registers);
  for (const auto* const unread : {&directory.unread, &device.unread}) {
    REQUIRE(unread->size() == 1);
    CHECK_THAT(unread->front(), Catch::Contains((home / ".nccl.conf: not a regular").string()));
  }
}

TEST_CASE("nccl environment: failures name the variable that was set", "[faces][unit]") {
  const auto read = translated({{"NCCL_SOCKET_IFNAME", "zz"}, {"NCCL_SOCKET_FAMILY", "AF_INET"}});
  set_fallbacks(read.fallbacks, read.sources);
  CHECK(set_as("CCOLL_SOCKET_IFNAME") == "NCCL_SOCKET_IFNAME");
  CHECK(set_as("CCOLL_SOCKET_FAMILY") == "NCCL_SOCKET_FAMILY, for CCOLL_SOCKET_FAMILY");
  const auto address = net::local_address("zz", "", "");
  set_fallbacks({}, {});
  REQUIRE_FALSE(address);
  CHECK_THAT(address.error().message, Catch::Contains("no interface fits NCCL_SOCKET_IFNAME='zz'"));
  CHECK(set_as("CCOLL_SOCKET_IFNAME") == "CCOLL_SOCKET_IFNAME");
}

TEST_CASE("nccl environment: settings of the face itself", "[faces][unit]") {
  const auto read = translated({{"NCCL_COMM_ID", "127.0.0.1:4000"},
                                {"NCCL_COMM_BLOCKING", "0"},
                                {"NCCL_DEBUG", "VERSION"},
                                {"NCCL_LOCAL_REGISTER", "0"}});
  CHECK(read.comm_id == "127.0.0.1:4000");
  CHECK(read.blocking == 0);
  CHECK(read.logs_version);
  CHECK_FALSE(read.registers);
  CHECK(read.fallbacks.empty());
  const auto none = translated({});
  CHECK(none.version == kReportedVersion);
  CHECK_FALSE(none.blocking);
  CHECK_FALSE(none.logs_version);
  CHECK(none.registers);
}

TEST_CASE("nccl environment: the lines of a file", "[faces][unit]") {
  CHECK(parsed_lines("# all\nNCCL_DEBUG=INFO\n  NCCL_ALGO = Ring # why\n\nnonsense\n"
                     "NCCL_NET=\nNCCL_DEBUG=WARN\r\n") ==
        Variables{{"NCCL_DEBUG", "INFO"}, {"NCCL_ALGO", "Ring"}});
}

}  // namespace ccoll::nccl
