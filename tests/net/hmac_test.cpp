// SPDX-License-Identifier: Apache-2.0
#include "net/wire/hmac.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <catch2/catch.hpp>
#include <random>

using namespace ccoll;

namespace {

std::string in_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char each : bytes) {
    const auto byte = static_cast<unsigned char>(each);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

std::string by_openssl(std::string_view key, std::string_view text) {
  std::string made(EVP_MAX_MD_SIZE, '\0');
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(made.data()), &length);
  made.resize(length);
  return made;
}

}  // namespace

TEST_CASE("hmac: the vectors of RFC 4231", "[net]") {
  CHECK(in_hex(net::hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(in_hex(net::hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(in_hex(net::hmac_sha256(std::string(131, '\xaa'),
                                "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("hmac: any key and text give what OpenSSL's HMAC gives", "[net][property]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto bytes = [&](std::size_t most) {
    std::string made(random() % (most + 1), '\0');
    for (char& each : made) each = static_cast<char>(random());
    return made;
  };
  for (int i = 0; i < 1000; i++) {
    // An OpenSSL before 3.0 takes an empty key for the one of the last call.
    const auto key = "k" + bytes(140), text = bytes(300);
    REQUIRE(net::hmac_sha256(key, text) == by_openssl(key, text));
  }
}
