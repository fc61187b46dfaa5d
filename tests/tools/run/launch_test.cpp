// SPDX-License-Identifier: Apache-2.0
#include "run/launch.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <random>
#include <vector>

#include "rendezvous/meeting_place.hpp"
#include "rendezvous/open_store.hpp"
#include "run/line_prefixer.hpp"
#include "run/rank_process.hpp"
#include "support/directory.hpp"

namespace ccoll {
namespace {

namespace fs = std::filesystem;

class Directory : public testing::Directory {
 public:
  std::string write(const std::string& name, const std::string& text, mode_t mode) const {
    const auto path = testing::Directory::write(name, text);
    ::chmod(path.c_str(), mode);
    return path;
  }
};

template <typename T>
std::string message(const Result<T>& result) {
  return result ? "accepted" : result.error().message;
}

}  // namespace

TEST_CASE("line prefixer: lines come out whole however the bytes are cut",
          "[rendezvous][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string text = "one\n\nthree 3\nlast";
  const std::string expected = "[7] one\n[7] \n[7] three 3\n[7] last\n";
  for (int round = 0; round < 200; ++round) {
    LinePrefixer lines("[7] ");
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const auto size = std::uniform_int_distribution<std::size_t>(0, 5)(random);
      const auto piece = lines.feed(std::string_view(text).substr(at, size));
      REQUIRE((piece.empty() || piece.back() == '\n'));
      out += piece;
      at += size;
    }
    REQUIRE(out + lines.finish() == expected);
    REQUIRE(lines.finish().empty());
  }
}

TEST_CASE("line prefixer: a line without end is broken, not kept for ever", "[rendezvous][unit]") {
  LinePrefixer lines("[0] ");
  const std::string text(LinePrefixer::kMaxLineBytes + 3, 'x');
  const bool broken = lines.feed(text) == "[0] " + text.substr(3) + "\n";
  CHECK(broken);
  CHECK(lines.finish() == "[0] xxx\n");
}

TEST_CASE("token file: only a private regular file with something in it will do",
          "[rendezvous][unit]") {
  const Directory directory;
  CHECK(*read_token_file(directory.write("good", "secret \n", 0600)) == "secret");
  CHECK_THAT(message(read_token_file(directory.write("open", "secret", 0644))),
             Catch::Contains("others may read or write it (mode 0644): chmod 600"));
  CHECK_THAT(message(read_token_file(directory.write("empty", "\n", 0600))),
             Catch::Contains("it holds no token"));
  CHECK_THAT(message(read_token_file(directory.write("long", std::string(5000, 'x'), 0600))),
             Catch::Contains("longer than 4096 bytes"));
  CHECK_THAT(message(read_token_file(directory.file("none"))), Catch::Contains("No such file"));
  CHECK_THAT(message(read_token_file("/dev/null")), Catch::Contains("not a regular file"));
  CHECK_THAT(message(read_token_file("/none", "CCOLL_TOKEN_FILE")),
             Catch::StartsWith("CCOLL_TOKEN_FILE /none: "));
}

TEST_CASE("meeting place: made private, and refused when it is not ours alone",
          "[rendezvous][unit]") {
  const Directory directory;
  const auto place = directory.file("place");
  const auto first = MeetingFile::open(place);
  REQUIRE(first);
  CHECK((fs::status(place).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(MeetingFile::open(place));

  fs::create_hard_link(place, directory.file("second"));
  CHECK_THAT(message(MeetingFile::open(place)), Catch::Contains("another hard link"));
  fs::create_symlink(place, directory.file("link"));
  CHECK_THAT(message(MeetingFile::open(directory.file("link"))), Catch::Contains("symbolic link"));
  CHECK_THAT(message(MeetingFile::open(directory.write("open", "", 0666))),
             Catch::Contains("others may read or write it"));
  fs::permissions(fs::path(place).parent_path(), fs::perms::all);
  CHECK_THAT(message(MeetingFile::open(place)), Catch::Contains("others may replace files"));
}

TEST_CASE("meeting place: the file goes with the last rank", "[rendezvous][unit]") {
  const Directory directory;
  const auto place = directory.file("place");
  auto first = std::make_optional(std::move(*MeetingFile::open(place)));
  auto second = std::make_optional(std::move(*MeetingFile::open(place)));
  first.reset();
  CHECK(fs::exists(place));
  first.emplace(std::move(*MeetingFile::open(place)));
  second.reset();
  CHECK(fs::exists(place));
  first.reset();
  CHECK_FALSE(fs::exists(place));
}

TEST_CASE("meeting place: what killed jobs left behind goes when the next one meets",
          "[rendezvous][unit]") {
  const Directory directory;
  const auto name = [](const std::string& job) {
    return fmt::format("ccoll-{}-{}", ::geteuid(), job);
  };
  const auto deserted = directory.file(name("killed"));
  const pid_t killed = ::fork();
  if (killed == 0) {
    const auto presence = MeetingFile::open(deserted);
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(killed, &status, 0) == killed);
  REQUIRE(fs::exists(deserted));
  const auto same_name = directory.write(name("again"), "left by nobody alive", 0600);
  const auto other = directory.write("not-ccoll", "", 0600);
  const auto inhabited = MeetingFile::open(directory.file(name("running")));
  REQUIRE(inhabited);
  CHECK_FALSE(fs::exists(deserted));

  directory.write(name("killed"), "", 0600);
  const auto next = MeetingFile::open(same_name);
  REQUIRE(next);
  CHECK_FALSE(fs::exists(deserted));
  CHECK(fs::file_size(same_name) == 0);
  CHECK(fs::exists(directory.file(name("running"))));
  CHECK(fs::exists(other));
}

TEST_CASE("meeting place: ranks that come and go at once are at one place or none",
          "[rendezvous][property]") {
  const Directory directory;
  const auto place = directory.file("place");
  constexpr int kRounds = 200;
  const auto come_and_go = [&] {
    for (int round = 0; round < kRounds; ++round) {
      const auto presence = MeetingFile::open(place);
      if (!presence) return presence.error().message;
      // The locked file must be the one that others find.
      if (!fs::exists(place)) return std::string("a rank is there and the file is not");
    }
    return std::string();
  };
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 4; ++rank) ranks.push_back(std::async(std::launch::async, come_and_go));
  for (auto& rank : ranks) CHECK(rank.get() == "");
  CHECK_FALSE(fs::exists(place));
}

TEST_CASE("launch: what cannot be started is refused and leaves nothing", "[rendezvous][unit]") {
  LaunchOptions options;
  CHECK(message(launch(options)) == "no program to start");
  options.command = {"true"};
  options.ranks = 0;
  CHECK(message(launch(options)) == "-n 0: expected a number of ranks from 1 to 4096");
}

TEST_CASE("guard: one that somebody has stopped ends with what it is for", "[rendezvous][unit]") {
  const auto children = [] {
    std::ifstream file("/proc/thread-self/children");
    return std::vector<pid_t>(std::istream_iterator<pid_t>(file), {});
  };
  {
    auto guard = Guard::start("", 1);
    REQUIRE(guard);
    const auto pids = children();
    REQUIRE(pids.size() == 1);
    REQUIRE(kill(pids[0], SIGSTOP) == 0);
    siginfo_t stopped{};
    REQUIRE(waitid(P_PID, static_cast<id_t>(pids[0]), &stopped, WSTOPPED) == 0);
  }
  CHECK(children().empty());
}

}  // namespace ccoll
