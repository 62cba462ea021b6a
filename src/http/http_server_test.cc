#include "http/http_server.h"
#include "core/mutex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "http/access.h"
#include "testing/http_client.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kToken = "a-token-of-enough-length";

// Echoes what it was asked; "/big" answers 32 MB, "/wait" waits to be let go.
class Fixture : public testing::Test {
 protected:
  void Start(HttpOptions options = {}) {
    HttpHandlers handlers;
    handlers.answer = [this](const HttpRequest& request) { return Answer(request); };
    handlers.open_stream = [this](const HttpRequest& request,
                                  std::shared_ptr<EventStream> stream) -> Status {
      if (request.Find("refuse") != nullptr) return NotFound("no such run");
      MutexLock lock(mutex_);
      streams_.push_back(std::move(stream));
      changed_.NotifyAll();
      return Ok();
    };
    auto server = HttpServer::Start(options, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
  }

  HttpResponse Answer(const HttpRequest& request) {
    HttpResponse response;
    response.content_type = "text/plain";
    response.body = request.method + " " + request.path + (request.admin ? " admin" : "");
    for (const auto& [name, value] : request.query) response.body += " " + name + "=" + value;
    response.body += " " + request.body;
    if (request.path == "/big") response.body.assign(size_t{32} << 20, 'x');
    if (request.path == "/throws") throw std::runtime_error("on purpose");
    if (request.path == "/wait") {
      MutexLock lock(mutex_);
      ++waiting_;
      changed_.NotifyAll();
      changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return released_; });
    }
    return response;
  }

  std::string Ask(const std::string& target, const std::string& headers = "") {
    RawClient client(server_->port());
    client.Get(target, headers + "Connection: close\r\n");
    return client.ReadToEnd();
  }
  std::shared_ptr<EventStream> WaitForStream(size_t n) {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [&]() TM_REQUIRES(mutex_) { return streams_.size() >= n; });
    return streams_[n - 1];
  }

  Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<EventStream>> streams_ TM_GUARDED_BY(mutex_);
  size_t waiting_ TM_GUARDED_BY(mutex_) = 0;
  bool released_ TM_GUARDED_BY(mutex_) = false;
  std::unique_ptr<HttpServer> server_;
};

class HttpServerTest : public Fixture {};

TEST_F(HttpServerTest, AnswersWithPathAndQueryDecoded) {
  Start();
  const std::string answer = Ask("/a%20b/c?x=1%2B2&y=p+q");
  EXPECT_EQ(StatusOf(answer), 200);
  EXPECT_EQ(BodyOf(answer), "GET /a b/c x=1+2 y=p q ");
}

TEST_F(HttpServerTest, SeveralRequestsPassOneConnectionEvenWhenSentTogether) {
  Start();
  RawClient client(server_->port());
  client.Get("/one");
  EXPECT_THAT(client.ReadAnswer(), HasSubstr("GET /one"));
  client.Send(
      "GET /two HTTP/1.1\r\nHost: localhost\r\n\r\nGET /three HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.ReadAnswer(), HasSubstr("GET /two"));
  EXPECT_THAT(client.ReadAnswer(), HasSubstr("GET /three"));
}

TEST_F(HttpServerTest, HeadHasTheHeadersOfGetWithoutItsBody) {
  Start();
  RawClient client(server_->port());
  client.Send("HEAD /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answer = client.ReadToEnd();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_EQ(BodyOf(answer), "");
}

TEST_F(HttpServerTest, EveryAnswerCarriesTheSecurityHeaders) {
  Start();
  for (const char* target : {"/x", "/../x", "/throws"}) {
    const std::string answer = Ask(target);
    EXPECT_THAT(answer,
                HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"));
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff"));
    EXPECT_THAT(answer, HasSubstr("Referrer-Policy: no-referrer"));
    EXPECT_THAT(answer, HasSubstr("X-Frame-Options: DENY"));
  }
}

TEST_F(HttpServerTest, PathsThatTryToLeaveTheirRootAreRefused) {
  Start();
  for (const char* target : {"/../etc/passwd", "/%2e%2e/etc/passwd", "/a/..%2f..%2fetc", "/a/./b",
                             "/a//b", "/a%5c..%5cb", "/%00", "/%zz", "/%", "etc/passwd"}) {
    EXPECT_EQ(StatusOf(Ask(target)), 400) << target;
  }
}

TEST_F(HttpServerTest, AHandlerThatThrowsIsAFailedRequestAndNotTheEnd) {
  Start();
  EXPECT_EQ(StatusOf(Ask("/throws")), 500);
  EXPECT_EQ(StatusOf(Ask("/x")), 200);
}

// What a proxy might read otherwise than we do: where the request ends, and whom it is for.
TEST_F(HttpServerTest, ARequestThatCanBeReadInTwoWaysIsRefusedAndTheConnectionClosed) {
  Start();
  const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char* headers :
       {"Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5, 5\r\n", "X: a\r\n b\r\n",
        "Host: evil.example\r\n"}) {
    RawClient client(server_->port());
    client.Send("POST /x HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n0\r\n\r\n" +
                smuggled);
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(StatusOf(answer), 400) << headers;
    EXPECT_THAT(answer, Not(HasSubstr("/smuggled"))) << headers;
  }
  RawClient nameless(server_->port());
  nameless.Send("GET /x HTTP/1.1\r\n\r\n");
  EXPECT_EQ(StatusOf(nameless.ReadToEnd()), 400);
  RawClient chunked(server_->port());
  chunked.Send(
      "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: Chunked\r\nConnection: "
      "close\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(BodyOf(chunked.ReadToEnd()), "POST /x abc");
}

TEST(HostIsLoopback, TakesTheNamesOfThisMachineAndNothingThatBeginsLikeOne) {
  for (const char* host :
       {"localhost", "localhost:80", "127.0.0.1", "127.0.0.1:8321", "[::1]", "[::1]:65535"}) {
    EXPECT_TRUE(HostIsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "[::1].evil.com", "[::1]evil", "[::1", "[::1]:", "[::1]:80x", "localhost.evil.com",
        "localhost:evil.com", "127.0.0.1:80:evil", "127.0.0.1.evil.com", "evil.com"}) {
    EXPECT_FALSE(HostIsLoopback(host)) << host;
  }
}

TEST_F(HttpServerTest, OtherMethodsAndOtherProtocolsAreRefused) {
  Start();
  RawClient put(server_->port());
  put.Send("PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(StatusOf(put.ReadToEnd()), 405);
  RawClient noise(server_->port());
  noise.Send("\x16\x03\x01 this is no HTTP\r\n\r\n");
  EXPECT_EQ(StatusOf(noise.ReadToEnd()), 400);
}

TEST_F(HttpServerTest, HeadersAndBodiesOverTheLimitAreRefused) {
  HttpOptions options;
  options.header_bytes_max = 2000;
  options.body_bytes_max = 1000;
  Start(options);
  EXPECT_EQ(StatusOf(Ask("/x", "X-Long: " + std::string(4000, 'a') + "\r\n")), 431);
  RawClient client(server_->port());
  client.Send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n" +
              std::string(5000, 'b'));
  EXPECT_EQ(StatusOf(client.ReadToEnd()), 413);
  RawClient fits(server_->port());
  fits.Send(
      "POST /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_THAT(fits.ReadToEnd(), HasSubstr("POST /x body"));
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitAreToldToComeBack) {
  HttpOptions options;
  options.connections_max = 2;
  options.workers = 2;
  Start(options);
  RawClient first(server_->port()), second(server_->port());
  first.Get("/wait");
  second.Get("/wait");
  {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return waiting_ == 2; });
  }
  RawClient third(server_->port());
  EXPECT_EQ(StatusOf(third.ReadToEnd()), 503);
  EXPECT_EQ(server_->stats().refused, 1u);
  {
    MutexLock lock(mutex_);
    released_ = true;
  }
  changed_.NotifyAll();
  EXPECT_EQ(StatusOf(first.ReadAnswer()), 200);
  EXPECT_EQ(StatusOf(second.ReadAnswer()), 200);
}

TEST_F(HttpServerTest, ThoseWhoSayNothingMakeRoomForThoseWhoAsk) {
  HttpOptions options;
  options.connections_max = 8;
  Start(options);
  std::deque<RawClient> silent;
  for (int i = 0; i < 32; ++i) {
    silent.emplace_back(server_->port());
    if (i % 2 == 0) silent.back().Send("GET /x HTTP/1.1\r\nX-Slow: ");
  }
  RawClient kept(server_->port());
  kept.Get("/one");
  EXPECT_EQ(StatusOf(kept.ReadAnswer()), 200);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(StatusOf(Ask("/x")), 200);
  kept.Get("/two");  // it was idle for less long than the silent ones
  EXPECT_EQ(StatusOf(kept.ReadAnswer()), 200);
  EXPECT_EQ(silent.front().ReadToEnd(), "");
  EXPECT_TRUE(silent.front().ended());
  EXPECT_EQ(server_->stats().refused, 0u);
}

TEST_F(HttpServerTest, BodiesInPiecesHaveOneEnd) {
  Start();
  const std::string head =
      "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const std::string body :
       {"3\nabc\n0\n\n", "-1\r\nabc\r\n0\r\n\r\n", "ffffffffffffffffff\r\nabc\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n", "3\r\nabcX\r\n0\r\n\r\n", "3;a=\nb\r\nabc\r\n0\r\n\r\n"}) {
    RawClient client(server_->port());
    client.Send(head + body + smuggled);
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(StatusOf(answer), 400) << body;
    EXPECT_THAT(answer, Not(HasSubstr("/smuggled"))) << body;
  }
  RawClient trailed(server_->port());
  trailed.Send(head + "3;x=y\r\nabc\r\n0\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(trailed.ReadAnswer(), HasSubstr("POST /x abc"));
}

TEST_F(HttpServerTest, AnUpgradeIsNotDone) {
  Start();
  for (const char* upgrade : {"websocket", "h2c"}) {
    const std::string answer =
        Ask("/x",
            "Upgrade: " + std::string(upgrade) +
                "\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nHTTP2-Settings: AAMAAABk\r\n");
    EXPECT_EQ(StatusOf(answer), 200) << answer;
    EXPECT_THAT(answer, HasSubstr("GET /x"));
  }
  RawClient preface(server_->port());
  preface.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_EQ(StatusOf(preface.ReadToEnd()), 400);
}

TEST_F(HttpServerTest, AClientThatNeverFinishesItsRequestIsLetGo) {
  HttpOptions options;
  options.request_timeout = milliseconds(100);
  Start(options);
  RawClient silent(server_->port()), half(server_->port());
  half.Send("GET /x HTTP/1.1\r\nHost: loc");
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(half.ReadToEnd(), "");
  EXPECT_TRUE(silent.ended() && half.ended());
}

TEST_F(HttpServerTest, AClientThatSendsAByteNowAndThenIsLetGoAllTheSame) {
  HttpOptions options;
  options.request_timeout = milliseconds(150);
  Start(options);
  RawClient slow(server_->port());
  slow.Send("GET /x HTTP/1.1\r\n");
  const auto begin = std::chrono::steady_clock::now();
  // Each byte comes well before the limit; the limit is for the whole.
  while (slow.Send("X") && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20)) {
    std::this_thread::yield();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(HttpServerTest, AConnectionThatIsKeptIdleIsClosed) {
  HttpOptions options;
  options.idle_timeout = milliseconds(100);
  Start(options);
  RawClient client(server_->port());
  client.Get("/x");
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 200);
  client.ReadToEnd();
  EXPECT_TRUE(client.ended());
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsAnswerIsLetGoAndOthersAreServed) {
  HttpOptions options;
  options.write_timeout = milliseconds(200);
  Start(options);
  RawClient stuck(server_->port(), 4096);
  stuck.Get("/big");
  EXPECT_EQ(StatusOf(Ask("/x")), 200);
  while (server_->stats().connections > 0)
    std::this_thread::yield();  // the test's limit ends a hang
}

TEST_F(HttpServerTest, RequestsOverThoseThatMayWaitAreToldToComeBack) {
  HttpOptions options;
  options.workers = 1;
  options.pending_max = 1;
  Start(options);
  RawClient waiting(server_->port());
  waiting.Get("/wait");
  {
    MutexLock lock(mutex_);
    changed_.Wait(lock, [this]() TM_REQUIRES(mutex_) { return waiting_ == 1; });
  }
  const std::string answer = Ask("/x");
  EXPECT_EQ(StatusOf(answer), 503);
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
  {
    MutexLock lock(mutex_);
    released_ = true;
  }
  changed_.NotifyAll();
  EXPECT_EQ(StatusOf(waiting.ReadAnswer()), 200);
}

TEST_F(HttpServerTest, APageElsewhereCannotPostToLoopback) {
  Start();
  const auto status = [this](const std::string& headers) {
    RawClient client(server_->port());
    client.Send(
        "POST /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n" +
        headers + "\r\n");
    return StatusOf(client.ReadToEnd());
  };
  for (const char* origin : {"https://evil.example", "null", "http://localhost.evil.example",
                             "file://", "http://127.0.0.1.evil.example:80"}) {
    EXPECT_EQ(status(std::string("Origin: ") + origin + "\r\n"), 403) << origin;
  }
  const int usual = status("");
  EXPECT_NE(usual, 403);
  EXPECT_EQ(status("Origin: http://localhost:3000\r\n"), usual);
  EXPECT_EQ(status("Origin: https://evil.example\r\nAuthorization: Bearer any\r\n"), usual)
      << "which it cannot send without being asked first";
}

TEST_F(HttpServerTest, OnLoopbackOnlyLoopbackNamesAreAnswered) {
  Start();
  for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]:80", "localhost:1"}) {
    RawClient client(server_->port());
    client.Send(std::string("GET /x HTTP/1.1\r\nConnection: close\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(StatusOf(client.ReadToEnd()), 200) << host;
  }
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""}) {
    RawClient client(server_->port());
    client.Send(std::string("GET /x HTTP/1.1\r\nConnection: close\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(StatusOf(client.ReadToEnd()), 403) << host;
  }
}

TEST_F(HttpServerTest, OutsideLoopbackItDoesNotStartWithoutAToken) {
  HttpOptions options;
  options.address = "0.0.0.0";
  HttpHandlers handlers;
  handlers.answer = [](const HttpRequest&) { return HttpResponse(); };
  handlers.open_stream = [](const HttpRequest&, const std::shared_ptr<EventStream>&) {
    return Ok();
  };
  const auto without = HttpServer::Start(options, handlers);
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.status().message(), HasSubstr("requires a bearer token"));
  options.tokens = {"short"};
  EXPECT_EQ(HttpServer::Start(options, handlers).status().code(), Code::kInvalid);
  options.tokens = {kToken};
  EXPECT_TRUE(HttpServer::Start(options, handlers).ok());
}

TEST_F(HttpServerTest, WithTokensTheApiNeedsOneAndThePageDoesNot) {
  HttpOptions options;
  options.address = "0.0.0.0";
  options.tokens = {"another-token-of-length", kToken};
  Start(options);
  EXPECT_EQ(StatusOf(Ask("/")), 200);
  EXPECT_EQ(StatusOf(Ask("/healthz")), 200);
  for (const char* target : {"/api/runs", "/metrics", "/api", "/api/events?run=x"}) {
    const std::string answer = Ask(target);
    EXPECT_EQ(StatusOf(answer), 401) << target;
    EXPECT_THAT(answer, HasSubstr("WWW-Authenticate: Bearer"));
  }
  for (const std::string token :
       {"a-token-of-enough-lengtH", "a-token-of-enough-lengt", "", "a-token-of-enough-length2"}) {
    EXPECT_EQ(StatusOf(Ask("/api/runs", "Authorization: Bearer " + token + "\r\n")), 401) << token;
  }
  EXPECT_EQ(StatusOf(Ask("/api/runs", "Authorization: Basic " + std::string(kToken) + "\r\n")),
            401);
  for (const std::string token : {"another-token-of-length", kToken}) {
    const std::string answer = Ask("/api/runs", "authorization: bearer " + token + "\r\n");
    EXPECT_EQ(StatusOf(answer), 200);
    EXPECT_THAT(BodyOf(answer), HasSubstr("admin"));
  }
}

TEST_F(HttpServerTest, WithoutTokensNobodyIsAdmin) {
  Start();
  EXPECT_THAT(Ask("/api/x", "Authorization: Bearer \r\n"), Not(HasSubstr("admin")));
}

TEST_F(HttpServerTest, APortThatIsTakenIsSaid) {
  Start();
  HttpOptions options;
  options.port = server_->port();
  HttpHandlers handlers;
  handlers.answer = [](const HttpRequest&) { return HttpResponse(); };
  handlers.open_stream = [](const HttpRequest&, const std::shared_ptr<EventStream>&) {
    return Ok();
  };
  const auto second = HttpServer::Start(options, handlers);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string(options.port)));
  options.address = "not an address";
  EXPECT_EQ(HttpServer::Start(options, handlers).status().code(), Code::kInvalid);
}

TEST_F(HttpServerTest, EventsArriveInOrderAndPingsBetweenThem) {
  HttpOptions options;
  options.ping_every = milliseconds(20);
  Start(options);
  RawClient client(server_->port());
  client.Get("/api/events?run=x");
  const auto stream = WaitForStream(1);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream->Send(MakeEvent("tick", std::to_string(i), "{}")));
  }
  std::string text = client.ReadUntil("id: 99\n");
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream"));
  EXPECT_LT(text.find("id: 7\n"), text.find("id: 8\n"));
  EXPECT_THAT(client.ReadUntil(": still here"), HasSubstr(": still here"));
}

TEST_F(HttpServerTest, AStreamThatIsRefusedSaysWhyAndTheConnectionGoesOn) {
  Start();
  RawClient client(server_->port());
  client.Get("/api/events?refuse=1");
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 404);
  client.Get("/x");
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 200);
  EXPECT_EQ(server_->stats().streams, 0u);
}

TEST_F(HttpServerTest, AClientThatLeavesItsStreamIsNoticed) {
  Start();
  auto client = std::make_unique<RawClient>(server_->port());
  client->Get("/api/events?run=x");
  const auto stream = WaitForStream(1);
  client->ReadUntil("retry:");
  client.reset();
  while (!stream->closed()) std::this_thread::yield();
  EXPECT_FALSE(stream->Send(MakeEvent("tick", "1", "{}")));
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsStreamIsDroppedAndMemoryStaysBounded) {
  HttpOptions options;
  options.stream_bytes_max = 64 * 1024;
  Start(options);
  RawClient stuck(server_->port(), 4096);
  stuck.Get("/api/events?run=x");
  const auto stream = WaitForStream(1);
  const auto frame = MakeEvent("tick", "1", std::string(8000, 'x'));
  while (stream->Send(frame)) {
  }
  EXPECT_TRUE(stream->closed());
  while (server_->stats().streams > 0) std::this_thread::yield();
}

TEST_F(HttpServerTest, TwoHundredStreamsGetEveryEventAndOneMoreThanAllowedIsRefused) {
  HttpOptions options;
  options.streams_max = 200;
  Start(options);
  std::deque<RawClient> clients;
  for (size_t i = 0; i < 200; ++i) {
    clients.emplace_back(server_->port());
    clients.back().Get("/api/events?run=x");
    WaitForStream(i + 1);
  }
  EXPECT_EQ(StatusOf(Ask("/api/events?run=x")), 503);
  EXPECT_EQ(StatusOf(Ask("/x")), 200);
  for (int i = 0; i < 20; ++i) {
    const auto frame = MakeEvent("tick", std::to_string(i), "{}");
    MutexLock lock(mutex_);
    for (const auto& stream : streams_) EXPECT_TRUE(stream->Send(frame));
  }
  for (RawClient& client : clients)
    EXPECT_THAT(client.ReadUntil("id: 19\n"), HasSubstr("id: 19\n"));
}

TEST_F(HttpServerTest, ItStopsWithStreamsAndConnectionsOpen) {
  Start();
  RawClient idle(server_->port()), half(server_->port()), events(server_->port());
  half.Send("GET /x HT");
  events.Get("/api/events?run=x");
  const auto stream = WaitForStream(1);
  server_.reset();
  EXPECT_FALSE(stream->Send(MakeEvent("tick", "1", "{}")));
  events.ReadToEnd();
  EXPECT_TRUE(events.ended());
}

TEST(Tokens, AreComparedWhole) {
  const auto tokens = Tokens::Make({kToken});
  ASSERT_TRUE(tokens.ok());
  EXPECT_TRUE(tokens->Accept(std::string("Bearer ") + kToken));
  EXPECT_FALSE(tokens->Accept(kToken));
  EXPECT_FALSE(tokens->Accept("Bearer"));
  EXPECT_FALSE(tokens->Accept(""));
  EXPECT_EQ(Tokens::Make({"has a space in the middle"}).status().code(), Code::kInvalid);
}

TEST(Loopback, IsOnlyLoopback) {
  EXPECT_TRUE(IsLoopback("127.0.0.1"));
  EXPECT_TRUE(IsLoopback("127.1.2.3"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.evil.example"));
  EXPECT_FALSE(IsLoopback("127.0.0.evil"));
  EXPECT_FALSE(IsLoopback("0.0.0.0"));
}

}  // namespace
}  // namespace tidemill
