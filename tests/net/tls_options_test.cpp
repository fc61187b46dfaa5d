// SPDX-License-Identifier: Apache-2.0
// The options of TLS: what files and the environment may say, and what is refused.
#include "ccoll/strangers.hpp"
#include "net/wire/tls.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "net/wire/outbox.hpp"
#include "support/certificates.hpp"
#include "tls_peers.hpp"

using namespace ccoll;
using namespace ccoll::testing;
using namespace std::chrono_literals;
using asio::ip::tcp;

TEST_CASE("tls: files may hold more than one certificate", "[core][tls]") {
  const Authority authority("authority"), other("other");
  const Authority between("between", authority);
  const auto text = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  auto server = between.issue("server");
  server.authority = authority.file("ca.pem");
  auto client = authority.issue("client");
  const auto back = [&] {
    return said_back(Echo(credentials(server)).address(), credentials(client));
  };
  CHECK(message_of(back()).find("unable to get local issuer certificate") != std::string::npos);
  // The file includes the intermediate certificate.
  std::ofstream(server.certificate, std::ios::app) << text(between.file("ca.pem"));
  CHECK(message_of(back()) == "good");
  // Another authority comes first in the file.
  client.authority += ".both";
  std::ofstream(client.authority) << text(other.file("ca.pem")) << text(authority.file("ca.pem"));
  CHECK(message_of(back()) == "good");
  std::ofstream(server.certificate, std::ios::app)
      << "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n";
  CHECK(message_of(net::Credentials::make(kToken, server)).find("expected a certificate in PEM") !=
        std::string::npos);
}

TEST_CASE("tls: options that cannot work are refused with what was expected", "[core][tls]") {
  const Authority authority("authority");
  const TlsOptions good = authority.issue("good");
  const TlsOptions second = authority.issue("second");
  const auto told = [](const TlsOptions& options, const std::string& token = kToken) {
    return message_of(net::Credentials::make(token, options));
  };
  CHECK(told(good) == "good");
  CHECK(told({"on", {}, {}, {}, {}}) == "CCOLL_TLS=on: expected off, psk, cert");
  CHECK(told(kPsk, "").find("there is none: set CCOLL_TOKEN_FILE") != std::string::npos);
  auto bad = good;
  bad.key.clear();
  CHECK(told(bad).find("CCOLL_TLS_KEY is not set") != std::string::npos);
  bad = good;
  bad.certificate = "/nowhere";
  CHECK(told(bad) == "CCOLL_TLS_CERT /nowhere: No such file or directory");
  bad = good;
  bad.authority = good.key;
  CHECK(told(bad).find("CCOLL_TLS_CA " + good.key + ": expected the authority's") == 0);
  bad = good;
  bad.key = second.key;
  CHECK(told(bad).find("it is not the key of the certificate") != std::string::npos);
  bad.key = good.certificate;
  ::chmod(bad.key.c_str(), 0600);
  CHECK(told(bad).find("expected a private key in PEM, not encrypted") != std::string::npos);
  ::chmod(good.key.c_str(), 0640);
  CHECK(told(good).find("others may read or write it (mode 0640)") != std::string::npos);
}

TEST_CASE("tls: the environment says what options leave open", "[core][tls]") {
  ::setenv("CCOLL_TLS", "psk", 1);
  const auto asked = net::Credentials::make(kToken, {});
  const auto not_asked = net::Credentials::make(kToken, kOff);
  ::unsetenv("CCOLL_TLS");
  const auto otherwise = net::Credentials::make(kToken, {});
  REQUIRE(asked);
  CHECK((asked->tls && asked->tls->name() == "CCOLL_TLS=psk"));
  CHECK((not_asked && !not_asked->tls));
  CHECK((otherwise && !otherwise->tls));
}
