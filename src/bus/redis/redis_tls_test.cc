// The bus over TLS, with certificates made for the test alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/redis_test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;

class RedisTlsTest : public testing::Test {
 protected:
  // A certificate that is its own CA, for the address 127.0.0.1 and no name.
  void MakeCertificate(const std::string& name) {
    const std::string command =
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 "
        "-subj /CN=" +
        name + " -addext subjectAltName=IP:127.0.0.1 -keyout " + File(name, "key") + " -out " +
        File(name, "pem") + " 2>" + File(name, "log");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(cert-env33-c): a test's own
  }
  std::string File(const std::string& name, const std::string& kind) const {
    return directory_ / (name + "." + kind);
  }
  void StartServer() {
    MakeCertificate("server");
    tls_port_ = FreePort();
    server_ = std::make_unique<RedisTestServer>(std::vector<std::string>{
        "--tls-port", std::to_string(tls_port_), "--tls-cert-file", File("server", "pem"),
        "--tls-key-file", File("server", "key"), "--tls-ca-cert-file", File("server", "pem"),
        "--tls-auth-clients", "no"});
  }
  std::string Url(const std::string& host, const std::string& ca) const {
    return "rediss://" + host + ":" + std::to_string(tls_port_) + "/0?ca=" + ca;
  }
  Status ConnectTo(const std::string& url, Duration timeout = std::chrono::seconds(10)) {
    auto address = ParseRedisUrl(url);
    EXPECT_TRUE(address.ok()) << address.status().ToString();
    return RedisConnection::Connect(*address, timeout).status();
  }

  TemporaryDirectory directory_;
  int tls_port_ = 0;
  std::unique_ptr<RedisTestServer> server_;
};

TEST_F(RedisTlsTest, CarriesMessagesOfEverySize) {
  StartServer();
  auto bus = Connect(*server_, [&](RedisBusOptions& options) {
    options.url = Url("127.0.0.1", File("server", "pem"));
  });
  ASSERT_NE(bus, nullptr);
  ASSERT_TRUE(bus->Open("t", {}).ok());
  for (size_t size : {0u, 1u, 16'383u, 16'384u, 200'000u, 3'000'000u}) {
    const std::string body(size, static_cast<char>('a' + size % 26));
    ASSERT_TRUE(bus->Publish("t", body).ok());
    const std::vector<Lease> leases = Take(*bus, "t", 1);
    ASSERT_EQ(leases.size(), 1u);
    EXPECT_EQ(leases[0].body, body);
    EXPECT_TRUE(bus->Ack(leases[0]).ok());
  }
}

TEST_F(RedisTlsTest, RefusesAServerNoKnownCaSpeaksFor) {
  StartServer();
  MakeCertificate("another");
  const Status status = ConnectTo(Url("127.0.0.1", File("another", "pem")));
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("certificate was rejected: self-signed"));
}

TEST_F(RedisTlsTest, RefusesACertificateForAnotherHost) {
  StartServer();
  EXPECT_TRUE(ConnectTo(Url("127.0.0.1", File("server", "pem"))).ok());
  const Status status = ConnectTo(Url("localhost", File("server", "pem")));
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("certificate was rejected: hostname mismatch"));
}

TEST_F(RedisTlsTest, SaysWhatIsWrongWithAFileOrAServerWithoutTls) {
  StartServer();
  EXPECT_THAT(ConnectTo(Url("127.0.0.1", "/no/such/ca.pem")).message(),
              HasSubstr("CA certificates of /no/such/ca.pem"));
  const Status plain = ConnectTo(
      "rediss://127.0.0.1:" + std::to_string(server_->port()) + "/0?ca=" + File("server", "pem"),
      milliseconds(300));
  EXPECT_EQ(plain.code(), Code::kUnavailable) << plain.ToString();
}

}  // namespace
}  // namespace tidemill
