// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Faults on purpose, for tests: the system calls that ccoll makes fail, fall short or take long,
/// by chance from a seed. Linking a test with `faults` (tests/faults/meson.build) puts wrapped.cpp
/// between the product and the C library, by the linker's --wrap: the product is the same code as
/// ever and knows nothing of it. Nothing happens before arm(), or without CCOLL_TEST_FAULTS, whose
/// text is armed when the program starts.
///
/// A fault is one that a kernel may cause: sockets only are read and written short, interrupted or
/// not ready, Unix sockets take what they are given whole, and who waits for an edge (EPOLLET) that
/// a feigned EAGAIN has used up gets another one.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccoll::testing::faults {

enum class Kind : std::uint8_t {
  short_read,   ///< fewer bytes are taken than have come
  short_write,  ///< fewer bytes are sent than there is room for
  interrupted,  ///< EINTR
  again,        ///< EAGAIN
  delayed,      ///< up to a millisecond before the call is made
  stalled,      ///< up to 0.2 s
  cut,          ///< a connection ends, for both ends
  corrupted,    ///< a bit of what was read from a TCP connection is another
  exhausted,    ///< ENOMEM, EMFILE and their like
};
inline constexpr std::size_t kKinds = 9;
std::string_view to_string(Kind kind);

enum class Call : std::uint8_t {
  read,
  readv,
  recv,
  recvmsg,
  send,
  sendmsg,
  write,
  epoll_wait,
  accept,
  connect,
  socket,
  epoll_create1,
  epoll_ctl,
  eventfd,
  memfd_create,
  ftruncate,
  mmap,
  process_vm_readv,
};
inline constexpr std::size_t kCalls = 18;
std::string_view to_string(Call call);

/// A fault at a certain call: `times` of them from the `number`-th (from 1) on.
struct Once {
  Kind kind = Kind::cut;
  std::optional<Call> call;  ///< of a cut: none, any that reads or writes a connection
  std::uint64_t number = 1;
  std::uint64_t times = 1;
};

struct Plan {
  std::uint64_t seed = 1;
  std::array<std::uint32_t, kKinds> per_mille{};  ///< of the calls that can have it, by Kind
  std::optional<Once> once;
};

/// "seed=7 short_read=100 interrupted=20 cut@40" or "… exhausted@mmap:3:2": the third and fourth
/// call of mmap fail. Throws std::runtime_error for what is none.
Plan parse(std::string_view text);

/// Connections are written to the descriptor `log` from now on, a line each, unless that is
/// negative: "connected" or "accepted", and both addresses, for who wants to know whose the ends of
/// a cut one were.
void note_connections(int log);
/// From now on. Faults are written to `log`, too: kind, call, what it was about.
void arm(const Plan& plan, int log);
/// No more faults; connections are still written to the log.
void disarm();
/// Faults so far, by Kind.
std::array<std::uint64_t, kKinds> counts();

// For wrapped.cpp.

bool armed();
/// Whether this call is to have that fault now, by chance or by number; does not count it, as it
/// may turn out not to apply.
bool wants(Kind kind, Call call);
/// It has happened.
void count(Kind kind, Call call, int descriptor, std::string_view detail);
void note_connection(std::string_view how, int descriptor, const sockaddr* to = nullptr,
                     socklen_t length = 0);
/// A number from 0 to `most`, by chance.
std::uint64_t draw(std::uint64_t most);

}  // namespace ccoll::testing::faults
