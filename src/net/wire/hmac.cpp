// SPDX-License-Identifier: Apache-2.0
// OpenSSL's HMAC() first loads a provider and all its algorithms, which takes 0.7 ms: at start-up
// each rank would wait for that in its own process and in the store's. SHA-256 as OpenSSL 1.1 had
// it loads nothing. OpenSSL 3 discourages it, because no provider can replace it.
#include "net/wire/hmac.hpp"

#include <openssl/sha.h>

namespace ccoll::net {
namespace {

std::string sha256(std::string_view first, std::string_view rest) {
  std::string digest(kHmacBytes, '\0');
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, first.data(), first.size());
  SHA256_Update(&context, rest.data(), rest.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
#pragma GCC diagnostic pop
  return digest;
}

std::string with_each_byte(std::string block, unsigned char flipped) {
  for (char& each : block) each = static_cast<char>(static_cast<unsigned char>(each) ^ flipped);
  return block;
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view text) {
  static_assert(kHmacBytes == SHA256_DIGEST_LENGTH);
  std::string block = key.size() > SHA256_CBLOCK ? sha256(key, {}) : std::string(key);
  block.resize(SHA256_CBLOCK, '\0');
  return sha256(with_each_byte(block, 0x5c), sha256(with_each_byte(block, 0x36), text));
}

}  // namespace ccoll::net
