// SPDX-License-Identifier: Apache-2.0
#include "faces/nccl/results.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>

#include "faces/nccl/settings/environment.hpp"
#include "system/locks.hpp"
#include "system/runtime.hpp"

namespace ccoll::nccl {
namespace {

/// Longest text of ncclGetLastError.
using Text = std::array<char, 1024>;

void copy(std::string_view from, Text& to) {
  auto fits = std::min(from.size(), to.size() - 1);
  // A character of several bytes is not cut.
  if (fits < from.size())
    while (fits > 0 && (from[fits] & 0xc0) == 0x80) fits--;
  std::memcpy(to.data(), from.data(), fits);
  to[fits] = '\0';
}

struct OfThread {
  bool has_own = false;
  Text text{};
};
thread_local OfThread of_thread;

struct OfProcess {
  Text text{};
};
Guarded<OfProcess>& of_process() { return Runtime::one<Guarded<OfProcess>>(); }

bool is_of_cuda(std::string_view text) { return text.find("(cudaError") != text.npos; }

}  // namespace

ncclResult_t code_of(ErrorKind kind, std::string_view text) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return ncclInvalidArgument;
    case ErrorKind::mismatch:
      return ncclInvalidUsage;
    case ErrorKind::unsupported:
      return is_of_cuda(text) ? ncclUnhandledCudaError : ncclInvalidUsage;
    case ErrorKind::peer_lost:
    case ErrorKind::corrupt:
      return ncclRemoteError;
    case ErrorKind::timed_out:
      return settings().version >= kTimeoutSince ? kTimeout : ncclRemoteError;
    case ErrorKind::aborted:
      return text.find(kMismatchMark) != text.npos ? ncclInvalidUsage : ncclRemoteError;
    case ErrorKind::exhausted:
      return is_of_cuda(text) ? ncclUnhandledCudaError : ncclSystemError;
    case ErrorKind::internal:
      break;
  }
  return is_of_cuda(text) ? ncclUnhandledCudaError : ncclInternalError;
}

Refusal refusal_of_exception() {
  try {
    throw;
  } catch (Refusal& refusal) {
    return std::move(refusal);
  } catch (const Error& error) {
    return {code_of(error.kind(), error.what()), error.what()};
  } catch (const std::bad_alloc&) {
    return {ncclSystemError, "there is no more memory"};
  } catch (const std::exception& error) {
    return {ncclInternalError, error.what()};
  } catch (...) {
    return {ncclInternalError, "an exception was thrown that is not a std::exception"};
  }
}

ncclResult_t note(ncclResult_t code, std::string_view text) noexcept {
  copy(text, of_thread.text);
  of_thread.has_own = true;
  of_process().lock()->text = of_thread.text;
  return code;
}

ncclResult_t note_exception(std::string_view function) noexcept {
  try {
    const auto refusal = refusal_of_exception();
    if (refusal.text.starts_with("ccoll: ")) return note(refusal.code, refusal.text);
    return note(refusal.code, fmt::format("ccoll: {}: {}", function, refusal.text));
  } catch (...) {
    return note(ncclSystemError, "ccoll: there is no memory for the error's text");
  }
}

}  // namespace ccoll::nccl

using namespace ccoll::nccl;

CCOLL_NCCL_FACE(ncclResult_t, GetVersion, int* version) {
  return guarded("ncclGetVersion", [&] {
    given(version, "version") = settings().version;
    return ncclSuccess;
  });
}

CCOLL_NCCL_FACE(const char*, GetErrorString, ncclResult_t result) {
  // Clients may give any number.
  switch (static_cast<int>(result)) {
    case 0:
      return "no error";
    case 1:
      return "a call of CUDA failed (see ncclGetLastError)";
    case 2:
      return "a call of the system failed, or a resource ran out (see ncclGetLastError)";
    case 3:
      return "internal error: please report it";
    case 4:
      return "invalid argument (see ncclGetLastError)";
    case 5:
      return "invalid usage, or ranks that made different calls (see ncclGetLastError)";
    case 6:
      return "another rank or the network failed (see ncclGetLastError)";
    case 7:
      return "in progress: call ncclCommGetAsyncError";
    case 8:
      return "a time limit passed (see ncclGetLastError)";
    default:
      return "unknown result";
  }
}

CCOLL_NCCL_FACE(const char*, GetLastError, ncclComm_t /*comm*/) {
  if (!of_thread.has_own) of_thread.text = of_process().lock()->text;
  return of_thread.text.data();
}

CCOLL_NCCL_FACE(void, ResetDebugInit, void) {}

extern "C" __attribute__((visibility("default"))) void ncclResetDebugInitInternal();
void ncclResetDebugInitInternal() {}
