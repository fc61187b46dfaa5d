// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace ccoll::testing {

/// Limits the number of the process's descriptors while it lives.
class LimitedDescriptors {
 public:
  explicit LimitedDescriptors(rlim_t soft) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = soft;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~LimitedDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  LimitedDescriptors(const LimitedDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace ccoll::testing
