// Against libzmq's own ROUTER.
#include "environments/zero_mq.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <zmq.h>

#include "core/fd.h"

namespace tidemill {
namespace {

class ZeroMqTest : public testing::Test {
 protected:
  ~ZeroMqTest() override {
    if (router_ != nullptr) zmq_close(router_);
    zmq_ctx_term(context_);
  }

  void Bind(int heartbeat_ms = 0) {
    router_ = zmq_socket(context_, ZMQ_ROUTER);
    const int linger = 0;
    zmq_setsockopt(router_, ZMQ_LINGER, &linger, sizeof(linger));
    if (heartbeat_ms > 0) {
      zmq_setsockopt(router_, ZMQ_HEARTBEAT_IVL, &heartbeat_ms, sizeof(heartbeat_ms));
    }
    const int patience_ms = 20'000;
    zmq_setsockopt(router_, ZMQ_RCVTIMEO, &patience_ms, sizeof(patience_ms));
    ASSERT_EQ(zmq_bind(router_, "tcp://127.0.0.1:*"), 0);
    char address[64];
    size_t size = sizeof(address);
    ASSERT_EQ(zmq_getsockopt(router_, ZMQ_LAST_ENDPOINT, address, &size), 0);
    const std::string text = address;
    struct sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
    socket_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience = {.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ASSERT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  void Write(const std::string& bytes) {
    ASSERT_EQ(send(socket_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Read() {
    char bytes[4096];
    const ssize_t size = recv(socket_.get(), bytes, sizeof(bytes), 0);
    return size <= 0 ? std::string() : std::string(bytes, static_cast<size_t>(size));
  }
  void Shake(ZeroMqReader& reader) {
    Write(ZeroMqHello("DEALER"));
    while (!reader.ready()) {
      const std::string bytes = Read();
      ASSERT_FALSE(bytes.empty());
      ASSERT_TRUE(reader.Add(bytes).ok());
    }
  }
  // Until there is a message.
  ZeroMqParts Hear(ZeroMqReader& reader) {
    for (;;) {
      auto messages = reader.TakeMessages();
      if (!messages.empty()) return messages[0];
      const std::string bytes = Read();
      if (bytes.empty()) return {};
      EXPECT_TRUE(reader.Add(bytes).ok());
    }
  }
  ZeroMqParts Receive() {
    ZeroMqParts parts;
    for (int more = 1; more != 0;) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, router_, 0) < 0) return {};
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      more = zmq_msg_more(&part);
      zmq_msg_close(&part);
    }
    return parts;
  }
  void Send(const ZeroMqParts& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int flags = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      ASSERT_EQ(zmq_send(router_, parts[i].data(), parts[i].size(), flags),
                static_cast<int>(parts[i].size()));
    }
  }

  void* const context_ = zmq_ctx_new();
  void* router_ = nullptr;
  Fd socket_;
};

TEST_F(ZeroMqTest, ARouterAndWeUnderstandEachOther) {
  Bind();
  ZeroMqReader reader({});
  Shake(reader);
  Write(ZeroMqMessage({"id", "run", std::string(1000, 'p')}));
  const ZeroMqParts heard = Receive();
  ASSERT_EQ(heard.size(), 4u) << "libzmq puts the client's name in front";
  EXPECT_EQ(ZeroMqParts(heard.begin() + 1, heard.end()),
            ZeroMqParts({"id", "run", std::string(1000, 'p')}));
  for (const size_t size : {size_t{0}, size_t{255}, size_t{256}, size_t{300'000}}) {
    Send({heard[0], "id", "delta", std::string(size, 'd')});
    EXPECT_EQ(Hear(reader), ZeroMqParts({"id", "delta", std::string(size, 'd')}));
  }
  EXPECT_TRUE(reader.ready());
}

TEST_F(ZeroMqTest, HeartbeatsAreAnswered) {
  Bind(20);
  ZeroMqReader reader({});
  Write(ZeroMqHello("DEALER"));
  std::string pong;
  while (pong.empty()) {
    const std::string bytes = Read();
    ASSERT_FALSE(bytes.empty());
    ASSERT_TRUE(reader.Add(bytes).ok());
    pong = reader.TakeReplies();
  }
  EXPECT_EQ(pong.substr(2, 5), "\x04PONG");
}

TEST(ZeroMqReader, WhatItHearsDoesNotDependOnHowTheBytesAreCut) {
  const std::string bytes = ZeroMqHello("ROUTER") + ZeroMqMessage({"a", "", "c"}) +
                            ZeroMqMessage({std::string(700, 'x')}) + ZeroMqMessage({"last"});
  for (size_t step = 1; step < bytes.size(); step += step < 70 ? 1 : 97) {
    ZeroMqReader reader({});
    std::vector<ZeroMqParts> heard;
    for (size_t at = 0; at < bytes.size(); at += step) {
      ASSERT_TRUE(reader.Add(std::string_view(bytes).substr(at, step)).ok());
      for (ZeroMqParts& one : reader.TakeMessages()) heard.push_back(std::move(one));
    }
    ASSERT_EQ(heard.size(), 3u) << step;
    EXPECT_EQ(heard[0], ZeroMqParts({"a", "", "c"}));
    EXPECT_EQ(heard[1], ZeroMqParts({std::string(700, 'x')}));
  }
}

TEST(ZeroMqReader, WhatIsNoZeroMqIsRefusedAtOnce) {
  const auto refused = [](const std::string& bytes, ZeroMqReader::Limits limits = {}) {
    ZeroMqReader reader(limits);
    const Status status = reader.Add(bytes);
    return status.ok() ? std::string() : status.message();
  };
  const std::string hello = ZeroMqHello("ROUTER");
  EXPECT_EQ(refused("HTTP/1.1 400 Bad Request\r\n"), "it does not speak ZeroMQ");
  std::string old = hello;
  old[10] = 2;
  EXPECT_NE(refused(old), "");
  std::string curve = hello;
  curve.replace(12, 5, "CURVE");
  EXPECT_NE(refused(curve).find("mechanism"), std::string::npos);
  EXPECT_NE(refused(hello.substr(0, 64) + ZeroMqMessage({"x"})), "") << "it was not ready";
  EXPECT_NE(refused(hello + "\x08"), "") << "a flag that there is not";
  EXPECT_NE(refused(hello + ZeroMqMessage(ZeroMqParts(17, "x"))), "");
  EXPECT_NE(refused(hello + ZeroMqMessage({"12345", "6789"}), {.message_bytes = 8}), "");
  EXPECT_NE(refused(hello + std::string("\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 9)), "");
  EXPECT_EQ(refused(hello + ZeroMqMessage({"1234", "5678"}), {.message_bytes = 8}), "");
}

}  // namespace
}  // namespace tidemill
