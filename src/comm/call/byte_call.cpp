// SPDX-License-Identifier: Apache-2.0
#include "comm/call/byte_call.hpp"

#include "comm/call/extent.hpp"

namespace ccoll {

Status check_byte_call(const ByteCall& call, Rank size, const CallOptions& options) {
  CCOLL_TRY(check_root(call.name, static_cast<Rank>(call.root), size));
  CCOLL_TRY(refuse_in_stream(call.name, options));
  if (call.length > kBeyondMemory / size)
    return fail(ErrorKind::invalid_argument,
                "{}: {} bytes from each rank are more than memory can hold", call.name,
                call.length);
  CCOLL_TRY(check_timeout(call.name, options.timeout));
  const auto algorithm = algorithm_named(options.algorithm, call.collective);
  if (!algorithm) return tl::unexpected(algorithm.error());
  return {};
}

}  // namespace ccoll
