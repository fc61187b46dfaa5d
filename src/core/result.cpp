// SPDX-License-Identifier: Apache-2.0
#include "core/result.hpp"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <system_error>

#include "core/os_error.hpp"

namespace ccoll {

Failure failure_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return {error.kind(), error.what(), std::nullopt};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::exhausted, "out of memory", std::nullopt};
  } catch (const std::system_error& error) {
    const auto& code = error.code();
    std::string text = error.what();
    if (const auto said = code.message(); text.ends_with(said))
      text.replace(text.size() - said.size(), text.npos, os_error(code));
    return {ran_out(code) ? ErrorKind::exhausted : ErrorKind::internal, std::move(text),
            std::nullopt};
  } catch (const std::exception& error) {
    return {ErrorKind::internal, error.what(), std::nullopt};
  } catch (...) {
    return {ErrorKind::internal, "an exception of unknown type", std::nullopt};
  }
}

void check_failed(const char* expression, const char* file, int line, const std::string& operands) {
  std::fprintf(stderr, "ccoll: %s:%d: check failed: %s%s%s\n", file, line, expression,
               operands.empty() ? "" : ": ", operands.c_str());
  std::abort();
}

}  // namespace ccoll
