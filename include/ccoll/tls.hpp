// SPDX-License-Identifier: Apache-2.0
#pragma once

/// TLS 1.3 on the connections to a store and between ranks' control paths. The callers' data, which
/// go over links, are not encrypted.

#include <string>

#include "ccoll/version.hpp"

namespace ccoll {

/// All that meet give the same `mode`. A field that is empty is taken from the environment.
struct CCOLL_API TlsOptions {
  /// "off"; "psk": the key comes from the job's token, which there must be; "cert": both sides of a
  /// connection show a certificate. CCOLL_TLS, otherwise off.
  std::string mode = {};
  /// "cert": the file with this process's certificate and those between it and the authority, PEM.
  /// CCOLL_TLS_CERT.
  std::string certificate = {};
  /// The file with its private key, PEM, not encrypted, readable by its owner only. CCOLL_TLS_KEY.
  std::string key = {};
  /// The file with the authorities that have signed the others' certificates, PEM. CCOLL_TLS_CA.
  std::string authority = {};
  /// The DNS name that every peer's certificate must be for; empty: any that the authority signed.
  /// Not the host's: ranks find each other by numeric addresses. CCOLL_TLS_NAME.
  std::string name = {};

  friend auto operator<=>(const TlsOptions&, const TlsOptions&) = default;
};

}  // namespace ccoll
