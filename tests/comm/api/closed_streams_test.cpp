// SPDX-License-Identifier: Apache-2.0
// Programs without standard streams, such as daemons: no descriptor of ours takes their numbers,
// since the program's output would then reach a peer. closed_streams_test TRANSPORT; ranks are
// children.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ccoll/ccoll.hpp"
#include "support/children.hpp"
#include "support/directory.hpp"
#include "support/eventually.hpp"
#include "system/file_descriptor.hpp"

using namespace ccoll;
using namespace std::chrono_literals;
using testing::check;

namespace {

constexpr int kSize = 2;

enum class Closes { before, later };

void close_streams() {
  for (int number = 0; is_standard_stream(number); number++) ::close(number);
}

/// A connection takes a number for a moment while it is accepted.
bool are_free() {
  int number = 0;
  return testing::eventually([&] {
    while (is_standard_stream(number) && ::fcntl(number, F_GETFD) == -1) number++;
    return !is_standard_stream(number);
  });
}

/// Opens links of every kind.
void use(Communicator& world) {
  const int me = world.rank(), peer = 1 - me;
  for (const std::size_t count : {1, 300'000}) {
    std::vector<std::int32_t> data(count, me + 1), got(count);
    world.all_reduce(std::span(data));
    if (data.back() != kSize * (kSize + 1) / 2) std::exit(3);
    world.send_recv(std::span<const std::int32_t>(data), peer, std::span(got), peer);
    if (got != data) std::exit(4);
  }
}

/// Returns its exit status.
int be_rank(int rank, const std::string& transport, const std::string& store, Closes closes) {
  if (closes == Closes::before) close_streams();
  CommunicatorOptions options;
  options.transport = transport;
  options.timeout = 20s;
  auto world = Communicator::create(make_file_store(store), rank, kSize, options);
  if (closes == Closes::later) close_streams();
  if (!are_free()) return 1;
  use(world);
  auto half = world.split(0, 0);
  use(*half);
  return are_free() ? 0 : 2;
}

void test(const std::string& transport, Closes closes) {
  const testing::Directory files;
  ::setenv("CCOLL_LOG_FILE", files.file("log").c_str(), 1);
  ::setenv("CCOLL_LOG", "debug", 1);
  ::setenv("CCOLL_TRACE", files.path().c_str(), 1);
  ::setenv("CCOLL_DUMP", files.path().c_str(), 1);
  ::setenv("CCOLL_DUMP_SIGNAL", "USR1", 1);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kSize; rank++) {
    ranks.push_back(::fork());
    if (ranks.back() == 0) std::exit(be_rank(rank, transport, files.file("store"), closes));
  }
  for (const pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    check(status == 0, transport +
                           (closes == Closes::before ? ", closed before" : ", closed later") +
                           ": " + std::to_string(WEXITSTATUS(status)));
  }
}

/// How many bytes wait in a pipe.
int available(int end) {
  int bytes = 0;
  ::ioctl(end, FIONREAD, &bytes);
  return bytes;
}

void test_descriptor() {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  ::dup2(ends[1], STDIN_FILENO);
  const FileDescriptor end(STDIN_FILENO);
  check(end.number() > STDERR_FILENO, "a descriptor gets another number");
  check(::fcntl(STDIN_FILENO, F_GETFD) == -1, "and its first one is free");
  check(::write(end.number(), "x", 1) == 1, "it is the same file");
  {
    const StandardStreamsTaken taken;
    check(::fcntl(STDIN_FILENO, F_GETFD) != -1, "the number is taken for a while");
  }
  check(::fcntl(STDIN_FILENO, F_GETFD) == -1, "and then given back");
  // Another thread's file has the number when the first holder looks.
  ::dup2(ends[1], STDIN_FILENO);
  {
    const StandardStreamsTaken taken;
    const FileDescriptor moved(STDIN_FILENO);
    check(::write(moved.number(), "x", 1) == 1, "a file moves while the numbers are taken");
    check(::fcntl(STDIN_FILENO, F_GETFD) != -1, "its old number is taken in its place");
    check(::write(STDIN_FILENO, "x", 1) == 1 && available(ends[0]) == 2, "by nobody's file");
  }
  check(::fcntl(STDIN_FILENO, F_GETFD) == -1, "and is given back with the others");
  // Another thread's library has the number when the holder looks, and closes it before the
  // holder's library opens a file.
  ::dup2(ends[1], STDIN_FILENO);
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const auto file = made_beyond_standard_streams([&, is_first = true]() mutable {
    if (std::exchange(is_first, false)) ::close(STDIN_FILENO);
    return std::unique_ptr<std::FILE, decltype(close)>(std::fopen("/dev/zero", "r"), close);
  });
  check(::fileno(file.get()) > STDERR_FILENO, "a library's file is opened once more");
  check(::fcntl(STDIN_FILENO, F_GETFD) == -1, "and the number is free");
}

}  // namespace

int main(int, char** arguments) {
  for (const auto closes : {Closes::before, Closes::later}) test(arguments[1], closes);
  test_descriptor();
  return testing::failures == 0 ? 0 : 1;
}
