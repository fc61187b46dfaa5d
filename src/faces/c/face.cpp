// SPDX-License-Identifier: Apache-2.0
#include "faces/c/face.hpp"

#include <cstdlib>
#include <new>

namespace ccoll::c {
namespace {

/// This thread's last error. If there was no memory for its text, a constant serves.
struct LastError {
  std::string text;
  bool is_lost = false;
  int culprit = -1;
};
thread_local LastError last_error;

ccoll_result note(ccoll_result result, std::string_view text, int culprit = -1) noexcept {
  last_error.culprit = culprit;
  try {
    last_error.text = text;
    last_error.is_lost = false;
  } catch (...) {
    last_error.is_lost = true;
  }
  return result;
}

static_assert(static_cast<int>(ErrorKind::invalid_argument) + 1 == CCOLL_INVALID_ARGUMENT &&
              static_cast<int>(ErrorKind::internal) + 1 == CCOLL_INTERNAL);

}  // namespace

ccoll_result result_of(ErrorKind kind) {
  return static_cast<ccoll_result>(static_cast<int>(kind) + 1);
}

ccoll_result result_of(const Error& error) noexcept {
  return note(result_of(error.kind()), error.what(), error.culprit());
}

ccoll_result result_of_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return result_of(error);
  } catch (const std::bad_alloc&) {
    return note(CCOLL_EXHAUSTED, "there is no more memory");
  } catch (const std::exception& error) {
    return note(CCOLL_INTERNAL, error.what());
  } catch (...) {
    return note(CCOLL_INTERNAL, "an exception was thrown that is not a std::exception");
  }
}

void refuse(const std::string& why) { throw Error(ErrorKind::invalid_argument, why); }

void write_text(std::string_view from, char* text, std::size_t size, std::size_t* needed) {
  if (needed != nullptr) *needed = from.size() + 1;
  if (size == 0) return;
  given(text, "the buffer for the text");
  const auto fits = std::min(from.size(), size - 1);
  std::memcpy(text, from.data(), fits);
  text[fits] = '\0';
}

}  // namespace ccoll::c

using namespace ccoll::c;

const char* ccoll_result_name(ccoll_result result) {
  if (result == CCOLL_OK) return "ok";
  if (result < CCOLL_OK || result > CCOLL_INTERNAL) return "unknown";
  // The names are literals, which end with a NUL.
  return ccoll::to_string(static_cast<ccoll::ErrorKind>(result - 1)).data();
}

const char* ccoll_error_text() {
  return last_error.is_lost ? "there is no memory for the error's text" : last_error.text.c_str();
}

int32_t ccoll_error_culprit() { return last_error.culprit; }

const char* ccoll_version() { return ccoll::version().data(); }

int32_t ccoll_c_api() { return CCOLL_C_API; }

void ccoll_free(void* memory) { std::free(memory); }
