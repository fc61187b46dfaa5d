// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Certificates for tests of TLS, made on the spot in a directory that is removed with them.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>

#include "ccoll/tls.hpp"
#include "support/directory.hpp"

namespace ccoll::testing {

struct CertificateFacts {
  std::string dns = "rank.test";
  long from_seconds = -3600;  ///< from now
  long until_seconds = 3600;
};

/// A certificate authority and the certificates it signs.
class Authority {
 public:
  explicit Authority(const std::string& name) : key_(EVP_EC_gen("P-256"), EVP_PKEY_free) {
    certificate_ = make(name, key_.get(), {}, true);
    write("ca.pem", certificate_.get());
  }
  /// An intermediate authority, signed by `above`.
  Authority(const std::string& name, const Authority& above)
      : key_(EVP_EC_gen("P-256"), EVP_PKEY_free),
        certificate_(above.make(name, key_.get(), {}, true)) {
    write("ca.pem", certificate_.get());
  }
  std::string file(const std::string& name) const { return directory_.file(name); }

  /// Issues a certificate of that name; returns the options of a process that has it and its key.
  TlsOptions issue(const std::string& name, const CertificateFacts& facts = {}) const {
    const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const auto certificate = make(name, key.get(), facts, false);
    write(name + ".pem", certificate.get());
    const std::string path = file(name + ".key");
    FILE* const out = std::fopen(path.c_str(), "w");
    PEM_write_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(out);
    ::chmod(path.c_str(), 0600);
    return {"cert", file(name + ".pem"), path, file("ca.pem"), {}};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
  using Certificate = std::unique_ptr<X509, void (*)(X509*)>;

  static void extend(X509* certificate, X509* issuer, int what, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  Certificate make(const std::string& name, EVP_PKEY* key, const CertificateFacts& facts,
                   bool authority) const {
    static long serial = 1;
    Certificate made(X509_new(), X509_free);
    X509_set_version(made.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), facts.from_seconds);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), facts.until_seconds);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* const issuer = certificate_ ? certificate_.get() : made.get();
    X509_set_issuer_name(made.get(), X509_get_subject_name(issuer));
    X509_set_pubkey(made.get(), key);
    extend(made.get(), issuer, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (!authority) extend(made.get(), issuer, NID_subject_alt_name, "DNS:" + facts.dns);
    X509_sign(made.get(), key_.get(), EVP_sha256());
    return made;
  }

  void write(const std::string& name, X509* certificate) const {
    FILE* const out = std::fopen(file(name).c_str(), "w");
    PEM_write_X509(out, certificate);
    std::fclose(out);
  }

  Directory directory_;
  Key key_;
  Certificate certificate_{nullptr, X509_free};
};

}  // namespace ccoll::testing
