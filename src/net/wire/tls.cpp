// SPDX-License-Identifier: Apache-2.0
#include "net/wire/tls.hpp"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstring>
#include <new>
#include <type_traits>

#include "net/wire/openssl.hpp"
#include "system/read_file.hpp"
#include "system/variables.hpp"

namespace ccoll::net {
namespace {

template <auto Free>
struct FreeBy {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <typename T, auto Free>
using Owned = std::unique_ptr<T, FreeBy<Free>>;

/// The name of the pre-shared key. It names the protocol, not the job: only the key itself depends
/// on the token.
constexpr std::string_view kIdentity = "ccoll";
constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kMostKeyFileBytes = 64 << 10;
constexpr std::size_t kMostCertificateFileBytes = 4 << 20;
/// Cipher suites with the hash that makes the key from the token.
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr unsigned char kFirstSuite[] = {0x13, 0x01};
/// OpenSSL takes a session only in the context that it was made for.
constexpr unsigned char kPlace[] = {'c', 'c', 'o', 'l', 'l'};

/// The newest error of OpenSSL on this thread; the call clears it.
unsigned long last_error() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  return error;
}

std::string text_of(unsigned long error) {
  const char* const reason = ERR_reason_error_string(error);
  return reason != nullptr ? reason : fmt::format("error {:#x} of OpenSSL", error);
}

tl::unexpected<Failure> no_memory() {
  return fail(ErrorKind::exhausted, "TLS: {}", text_of(last_error()));
}

/// HKDF-SHA256 with a label, so that the key is separate from the token's other uses.
Result<std::string> key_from(const std::string& token) {
  const Owned<EVP_KDF, EVP_KDF_free> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const Owned<EVP_KDF_CTX, EVP_KDF_CTX_free> context(EVP_KDF_CTX_new(kdf.get()));
  std::string secret = token;
  std::string label = "ccoll tls 1.3 psk";
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, label.data(), label.size()),
      OSSL_PARAM_construct_end()};
  std::string key(kKeyBytes, '\0');
  if (!context || EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(key.data()),
                                 key.size(), parameters) != 1)
    return no_memory();
  return key;
}

enum class Mode : std::uint8_t { psk, cert };

class Context final : public Tls {
 public:
  Context(Mode m, TlsOptions o) : mode(m), options(std::move(o)) {}
  ~Context() override {
    const UsingOpenSsl use;
    context.reset();
  }
  std::string name() const override { return "CCOLL_TLS=" + options.mode; }

  const Mode mode;
  const TlsOptions options;
  std::string key;  ///< psk
  Owned<SSL_CTX, SSL_CTX_free> context;
};

const Context& context_of(SSL* ssl) {
  return *static_cast<const Context*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

/// A session whose secret is the key from the token. OpenSSL frees it.
SSL_SESSION* session_of(SSL* ssl) {
  const std::string& key = context_of(ssl).key;
  Owned<SSL_SESSION, SSL_SESSION_free> session(SSL_SESSION_new());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(key.data());
  const bool made = session && SSL_SESSION_set1_master_key(session.get(), bytes, key.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), SSL_CIPHER_find(ssl, kFirstSuite)) == 1 &&
                    SSL_SESSION_set1_id_context(session.get(), kPlace, sizeof kPlace) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  return made ? session.release() : nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  *session = hash == nullptr || EVP_MD_is_a(hash, "SHA256") == 1 ? session_of(ssl) : nullptr;
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *length = kIdentity.size();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), length);
  *session = offered == kIdentity ? session_of(ssl) : nullptr;
  return 1;
}

int no_passphrase(char*, int, int, void*) { return 0; }

/// Notes the name in a peer's certificate if that, or its chain, does not pass.
int note_subject(int good, X509_STORE_CTX* store) {
  if (good == 1) return 1;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const subject = static_cast<std::string*>(SSL_get_app_data(ssl));
  const X509* const certificate = X509_STORE_CTX_get0_cert(store);
  if (subject == nullptr || certificate == nullptr) return 0;
  const Owned<BIO, BIO_free> text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* start = nullptr;
  const long count = BIO_get_mem_data(text.get(), &start);
  if (count > 0) subject->assign(start, static_cast<std::size_t>(count));
  return 0;
}

/// The contents of a certificate's files. They are read before OpenSSL is in use, because a file
/// system may hang, and a fork would wait for it.
struct CertificateFiles {
  std::string certificate;
  std::string key;
  std::string authority;

  CertificateFiles() = default;
  CertificateFiles(CertificateFiles&&) = default;
  CertificateFiles& operator=(CertificateFiles&&) = default;
  ~CertificateFiles() { OPENSSL_cleanse(key.data(), key.size()); }
};

Result<CertificateFiles> read_files(const TlsOptions& options) {
  const std::pair<const char*, const std::string*> needed[] = {
      {"CCOLL_TLS_CERT", &options.certificate},
      {"CCOLL_TLS_KEY", &options.key},
      {"CCOLL_TLS_CA", &options.authority}};
  for (const auto& [variable, path] : needed)
    if (path->empty())
      return fail(ErrorKind::invalid_argument,
                  "CCOLL_TLS=cert needs three files: {} is not set (CCOLL_TLS_CERT, CCOLL_TLS_KEY, "
                  "CCOLL_TLS_CA)",
                  variable);
  auto certificate = read_file("CCOLL_TLS_CERT", options.certificate, kMostCertificateFileBytes);
  if (!certificate) return tl::unexpected(certificate.error());
  auto authority = read_file("CCOLL_TLS_CA", options.authority, kMostCertificateFileBytes);
  if (!authority) return tl::unexpected(authority.error());
  // The key comes last: it is wiped only as one of the files.
  auto key = read_private_file("CCOLL_TLS_KEY", options.key, kMostKeyFileBytes);
  if (!key) return tl::unexpected(key.error());
  CertificateFiles files;
  files.certificate = std::move(*certificate);
  files.authority = std::move(*authority);
  files.key = std::move(*key);
  return files;
}

using Bytes = Owned<BIO, BIO_free>;
using Certificate = Owned<X509, X509_free>;

Bytes bytes_of(const std::string& text) {
  return Bytes(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

tl::unexpected<Failure> bad_file(std::string_view what, const std::string& path,
                                 std::string_view expected) {
  return fail(ErrorKind::invalid_argument, "{} {}: {} ({})", what, path, expected,
              text_of(last_error()));
}

/// Reads the file as SSL_CTX_use_certificate_chain_file does: the certificate itself, then those
/// between it and the authority.
bool use_chain(SSL_CTX* context, const std::string& text) {
  const auto bytes = bytes_of(text);
  const Certificate own(PEM_read_bio_X509_AUX(bytes.get(), nullptr, no_passphrase, nullptr));
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (Certificate next{PEM_read_bio_X509(bytes.get(), nullptr, no_passphrase, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context, next.get()) != 1) return false;
    (void)next.release();
  }
  const auto end = ERR_peek_last_error();
  return ERR_GET_LIB(end) == ERR_LIB_PEM && ERR_GET_REASON(end) == PEM_R_NO_START_LINE;
}

/// Reads as SSL_CTX_load_verify_file does: certificates, and lists of revoked ones.
bool use_authority(SSL_CTX* context, const std::string& text) {
  using Infos = STACK_OF(X509_INFO);
  constexpr auto free_all = [](Infos* all) { sk_X509_INFO_pop_free(all, X509_INFO_free); };
  const auto bytes = bytes_of(text);
  const std::unique_ptr<Infos, decltype(free_all)> infos(
      PEM_X509_INFO_read_bio(bytes.get(), nullptr, no_passphrase, nullptr));
  if (!infos) return false;
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  bool any = false;
  for (int i = 0; i < sk_X509_INFO_num(infos.get()); i++) {
    const X509_INFO& info = *sk_X509_INFO_value(infos.get(), i);
    if (info.x509 != nullptr && X509_STORE_add_cert(store, info.x509) != 1) return false;
    if (info.crl != nullptr && X509_STORE_add_crl(store, info.crl) != 1) return false;
    any |= info.x509 != nullptr || info.crl != nullptr;
  }
  if (!any) ERR_raise(ERR_LIB_X509, X509_R_NO_CERTIFICATE_OR_CRL_FOUND);
  return any;
}

Status use_key(SSL_CTX* context, const std::string& text, const std::string& path) {
  const auto bytes = bytes_of(text);
  const Owned<EVP_PKEY, EVP_PKEY_free> key(
      PEM_read_bio_PrivateKey(bytes.get(), nullptr, no_passphrase, nullptr));
  if (!key) return bad_file("CCOLL_TLS_KEY", path, "expected a private key in PEM, not encrypted");
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return bad_file("CCOLL_TLS_KEY", path, "it is not the key of the certificate CCOLL_TLS_CERT");
  return {};
}

Status use_certificates(SSL_CTX* context, const TlsOptions& options,
                        const CertificateFiles& files) {
  ERR_clear_error();
  if (!use_chain(context, files.certificate))
    return bad_file("CCOLL_TLS_CERT", options.certificate, "expected a certificate in PEM");
  ERR_clear_error();
  CCOLL_TRY(use_key(context, files.key, options.key));
  if (!use_authority(context, files.authority))
    return bad_file("CCOLL_TLS_CA", options.authority,
                    "expected the authority's certificate in PEM");
  if (options.name.empty()) return {};
  X509_VERIFY_PARAM* const rules = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (X509_VERIFY_PARAM_set1_host(rules, options.name.data(), options.name.size()) != 1)
    return fail(ErrorKind::invalid_argument, "CCOLL_TLS_NAME={} is not a DNS name", options.name);
  return {};
}

Status use_token(Context& made, const std::string& token) {
  if (token.empty())
    return fail(ErrorKind::invalid_argument,
                "CCOLL_TLS=psk makes its key from the job's token, and there is none: set "
                "CCOLL_TOKEN_FILE (cc-run makes one by itself)");
  auto key = key_from(token);
  if (!key) return tl::unexpected(key.error());
  made.key = std::move(*key);
  SSL_CTX_set_psk_use_session_callback(made.context.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(made.context.get(), find_key);
  return {};
}

Status set_up(Context& made, const std::string& token) {
  CertificateFiles files;
  if (made.mode == Mode::cert) {
    auto read = read_files(made.options);
    if (!read) return tl::unexpected(read.error());
    files = std::move(*read);
  }
  const UsingOpenSsl use;
  made.context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made.context.get();
  if (context == nullptr) return no_memory();
  const bool good = SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context, kSuites) == 1 &&
                    // No session is resumed: each connection proves everything anew.
                    SSL_CTX_set_num_tickets(context, 0) == 1 &&
                    SSL_CTX_set_session_id_context(context, kPlace, sizeof kPlace) == 1;
  if (!good) return no_memory();
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_app_data(context, &made);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, note_subject);
  if (made.mode == Mode::psk) return use_token(made, token);
  return use_certificates(context, made.options, files);
}

/// True if the peer's bytes are no TLS records at all.
bool speaks_no_tls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
         reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

/// The text of both modes if the other side has the other mode, or another version of TLS.
std::string disagreement(const Context& tls, unsigned long error) {
  return fmt::format("no agreement on TLS 1.3 with {} ({}): give all ranks and the store the same",
                     tls.name(), text_of(error));
}

std::string psk_text(const Context& tls, unsigned long error) {
  const int reason = ERR_GET_REASON(error);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return "it presents a certificate (CCOLL_TLS=cert), but this side has CCOLL_TLS=psk";
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY || reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER ||
      reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR)
    return "the token differs; give all ranks and the store the same CCOLL_TOKEN_FILE (cc-run "
           "--token-file)";
  return disagreement(tls, error);
}

std::string certificate_text(const Context& tls, SSL* ssl, unsigned long error,
                             const std::string& subject) {
  const TlsOptions& options = tls.options;
  const int reason = ERR_GET_REASON(error);
  const std::string named =
      options.name.empty() ? "" : fmt::format(" and that is for {} (CCOLL_TLS_NAME)", options.name);
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return fmt::format(
        "its certificate ({}) is refused: {}; expected one that CCOLL_TLS_CA={} has "
        "signed{}",
        subject, X509_verify_cert_error_string(SSL_get_verify_result(ssl)), options.authority,
        named);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return fmt::format("it presents no certificate; expected one that CCOLL_TLS_CA={} has signed",
                       options.authority);
  const bool refused = reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
                       reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
                       reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED ||
                       reason == SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED ||
                       reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN ||
                       reason == SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE ||
                       reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED;
  if (refused)
    return fmt::format("it refuses this side's certificate CCOLL_TLS_CERT={} ({})",
                       options.certificate, text_of(error));
  return disagreement(tls, error);
}

class Session final : public TlsSession {
 public:
  Session(std::shared_ptr<const Context> tls, Role role) : tls_(std::move(tls)) {
    const UsingOpenSsl use;
    ssl_.reset(SSL_new(tls_->context.get()));
    if (!ssl_) return;
    SSL_set_app_data(ssl_.get(), &subject_);
    in_ = BIO_new(BIO_s_mem());
    out_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), in_, out_);
    if (role == Role::client)
      SSL_set_connect_state(ssl_.get());
    else
      SSL_set_accept_state(ssl_.get());
  }
  ~Session() override {
    const UsingOpenSsl use;
    ssl_.reset();
  }
  bool made() const { return ssl_ && in_ != nullptr && out_ != nullptr; }

  void feed(std::string_view wire) override {
    const int taken = BIO_write(in_, wire.data(), static_cast<int>(wire.size()));
    if (taken != static_cast<int>(wire.size())) throw std::bad_alloc();
  }

  std::string take() override {
    std::string wire(BIO_ctrl_pending(out_), '\0');
    if (!wire.empty()) BIO_read(out_, wire.data(), static_cast<int>(wire.size()));
    return wire;
  }

  Result<bool> shake_hands() override {
    const UsingOpenSsl use;
    ERR_clear_error();
    const int done = SSL_do_handshake(ssl_.get());
    if (done != 1) return awaits(done) ? Result<bool>(false) : failure();
    // A peer that came with a certificate, where a key was needed, has proved nothing.
    if (tls_->mode == Mode::psk && SSL_session_reused(ssl_.get()) != 1)
      return fail(ErrorKind::mismatch, "it ignored the key from the token");
    return true;
  }

  Result<std::optional<std::size_t>> open(std::span<char> into) override {
    ERR_clear_error();
    std::size_t count = 0;
    const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &count);
    if (done == 1) return count;
    if (awaits(done)) return std::size_t{0};
    if (SSL_get_error(ssl_.get(), done) == SSL_ERROR_ZERO_RETURN) return std::nullopt;
    return failure();
  }

  Result<std::string> seal(std::string_view plain) override {
    ERR_clear_error();
    std::size_t count = 0;
    // The BIO in memory takes everything at once.
    if (!plain.empty() && SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &count) != 1)
      return failure();
    return take();
  }

  std::string seal_end() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    return take();
  }

  std::string binding() const override {
    const UsingOpenSsl use;
    constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
    std::string value(32, '\0');
    const int done =
        SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(value.data()),
                                   value.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0);
    if (done != 1) throw std::bad_alloc();  // nothing else can be wrong with it
    return value;
  }

 private:
  bool awaits(int done) const { return SSL_get_error(ssl_.get(), done) == SSL_ERROR_WANT_READ; }

  tl::unexpected<Failure> failure() {
    const UsingOpenSsl use;
    const unsigned long error = last_error();
    if (speaks_no_tls(ERR_GET_REASON(error)))
      return fail(ErrorKind::mismatch,
                  "it does not speak TLS (CCOLL_TLS=off), but this side has {}", tls_->name());
    return fail(ErrorKind::mismatch, "{}",
                tls_->mode == Mode::psk ? psk_text(*tls_, error)
                                        : certificate_text(*tls_, ssl_.get(), error, subject_));
  }

  const std::shared_ptr<const Context> tls_;
  Owned<SSL, SSL_free> ssl_;
  BIO* in_ = nullptr;   // ssl_'s
  BIO* out_ = nullptr;  // ssl_'s
  std::string subject_;
};

std::string given_or(const std::string& given, const char* variable) {
  return !given.empty() ? given : read_variable(variable).value_or("");
}

}  // namespace

Result<std::shared_ptr<const Tls>> Tls::make(const std::string& token, const TlsOptions& options) {
  TlsOptions asked;
  asked.mode = given_or(options.mode, "CCOLL_TLS");
  asked.certificate = given_or(options.certificate, "CCOLL_TLS_CERT");
  asked.key = given_or(options.key, "CCOLL_TLS_KEY");
  asked.authority = given_or(options.authority, "CCOLL_TLS_CA");
  asked.name = given_or(options.name, "CCOLL_TLS_NAME");
  if (asked.mode.empty() || asked.mode == "off") return nullptr;
  CCOLL_TRY(check_word("CCOLL_TLS", asked.mode));
  const Mode mode = asked.mode == "psk" ? Mode::psk : Mode::cert;
  const auto made = std::make_shared<Context>(mode, std::move(asked));
  CCOLL_TRY(set_up(*made, token));
  return made;
}

Result<Credentials> Credentials::make(std::string token, const TlsOptions& options) {
  auto tls = Tls::make(token, options);
  if (!tls) return tl::unexpected(tls.error());
  Credentials made(std::move(token));
  made.tls = std::move(*tls);
  return made;
}

Result<std::unique_ptr<TlsSession>> TlsSession::begin(std::shared_ptr<const Tls> tls, Role role) {
  auto session =
      std::make_unique<Session>(std::static_pointer_cast<const Context>(std::move(tls)), role);
  if (!session->made()) return no_memory();
  return session;
}

}  // namespace ccoll::net
