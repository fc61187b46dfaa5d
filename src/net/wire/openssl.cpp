// SPDX-License-Identifier: Apache-2.0
#include "net/wire/openssl.hpp"

#include <openssl/crypto.h>

namespace ccoll::net {

UsingOpenSsl::UsingOpenSsl() { OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr); }

void UsingOpenSsl::leave_thread() {
  const UsingOpenSsl use;
  OPENSSL_thread_stop();
}

}  // namespace ccoll::net
