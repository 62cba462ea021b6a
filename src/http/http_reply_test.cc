// Answers that come later or in pieces, and what is decided before a body is read.
#include <gtest/gtest.h>

#include <deque>
#include <thread>

#include "core/mutex.h"
#include "http/http_server.h"
#include "testing/http_client.h"

namespace tidemill {
namespace {

// Keeps the replies for the test to answer.
class Replies : public testing::Test {
 protected:
  void Listen(HttpOptions options = {}) {
    options.own_access = true;
    HttpHandlers handlers;
    handlers.route = [](const HttpRequest& head) {
      HttpRoute route;
      route.serve = head.path.rfind("/v1/", 0) == 0;
      if (route.serve) route.body_bytes_max = 1000;
      if (head.Header("x-key") == "wrong") route.refusal = ErrorResponse(401, "no such key");
      return route;
    };
    handlers.serve = [this](HttpRequest request, std::unique_ptr<HttpReply> reply) {
      MutexLock lock(mutex_);
      request_ = std::move(request);
      reply_ = std::move(reply);
      changed_.NotifyAll();
    };
    handlers.refuse = [](const HttpRequest& request, int status, std::string_view why) {
      return TextResponse(status, request.path + ": " + std::string(why));
    };
    handlers.answer = [](const HttpRequest&) { return TextResponse(200, "plain"); };
    auto server = HttpServer::Start(options, std::move(handlers));
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(*server);
  }

  std::unique_ptr<HttpReply> NextReply() {
    MutexLock lock(mutex_);
    changed_.WaitFor(lock, std::chrono::seconds(20),
                     [this]() TM_REQUIRES(mutex_) { return reply_ != nullptr; });
    return std::move(reply_);
  }

  // Until `done`, which a notice may have changed.
  template <typename Done>
  bool WaitFor(Done done) {
    MutexLock lock(mutex_);
    return changed_.WaitFor(lock, std::chrono::seconds(20), done);
  }
  void Notice() {
    MutexLock lock(mutex_);
    ++notices_;
    changed_.NotifyAll();
  }

  HttpRequest request() {
    MutexLock lock(mutex_);
    return request_;
  }
  int notices() {
    MutexLock lock(mutex_);
    return notices_;
  }

  static std::string Post(const std::string& path, const std::string& body,
                          const std::string& headers = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }

  Mutex mutex_;
  CondVar changed_;
  HttpRequest request_ TM_GUARDED_BY(mutex_);
  std::unique_ptr<HttpReply> reply_ TM_GUARDED_BY(mutex_);
  int notices_ TM_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Replies, AWholeAnswerMayComeLaterAndTheConnectionIsKept) {
  Listen();
  RawClient client(server_->port());
  for (const std::string text : {"one", "two"}) {
    client.Send(Post("/v1/x", text, "X-Thing: A\r\nx-thing: B\r\n"));
    auto reply = NextReply();
    ASSERT_NE(reply, nullptr);
    EXPECT_EQ(request().body, text);
    EXPECT_EQ(request().Header("x-thing"), "A, B");
    reply->Send(TextResponse(200, "answer to " + text));
    EXPECT_EQ(BodyOf(client.ReadAnswer()), "answer to " + text);
  }
  EXPECT_EQ(server_->stats().connections, 1u);
}

TEST_F(Replies, PiecesAreChunksAndTheConnectionIsKept) {
  Listen();
  RawClient client(server_->port());
  client.Send(Post("/v1/x", "{}"));
  auto reply = NextReply();
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers.emplace_back("x-request-id", "r1");
  reply->Begin(head);
  reply->Write("data: a\n\n");
  const std::string first = client.ReadUntil("data: a\n\n\r\n");
  EXPECT_NE(first.find("Transfer-Encoding: chunked\r\n"), std::string::npos) << first;
  EXPECT_NE(first.find("x-request-id: r1\r\n"), std::string::npos);
  EXPECT_NE(first.find("\r\n9\r\ndata: a\n\n\r\n"), std::string::npos) << first;
  // A next request that comes before the end of the answer waits for it.
  client.Send(Post("/v1/y", "{}"));
  reply->Write("data: b\n\n");
  reply->End();
  client.ReadUntil("0\r\n\r\n");
  auto second = NextReply();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(request().path, "/v1/y");
  second->Send(TextResponse(200, "done"));
  EXPECT_NE(client.ReadUntil("done").find("done"), std::string::npos);
}

TEST_F(Replies, AnOldClientGetsAStreamThatEndsWithTheConnection) {
  Listen();
  RawClient client(server_->port());
  client.Send("GET /v1/x HTTP/1.0\r\nHost: localhost\r\n\r\n");
  auto reply = NextReply();
  reply->Begin({});
  reply->Write("all");
  reply->End();
  const std::string answer = client.ReadToEnd();
  EXPECT_EQ(BodyOf(answer), "all");
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
}

TEST_F(Replies, AClientThatLeavesIsNoticed) {
  Listen();
  std::unique_ptr<HttpReply> whole, stream;
  {
    RawClient first(server_->port());
    first.Send(Post("/v1/x", "{}"));
    whole = NextReply();
    whole->Watch([this] { Notice(); });
    RawClient second(server_->port());
    second.Send(Post("/v1/x", "{}"));
    stream = NextReply();
    stream->Begin({});
    stream->Watch([this] { Notice(); });
    EXPECT_FALSE(whole->gone());
  }
  EXPECT_TRUE(WaitFor([&]() TM_REQUIRES(mutex_) { return notices_ >= 2; }));
  EXPECT_TRUE(whole->gone());
  EXPECT_TRUE(stream->gone());
  stream->Write("nobody reads this");
  EXPECT_FALSE(stream->Behind(0));
  whole->Send(TextResponse(200, "nor this"));
  // Whoever asks later is told at once.
  const int before = notices();
  stream->Watch([this] { Notice(); });
  EXPECT_EQ(notices(), before + 1);
}

TEST_F(Replies, ClientsThatLeaveWhileTheyAreWrittenToDoNoHarm) {
  Listen();
  for (int i = 0; i < 100; ++i) {
    auto client = std::make_unique<RawClient>(server_->port());
    client->Send(Post("/v1/x", "{}"));
    const auto stream = NextReply();
    ASSERT_NE(stream, nullptr);
    std::thread leaves([&] { client.reset(); });
    stream->Begin({});
    for (int piece = 0; piece < 5; ++piece) stream->Write("data: a\n\n");
    leaves.join();
  }
  RawClient next(server_->port());
  next.Send(Post("/v1/x", "{}"));
  NextReply()->Send(TextResponse(200, "still here"));
  EXPECT_EQ(BodyOf(next.ReadAnswer()), "still here");
}

TEST_F(Replies, AReplyThatIsDroppedIsAnErrorOrACutStream) {
  Listen();
  RawClient client(server_->port());
  client.Send(Post("/v1/x", "{}"));
  NextReply().reset();
  EXPECT_EQ(StatusOf(client.ReadAnswer()), 500);
  client.Send(Post("/v1/x", "{}"));
  auto reply = NextReply();
  reply->Begin({});
  reply->Write("half");
  client.ReadUntil("half");
  reply.reset();
  const std::string answer = client.ReadToEnd();
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(answer.find("0\r\n\r\n"), std::string::npos) << answer;
}

TEST_F(Replies, OnlyAClientThatWasBehindIsANoticeWhenItHasCaughtUp) {
  Listen();
  RawClient client(server_->port(), 4096);
  client.Send(Post("/v1/x", "{}"));
  auto reply = NextReply();
  reply->Watch([this] { Notice(); });
  reply->Begin({});
  for (int i = 0; i < 20; ++i) {
    const std::string piece = "piece" + std::to_string(i) + ";";
    reply->Write(piece);
    client.ReadUntil(piece);
  }
  EXPECT_EQ(notices(), 0);
  reply->Write(std::string(size_t{16} << 20, 'x') + "the end");  // more than the sockets hold
  EXPECT_TRUE(reply->Behind(size_t{1} << 20));
  client.ReadUntil("the end");
  EXPECT_TRUE(WaitFor([&]() TM_REQUIRES(mutex_) { return notices_ == 1; }));
  EXPECT_FALSE(reply->Behind(0));
  reply->End();
  EXPECT_NE(client.ReadUntil("0\r\n\r\n").find("0\r\n\r\n"), std::string::npos);
}

TEST_F(Replies, ASlowClientIsCut) {
  HttpOptions options;
  options.write_timeout = std::chrono::milliseconds(300);
  Listen(options);
  RawClient client(server_->port(), 4096);
  client.Send(Post("/v1/x", "{}"));
  auto reply = NextReply();
  reply->Watch([this] { Notice(); });
  reply->Begin({});
  reply->Write("small");
  client.ReadUntil("small");
  reply->Write(std::string(size_t{64} << 20, 'x'));  // more than the sockets hold
  EXPECT_TRUE(reply->Behind(size_t{1} << 20));
  EXPECT_TRUE(WaitFor([&] { return reply->gone(); }));
}

TEST_F(Replies, TheRouteBoundsTheBodyAndRefusesBeforeItIsRead) {
  Listen();
  {
    RawClient client(server_->port());
    client.Send("POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
    const std::string answer = client.ReadToEnd();
    EXPECT_EQ(StatusOf(answer), 413);
    EXPECT_NE(answer.find("/v1/x: the body is too large: at most 1000 bytes"), std::string::npos);
  }
  {
    RawClient client(server_->port());
    client.Send("POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.Send("3e9\r\n" + std::string(1001, 'a') + "\r\n0\r\n\r\n");
    EXPECT_EQ(StatusOf(client.ReadToEnd()), 413);
  }
  {
    // The head alone is enough for a refusal: nobody waits for the body.
    RawClient client(server_->port());
    client.Send(
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nX-Key: wrong\r\n"
        "Content-Length: 999\r\n\r\n");
    EXPECT_EQ(StatusOf(client.ReadUntil("no such key")), 401);
  }
  RawClient client(server_->port());
  client.Send(Post("/v1/x", std::string(1000, 'a')));
  NextReply()->Send(TextResponse(200, "fits"));
  EXPECT_EQ(BodyOf(client.ReadAnswer()), "fits");
}

TEST_F(Replies, WhatIsAnnouncedTakesNoRoom) {
  HttpOptions options;
  options.bodies_bytes_max = 1500;
  Listen(options);
  std::deque<RawClient> hogs;
  for (int i = 0; i < 8; ++i) {
    RawClient& hog = hogs.emplace_back(server_->port());
    hog.Send(
        "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
        "Expect: 100-continue\r\n\r\n");
    hog.ReadUntil("100 Continue");
    hog.Send("a");  // the rest does not come
  }
  RawClient client(server_->port());
  client.Send(Post("/v1/x", std::string(700, 'a')));
  auto reply = NextReply();
  ASSERT_NE(reply, nullptr);
  reply->Send(TextResponse(200, "fits"));
  EXPECT_EQ(BodyOf(client.ReadAnswer()), "fits");
}

TEST_F(Replies, BodiesTogetherAreBounded) {
  HttpOptions options;
  options.bodies_bytes_max = 1500;
  Listen(options);
  RawClient client(server_->port());
  client.Send(Post("/v1/x", std::string(900, 'a')));  // more than it would leave free
  const std::string refused = client.ReadToEnd();
  EXPECT_EQ(StatusOf(refused), 503);
  EXPECT_NE(refused.find("Retry-After: 1"), std::string::npos);
}

TEST_F(Replies, AValueOfAHeaderEndsNoHeader) {
  Listen();
  const std::vector<std::pair<std::string, std::string>> evil = {
      {"x-session-id", "a\r\nX-Evil: 1\r\n\r\nb"}};
  for (const bool stream : {false, true}) {
    RawClient client(server_->port());
    client.Send(Post("/v1/x", "{}", "Connection: close\r\n"));
    auto reply = NextReply();
    ASSERT_NE(reply, nullptr);
    HttpResponse response;
    response.headers = evil;
    if (stream) {
      reply->Begin(std::move(response));
      reply->End();
    } else {
      reply->Send(std::move(response));
    }
    const std::string answer = client.ReadToEnd();
    EXPECT_NE(answer.find("x-session-id: a??X-Evil: 1????b\r\n"), std::string::npos) << answer;
  }
}

TEST_F(Replies, AClientThatExpectsToBeToldIsTold) {
  Listen();
  RawClient client(server_->port());
  client.Send(
      "POST /v1/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("{}");
  auto reply = NextReply();
  ASSERT_NE(reply, nullptr);
  reply->Send(TextResponse(200, "then"));
  EXPECT_NE(client.ReadUntil("then").find("200 OK"), std::string::npos);
}

TEST_F(Replies, ARepliesOwnerMayOutliveTheServer) {
  Listen();
  RawClient client(server_->port());
  client.Send(Post("/v1/x", "{}"));
  auto reply = NextReply();
  reply->Watch([this] { Notice(); });
  server_.reset();
  EXPECT_TRUE(reply->gone());
  reply->Begin({});
  reply->Write("too late");
  reply->End();
}

}  // namespace
}  // namespace tidemill
