// SPDX-License-Identifier: Apache-2.0
#include "comm/record/trace/recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>

#include "comm/record/trace/texts.hpp"
#include "core/os_error.hpp"
#include "system/log.hpp"
#include "system/read_file.hpp"
#include "system/runtime.hpp"
#include "system/write_all.hpp"

namespace ccoll::trace {
namespace {

/// One warning is enough for all traces of a process.
struct CutTraces {
  std::atomic<bool> are_told{false};
};

}  // namespace

bool Recorder::has_good_counter() {
  constexpr auto kSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  return kernel_line(kSource).value_or("") == "tsc";
}

Recorder::Recorder(FileDescriptor file, std::string path, std::size_t buffer_bytes, bool counter)
    : file_(std::move(file)),
      path_(std::move(path)),
      counter_(counter),
      process_(getpid()),
      // Filled with zeros, so that its pages are there when they are needed.
      buffer_(filled_up(std::max(buffer_bytes, 3 * kEntryBytes))),
      written_at_(ticks()) {}

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string& path, std::string_view about,
                                                   std::size_t buffer_bytes, bool counter) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.open()) return fail(ErrorKind::exhausted, "cannot write {}: {}", path, os_error(errno));
  std::unique_ptr<Recorder> made(new Recorder(std::move(file), path, buffer_bytes, counter));
  FileHeader header;
  header.text_bytes = static_cast<std::uint32_t>(about.size());
  made->add(header, about);
  made->begin_piece();
  // Write at once: a file that cannot be written shows now, and readers find a whole file.
  made->idle_ = 0;
  made->write();
  return made;
}

Recorder::~Recorder() { write(); }

void Recorder::add_plan(PlanEntry entry, std::string_view text) {
  entry.text_bytes = static_cast<std::uint32_t>(text.size());
  add(entry, text);
}

template <typename Entry>
void Recorder::add(const Entry& entry, std::string_view text) {
  // Nothing may come between the two, not even a WriteEntry.
  const auto bytes = kEntryBytes + filled_up(text.size());
  if (buffer_.size() - used_ < bytes) write();
  if (buffer_.size() - used_ < bytes) buffer_.resize(used_ + bytes);
  add(entry);
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kEntryBytes))) {
    std::array<char, kEntryBytes> piece;
    piece.fill(' ');
    std::ranges::copy(text.substr(0, kEntryBytes), piece.begin());
    add(piece);
  }
}

void Recorder::begin_piece() {
  if (buffer_.size() - used_ < kEntryBytes) buffer_.resize(used_ + kEntryBytes);
  clock_at_ = used_;
  add(ClockEntry{});
}

void Recorder::set_clock() {
  // The time between the two reads, at best nothing, is the error.
  ClockEntry clock;
  std::uint64_t least = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    const auto before = ticks(), ns = now(), after = ticks();
    if (after - before >= least) continue;
    least = after - before;
    clock.ns = ns;
    clock.ticks = counter_ ? before + least / 2 : ns;
  }
  std::memcpy(buffer_.data() + clock_at_, &clock, sizeof(clock));
}

void Recorder::write() {
  if (used_ <= idle_) return;
  WriteEntry entry;
  entry.begin = ticks();
  entry.bytes = used_;
  set_clock();
  write_buffer();
  used_ = 0;
  begin_piece();
  written_at_ = entry.end = ticks();
  add(entry);
  idle_ = used_;
}

void Recorder::write_buffer() {
  if (!file_.open() || getpid() != process_) return;
  const int error = write_all(file_.number(), std::span(buffer_).first(used_));
  if (error == 0) return;
  if (!Runtime::one<CutTraces>().are_told.exchange(true))
    log().warn("CCOLL_TRACE: cannot write {}: {}; the trace ends here", path_, os_error(error));
  file_.close();
}

}  // namespace ccoll::trace
