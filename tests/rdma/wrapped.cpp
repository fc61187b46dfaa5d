// SPDX-License-Identifier: Apache-2.0
// Replacements that the linker gives ccoll for looking up RDMA devices: see device.hpp.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

#include "rdma/device.hpp"
#include "rdma/faults.hpp"

namespace {

using namespace ccoll::testing;

constexpr std::string_view kLibrary = "libibverbs.so.1";
constexpr std::string_view kSysfs = "/sys/class/infiniband";

char our_library;              // its address stands for the device
void* real_library = nullptr;  // set before its first function is looked up

/// Words: "real", and faults. They are read once, when the program starts.
struct Given {
  bool is_real = false;
  Given() {
    const char* const text = std::getenv("CCOLL_TEST_RDMA");
    std::istringstream words(text == nullptr ? "" : text);
    for (std::string word; words >> word;)
      if (word == "real")
        is_real = true;
      else
        rdma::arm(word);
  }
};

const Given& given() {
  static const Given once;
  return once;
}

}  // namespace

// Sanitizers look up functions of their own before they can be excluded.
#if defined(__clang__)
#define CCOLL_BEFORE_SANITIZERS __attribute__((disable_sanitizer_instrumentation))
#else
#define CCOLL_BEFORE_SANITIZERS
#endif

extern "C" {

void* __real_dlopen(const char* name, int flags);
void* __real_dlsym(void* library, const char* name);
int __real_access(const char* path, int mode);

void* __wrap_dlopen(const char* name, int flags) {
  if (name == nullptr || name != kLibrary) return __real_dlopen(name, flags);
  if (rdma::lacks(name)) return __real_dlopen("none of this name", flags);
  if (!given().is_real) return &our_library;
  return real_library = __real_dlopen(name, flags);
}

CCOLL_BEFORE_SANITIZERS void* __wrap_dlsym(void* library, const char* name) {
  if (library == &our_library) return rdma::between(name, rdma::entry(name));
  void* const found = __real_dlsym(library, name);
  return library != nullptr && library == real_library ? rdma::between(name, found) : found;
}

int __wrap_access(const char* path, int mode) {
  if (path == kSysfs && !given().is_real) return 0;
  return __real_access(path, mode);
}
}
