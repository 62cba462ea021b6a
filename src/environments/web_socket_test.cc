#include "environments/web_socket.h"

#include <gtest/gtest.h>

namespace tidemill {
namespace {

// The example of RFC 6455, section 1.3.
constexpr char kRfcKey[] = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr char kRfcHead[] =
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

// A server's frame: not masked.
std::string ServerFrame(uint8_t first, const std::string& body) {
  std::string frame(1, static_cast<char>(first));
  if (body.size() <= 125) {
    frame.push_back(static_cast<char>(body.size()));
  } else {
    frame.push_back(126);
    frame.push_back(static_cast<char>(body.size() >> 8));
    frame.push_back(static_cast<char>(body.size()));
  }
  return frame + body;
}

struct Heard {
  std::vector<std::string> messages, pings;
  bool closed = false;
  Status status;
};

Heard Feed(const std::string& bytes, Random* cuts) {
  WebSocketReader reader(kRfcKey, {});
  Heard heard;
  for (size_t at = 0; at < bytes.size() && heard.status.ok();) {
    const size_t n = cuts == nullptr ? bytes.size() : 1 + cuts->Below(7);
    heard.status = reader.Add(std::string_view(bytes).substr(at, n));
    at += n;
    for (std::string& one : reader.TakeMessages()) heard.messages.push_back(std::move(one));
    for (std::string& one : reader.TakePings()) heard.pings.push_back(std::move(one));
  }
  heard.closed = reader.closed();
  return heard;
}

TEST(WebSocket, FramesMakeTheSameMessagesHoweverTheyAreCut) {
  const std::string large(40'000, 'x');
  const std::string bytes = std::string(kRfcHead) + ServerFrame(0x81, "Hello") +
                            ServerFrame(0x01, "a") + ServerFrame(0x89, "ping") +
                            ServerFrame(0x80, "b") + ServerFrame(0x82, large) +
                            ServerFrame(0x88, "");
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Random cuts(seed);
    const Heard heard = Feed(bytes, seed == 0 ? nullptr : &cuts);
    ASSERT_TRUE(heard.status.ok()) << heard.status.ToString();
    EXPECT_EQ(heard.messages, (std::vector<std::string>{"Hello", "ab", large}));
    EXPECT_EQ(heard.pings, std::vector<std::string>{"ping"});
    EXPECT_TRUE(heard.closed);
  }
}

TEST(WebSocket, ABrokenProtocolIsNamed) {
  const std::string head = kRfcHead;
  const auto says = [](const std::string& bytes) { return Feed(bytes, nullptr).status.message(); };
  EXPECT_EQ(says("HTTP/1.1 403 Forbidden\r\n\r\n"), "it refuses a socket: HTTP/1.1 403 Forbidden");
  EXPECT_EQ(says("HTTP/1.1 101 X\r\nSec-WebSocket-Accept: no\r\n\r\n"),
            "its answer to the handshake is not to this one");
  EXPECT_EQ(says(head + ServerFrame(0xC1, "x")), "a frame has bits that nobody agreed on");
  EXPECT_EQ(says(head + ServerFrame(0x83, "x")), "a frame of no known kind");
  EXPECT_EQ(says(head + ServerFrame(0x80, "x")), "frames of two messages are mixed");
  EXPECT_EQ(says(head + ServerFrame(0x09, "x")), "a control frame is cut or long");
  EXPECT_EQ(says(head + std::string("\x81\x7F\xFF\0\0\0\0\0\0\0", 10)),
            "a message is longer than 16777216 bytes");
  EXPECT_EQ(says(head + std::string("\x81\x81", 2)), "a server's frame is masked");
  EXPECT_EQ(says(std::string(20'000, 'x')), "its answer to the handshake is too long");
}

// What a client writes, read back by the mask it carries.
TEST(WebSocket, AClientsFramesAreMasked) {
  Random random(4);
  for (const size_t size : {0, 5, 125, 126, 70'000}) {
    const std::string text(size, 'q');
    const std::string frame = WebSocketText(text, random);
    EXPECT_EQ(static_cast<uint8_t>(frame[0]), 0x81);
    EXPECT_EQ(static_cast<uint8_t>(frame[1]) & 0x80, 0x80);
    const size_t head = size <= 125 ? 2 : size <= 0xFFFF ? 4 : 10;
    ASSERT_EQ(frame.size(), head + 4 + size);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(frame[head + 4 + i] ^ frame[head + i % 4], 'q');
    }
  }
}

}  // namespace
}  // namespace tidemill
