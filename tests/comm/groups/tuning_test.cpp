// SPDX-License-Identifier: Apache-2.0
#include "comm/groups/tuning.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "comm/groups/costs.hpp"
#include "control/control.hpp"
#include "support/logged.hpp"
#include "support/ranks.hpp"
#include "transport/transport.hpp"

namespace ccoll {
namespace {

using ccoll::testing::logged;

MeasuredCosts some_costs(double seed) {
  return {.links = {.latency_ns = seed,
                    .bandwidth_bytes_per_s = seed * 1e6,
                    .sender_share = 0.5,
                    .step_ns = seed + 1},
          .reduce_bytes_per_s = seed * 2e6};
}

/// A temporary file that CCOLL_TUNE_FILE names while this lives.
class TuneFile {
 public:
  TuneFile() {
    const char* const before = std::getenv("CCOLL_TUNE_FILE");
    if (before != nullptr) before_ = before;
    std::filesystem::remove_all(directory_);
    ::setenv("CCOLL_TUNE_FILE", path().c_str(), 1);
  }
  ~TuneFile() {
    ::setenv("CCOLL_TUNE_FILE", before_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }
  TuneFile(const TuneFile&) = delete;
  TuneFile& operator=(const TuneFile&) = delete;
  std::string path() const { return directory_ + "/below/this.tune"; }
  const std::string& directory() const { return directory_; }

 private:
  std::string before_;
  const std::string directory_ =
      std::filesystem::temp_directory_path() / ("ccoll-tuning-" + std::to_string(::getpid()));
};

TEST_CASE("tuning: what is kept is what is read", "[comm]") {
  const TuneFile file;
  CHECK(tuning_path() == file.path());
  CHECK(load_tuning().empty());
  const Tuning tuning{
      {"shm", some_costs(100)}, {"shm/crowded", some_costs(200)}, {"tcp/network", some_costs(300)}};
  REQUIRE(save_tuning(tuning, file.path()));
  CHECK(load_tuning() == tuning);
  const auto below = std::filesystem::path(file.path()).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(below))
    CHECK(entry.path() == file.path());  // no other file is left beside it
}

TEST_CASE("tuning: a file that is named but not there is warned of", "[comm]") {
  const TuneFile file;
  const auto load = [] { CHECK(load_tuning().empty()); };
  CHECK_THAT(logged(load), Catch::Contains("warning: CCOLL_TUNE_FILE=" + file.path() +
                                           ": there is no such file"));
  REQUIRE(save_tuning({}, file.path()));
  CHECK(logged(load).empty());
  ::setenv("CCOLL_TUNE_FILE", "/dev/null", 1);
  CHECK(logged(load).empty());
}

TEST_CASE("tuning: a file of something else is told apart, line and reason", "[comm]") {
  const auto refused = [](const std::string& text) {
    const auto parsed = parse_tuning(text);
    return parsed ? std::string("taken") : parsed.error().message;
  };
  const std::string good = to_text({{"tcp", some_costs(5)}});
  CHECK(refused(good) == "taken");
  CHECK(refused("") == "taken");
  CHECK(refused("hello\n") == "'hello': expected the first line 'ccoll tuning 2'");
  CHECK(refused(good + "pigeon latency_ns 3\n") ==
        "'pigeon latency_ns 3': 'pigeon' is not a kind of link");
  for (const std::string wrong : {"-3", "0", "1e10", "inf", "nan", "x", ""})
    CHECK(refused(good + "shm latency_ns " + wrong) ==
          "'shm latency_ns " + wrong +
              "': latency_ns and a number from 1 to 1000000000 are expected");
  CHECK(refused(good + "shm latency_ns 3").find("step_ns and a number") != std::string::npos);
  CHECK(refused(good.substr(0, good.size() - 1) + " more\n")
            .find("nothing is expected before 'more'") != std::string::npos);
  CHECK(parse_tuning(good)->at("tcp") == some_costs(5));
}

TEST_CASE("tuning: every kind of links fits into what rank 0 tells", "[comm]") {
  Tuning tuning;
  for (const TransportKind& kind : transports())
    for (const auto& name : {link_class(kind.name, false, true), link_class(kind.name, true, true),
                             link_class(kind.name, false, false)})
      tuning[name] = some_costs(123'456'789);
  CHECK(tuning.size() == 3 * transports().size());
  CHECK(to_text(tuning).size() <= kMaxRank0Text);
  CHECK(parse_tuning(to_text(tuning)));
}

TEST_CASE("tuning: what is no file is neither read nor replaced", "[comm]") {
  const TuneFile file;
  const auto below = std::filesystem::path(file.path()).parent_path();
  std::filesystem::create_directories(below);
  REQUIRE(::mkfifo(file.path().c_str(), 0600) == 0);  // like /dev/null, it is no regular file
  const auto saved = save_tuning({{"tcp", some_costs(5)}}, file.path());
  REQUIRE_FALSE(saved);
  CHECK(saved.error().message ==
        "CCOLL_TUNE_FILE=" + file.path() + " is not a file that can keep costs");
  CHECK(std::filesystem::is_fifo(file.path()));
  std::filesystem::remove(file.path());
  std::filesystem::create_directory(file.path());
  CHECK_THAT(logged([] { CHECK(load_tuning().empty()); }),
             Catch::Contains("CCOLL_TUNE_FILE=" + file.path() + ": "));
  CHECK_FALSE(save_tuning({}, file.path()));
  CHECK(std::distance(std::filesystem::directory_iterator(below), {}) == 1);
}

TEST_CASE("tuning: a file is read no further than any tuning goes", "[comm]") {
  const TuneFile file;
  std::filesystem::create_directories(std::filesystem::path(file.path()).parent_path());
  std::filesystem::create_symlink("/dev/zero", file.path());
  CHECK(load_tuning().empty());
  std::filesystem::remove(file.path());
  const Tuning tuning{{"tcp", some_costs(5)}};
  std::ofstream(file.path()) << to_text(tuning) << std::string(1 << 20, '\n');
  CHECK(load_tuning().empty());
  std::ofstream(file.path()) << to_text(tuning) << std::string(1 << 10, '\n');
  CHECK(load_tuning() == tuning);
}

TEST_CASE("tuning: a cache directory that is none is told by its variable", "[comm]") {
  const TuneFile file;
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string kept = before == nullptr ? "" : before;  // empty: as where it is not set
  ::setenv("CCOLL_TUNE_FILE", "", 1);
  ::setenv("XDG_CACHE_HOME", "/etc/passwd", 1);
  const auto read = logged([] { CHECK(load_tuning().empty()); });
  const auto saved = save_tuning({}, tuning_path());
  ::setenv("XDG_CACHE_HOME", kept.c_str(), 1);
  CHECK_THAT(read, Catch::Contains("XDG_CACHE_HOME=/etc/passwd: /etc/passwd/ccoll/"));
  REQUIRE_FALSE(saved);
  CHECK_THAT(saved.error().message, Catch::Contains("XDG_CACHE_HOME=/etc/passwd: "));
}

TEST_CASE("tuning: a file that cannot be written is told with the reason", "[comm]") {
  const TuneFile file;
  std::filesystem::create_directory(file.directory());
  std::ofstream(std::filesystem::path(file.path()).parent_path());  // a file, not a directory
  const auto saved = save_tuning({{"tcp", some_costs(5)}}, file.path());
  REQUIRE_FALSE(saved);
  const auto below = std::filesystem::path(file.path()).parent_path().string();
  CHECK(saved.error().message == "CCOLL_TUNE_FILE=" + file.path() + ": cannot make the directory " +
                                     below + ": Not a directory");
}

TEST_CASE("tuning: measured costs take the place of estimates, of their kind of links only",
          "[comm]") {
  const Tuning tuning{{link_class("tcp", false, true), some_costs(100)}};
  CHECK(costs_over("tcp", 1, true, tuning).links == some_costs(100).links);
  CHECK(costs_over("tcp", 1, true, tuning).inside == some_costs(100).links);
  CHECK(costs_over("tcp", 1, true, tuning).reduce_bytes_per_s == 2e8);
  CHECK(costs_over("tcp", 0.5, true, tuning) == costs_over("tcp", 0.5, true));
  CHECK(costs_over("tcp", 1, false, tuning) == costs_over("tcp", 1, false));
  CHECK(costs_over("shm", 1, true, tuning) == costs_over("shm", 1, true));
}

TEST_CASE("tuning: a communicator chooses by what was measured", "[comm]") {
  const TuneFile file;
  Tuning tuning;
  for (const bool oversubscribed : {false, true})
    tuning[link_class("inproc", oversubscribed, true)] = some_costs(123'000);
  REQUIRE(save_tuning(tuning, file.path()));
  const auto explained = [] {
    return testing::run_ranks(3, testing::options_for("inproc"), [](Communicator& world) {
      throw std::runtime_error(world.explain("all_reduce", 8, DataType::float32));
    });
  };
  const std::string measured = "latency 123.00 µs";
  for (const auto& text : explained()) CHECK(text.find(measured) != std::string::npos);
  std::ofstream(file.path()) << "nonsense";
  for (const auto& text : explained()) {
    CHECK(text.find("Cost table: latency ") != std::string::npos);
    CHECK(text.find(measured) == std::string::npos);
  }
}

}  // namespace
}  // namespace ccoll
