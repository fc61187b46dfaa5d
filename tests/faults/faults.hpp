// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Injects faults: system calls that ccoll makes fail, fall short or take long, at random from a
/// seed. Linking a test with `faults` (tests/faults/meson.build) puts wrapped.cpp between the
/// product and the C library, by the linker's --wrap; the product's code is unchanged. Nothing
/// happens before arm() unless CCOLL_TEST_FAULTS is set: its plan is armed when the program starts.
///
/// A kernel may cause any of these faults. Only sockets are read and written short, interrupted or
/// not ready, and Unix sockets take messages whole. If a feigned EAGAIN has used up an edge
/// (EPOLLET), the waiting thread gets another one.

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ccoll::testing::faults {

enum class Kind : std::uint8_t {
  short_read,   ///< fewer bytes are read than have arrived
  short_write,  ///< fewer bytes are sent than there is room for
  interrupted,  ///< EINTR
  again,        ///< EAGAIN
  delayed,      ///< up to 1 ms before the call
  stalled,      ///< up to 0.2 s
  cut,          ///< a connection ends for both ends
  corrupted,    ///< one bit of data read from a TCP connection is flipped
  exhausted,    ///< ENOMEM, EMFILE and the like
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

/// Faults at certain calls: `times` of them, beginning with the `number`-th (from 1).
struct Once {
  Kind kind = Kind::cut;
  std::optional<Call> call;  ///< for a cut, none means any that reads or writes a connection
  std::uint64_t number = 1;
  std::uint64_t times = 1;
};

struct Plan {
  std::uint64_t seed = 1;
  std::array<std::uint32_t, kKinds> per_mille{};  ///< per thousand applicable calls, by Kind
  std::optional<Once> once;
};

/// Parses "seed=7 short_read=100 interrupted=20 cut@40" or "… exhausted@mmap:3:2" (the third and
/// fourth call of mmap fail). Throws std::runtime_error if the text is invalid.
Plan parse(std::string_view text);

/// Logs each connection to the descriptor `log` unless that is negative: a line with "connected" or
/// "accepted" and both addresses, which identify the ends of a cut connection.
void note_connections(int log);
/// Starts the faults, which are written to `log`, too: kind, call and object.
void arm(const Plan& plan, int log);
/// Stops the faults; connections are still logged.
void disarm();
/// The faults so far, by Kind.
std::array<std::uint64_t, kKinds> counts();

// Used by wrapped.cpp.

bool armed();
/// Whether this call is to have that fault, by chance or by number. Does not count it, because it
/// may not apply after all.
bool wants(Kind kind, Call call);
/// Counts and logs a fault that has happened.
void count(Kind kind, Call call, int descriptor, std::string_view detail);
void note_connection(std::string_view how, int descriptor, const sockaddr* to = nullptr,
                     socklen_t length = 0);
/// A random number from 0 to `most`.
std::uint64_t draw(std::uint64_t most);

}  // namespace ccoll::testing::faults
