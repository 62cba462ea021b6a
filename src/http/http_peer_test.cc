#include "http/http_peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <fstream>
#include <thread>

#include "testing/scripted_endpoint.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::HasSubstr;
using Reaction = ScriptedEndpoint::Reaction;

std::unique_ptr<HttpPeer> PeerOf(const std::string& url, HttpPeerOptions options = {}) {
  return HttpPeer::Make(ParseHttpUrl(url).value(), std::move(options)).value();
}

HttpAsk Post(std::string body) {
  HttpAsk ask;
  ask.target = "/v1/x";
  ask.body = std::move(body);
  return ask;
}

constexpr milliseconds kLong = std::chrono::seconds(20);

TEST(HttpUrl, ReadsWhatAnAddressIsMadeOf) {
  const HttpUrl url = ParseHttpUrl("https://judge.example:8443/v1/").value();
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "judge.example");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.path, "/v1");
  EXPECT_EQ(url.Authority(), "judge.example:8443");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:80")->Authority(), "[::1]");
  EXPECT_EQ(ParseHttpUrl("https://a/b/c")->port, "443");
}

TEST(HttpUrl, RefusesWhatIsNoneAndSaysWhatIsRight) {
  for (const char* text :
       {"judge.example", "ftp://a", "http://", "http://a:0", "http://a:99999", "http://a:x",
        "http://user@a", "http://a/b?c", "http://a/b c", "http://a\r\nX: y/"}) {
    const auto url = ParseHttpUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_THAT(url.status().message(), HasSubstr("right is http://HOST:PORT/PATH"));
  }
}

TEST(HttpPeer, KeepsItsConnection) {
  ScriptedEndpoint server([](const std::string& head, const std::string& body) {
    EXPECT_THAT(head, HasSubstr("POST /v1/x HTTP/1.1"));
    return Reaction{.bytes = ScriptedEndpoint::Answer(200, "got " + body)};
  });
  const auto peer = PeerOf(server.url());
  for (int i = 0; i < 5; ++i) {
    const auto answer = peer->Ask(Post(std::to_string(i)), kLong);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "got " + std::to_string(i));
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpPeer, OpensAnotherConnectionWhereTheServerClosedTheLast) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(200, "ok"), .close = true};
  });
  const auto peer = PeerOf(server.url());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(peer->Ask(Post("x"), kLong).ok());
  EXPECT_EQ(server.connections(), 3);
}

TEST(HttpPeer, EndsASlowAnswerAtTheDeadline) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(200, "late"), .delay_ms = 30'000};
  });
  const auto peer = PeerOf(server.url());
  const Time began = std::chrono::steady_clock::now();
  const auto answer = peer->Ask(Post("x"), milliseconds(50));
  EXPECT_EQ(answer.status().code(), Code::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("no answer in time"));
  EXPECT_LT(Seconds(std::chrono::steady_clock::now() - began), 10);
}

TEST(HttpPeer, HoldsAnAnswerThatNeverEndsToDeadlineAndSize) {
  ScriptedEndpoint flooding([](const std::string&, const std::string&) {
    return Reaction{.bytes = "HTTP/1.1 200 X\r\nContent-Length: 100000000000\r\n\r\n" +
                             std::string(60'000, 'x'),
                    .flood = true};
  });
  const auto peer = PeerOf(flooding.url(), {.body_max = 1000});
  EXPECT_THAT(peer->Ask(Post("x"), kLong).status().message(), HasSubstr("too large"));
  ScriptedEndpoint chunks([](const std::string&, const std::string&) {
    return Reaction{.bytes = "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n",
                    .close = false};
  });
  EXPECT_FALSE(PeerOf(chunks.url())->Ask(Post("x"), milliseconds(50)).ok());
  ScriptedEndpoint headers([](const std::string&, const std::string&) {
    return Reaction{.bytes = "X-Flood: " + std::string(1000, 'x') + "\r\n", .flood = true};
  });
  EXPECT_FALSE(PeerOf(headers.url())->Ask(Post("x"), kLong).ok());
}

TEST(HttpPeer, TakesWhatIsNoHttpAsAFailure) {
  for (const char* bytes :
       {"hello\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "\x00\xff\xfe", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"}) {
    ScriptedEndpoint server([bytes](const std::string&, const std::string&) {
      return Reaction{.bytes = bytes, .close = true};
    });
    const auto answer = PeerOf(server.url())->Ask(Post("x"), kLong);
    EXPECT_EQ(answer.status().code(), Code::kUnavailable) << bytes;
  }
}

TEST(HttpPeer, SaysWhoCannotBeReached) {
  const uint16_t free = [] {
    ScriptedEndpoint server([](const std::string&, const std::string&) { return Reaction{}; });
    return server.port();
  }();
  const std::string at = "127.0.0.1:" + std::to_string(free);
  const auto answer = PeerOf("http://" + at)->Ask(Post("x"), kLong);
  EXPECT_EQ(answer.status().code(), Code::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr(at));
}

TEST(HttpPeer, ReadsHowLongToWait) {
  ScriptedEndpoint server([](const std::string&, const std::string&) {
    return Reaction{.bytes = ScriptedEndpoint::Answer(429, "{}", "Retry-After: 7\r\n")};
  });
  const auto answer = PeerOf(server.url())->Ask(Post("x"), kLong);
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->retry_after, std::chrono::seconds(7));
}

TEST(HttpPeer, IsInterruptedFromAnotherThread) {
  std::atomic<bool> asked{false};
  ScriptedEndpoint server([&](const std::string&, const std::string&) {
    asked = true;
    return Reaction{.delay_ms = 30'000};
  });
  const auto peer = PeerOf(server.url());
  std::thread other([&] {
    EXPECT_TRUE(Eventually([&] { return asked.load(); }));
    peer->Interrupt();
  });
  EXPECT_THAT(peer->Ask(Post("x"), kLong).status().message(), HasSubstr("stopped"));
  EXPECT_FALSE(peer->Ask(Post("x"), kLong).ok());
  other.join();
}

// A key and a certificate that it signed itself, for `name`, in one file.
void MakeCertificate(const std::string& path, const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
  X509_set_issuer_name(certificate, subject);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, ("DNS:" + name).c_str());
  X509_add_ext(certificate, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(certificate, key, EVP_sha256());
  FILE* file = fopen(path.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_X509(file, certificate);
  fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
}

// Serves each connection one answer.
class SealedServer {
 public:
  explicit SealedServer(const std::string& pem) {
    context_.use_certificate_file(pem, boost::asio::ssl::context::pem);
    context_.use_private_key_file(pem, boost::asio::ssl::context::pem);
    Accept();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~SealedServer() {
    io_.stop();
    thread_.join();
  }
  std::string url() const {
    return "https://localhost:" + std::to_string(acceptor_.local_endpoint().port());
  }

 private:
  void Accept() {
    acceptor_.async_accept(
        [this](boost::system::error_code error, boost::asio::ip::tcp::socket socket) {
          if (!error) Serve(std::move(socket));
          Accept();
        });
  }
  void Serve(boost::asio::ip::tcp::socket socket) {
    namespace http = boost::beast::http;
    boost::system::error_code error;
    boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream(std::move(socket), context_);
    stream.handshake(boost::asio::ssl::stream_base::server, error);
    if (error) return;
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    http::read(stream, buffer, request, error);
    if (error) return;
    http::response<http::string_body> response(http::status::ok, 11, "sealed");
    response.prepare_payload();
    http::write(stream, response, error);
  }

  boost::asio::io_context io_;
  boost::asio::ssl::context context_{boost::asio::ssl::context::tls_server};
  boost::asio::ip::tcp::acceptor acceptor_{io_, {boost::asio::ip::make_address("127.0.0.1"), 0}};
  std::thread thread_;
};

TEST(HttpPeer, TrustsOnlyCertificatesItWasGivenAndForTheNameItAskedFor) {
  TemporaryDirectory folder;
  MakeCertificate(folder / "right.pem", "localhost");
  MakeCertificate(folder / "other.pem", "other.example");
  SealedServer right(folder / "right.pem"), other(folder / "other.pem");
  const auto answer = PeerOf(right.url(), {.ca_file = folder / "right.pem"})->Ask(Post("x"), kLong);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "sealed");
  EXPECT_FALSE(PeerOf(right.url())->Ask(Post("x"), kLong).ok());
  EXPECT_FALSE(PeerOf(right.url(), {.ca_file = folder / "other.pem"})->Ask(Post("x"), kLong).ok());
  EXPECT_FALSE(PeerOf(other.url(), {.ca_file = folder / "other.pem"})->Ask(Post("x"), kLong).ok());
}

TEST(HttpPeer, RefusesCertificatesThatCannotBeRead) {
  const auto made = HttpPeer::Make(ParseHttpUrl("https://a").value(), {.ca_file = "/nowhere.pem"});
  EXPECT_EQ(made.status().code(), Code::kInvalid);
  EXPECT_THAT(made.status().message(), HasSubstr("/nowhere.pem"));
}

}  // namespace
}  // namespace tidemill
