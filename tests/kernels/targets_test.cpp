// SPDX-License-Identifier: Apache-2.0
#include "kernels/targets.hpp"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <memory>

TEST_CASE("targets: they are those that Highway's own library finds", "[kernels][unit]") {
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libhwy.so.1", RTLD_NOW | RTLD_LOCAL),
                                                      dlclose);
  if (library == nullptr) {
    WARN("Highway's library is not here");
    return;
  }
  using Supported = std::int64_t();
  auto* const theirs =
      reinterpret_cast<Supported*>(dlsym(library.get(), "_ZN3hwy16SupportedTargetsEv"));
  REQUIRE(theirs != nullptr);
  std::int64_t known = HWY_STATIC_TARGET;
#if HWY_ARCH_X86
  known |= HWY_SSE4 | HWY_AVX2 | HWY_AVX3;
#endif
  CHECK((hwy::SupportedTargets() & HWY_TARGETS) == (theirs() & HWY_TARGETS & known));
}
