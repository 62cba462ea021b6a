#include "environments/web_socket.h"

#include <openssl/evp.h>

#include <algorithm>
#include <utility>

namespace tidemill {
namespace {

constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr uint8_t kTextFrame = 1, kBinaryFrame = 2, kCloseFrame = 8, kPingFrame = 9,
                  kPongFrame = 10;
constexpr size_t kControlBytes = 125;

std::string Base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::string AcceptOf(const std::string& key) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  const std::string text = key + std::string(kGuid);
  EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha1(), nullptr);
  return Base64({reinterpret_cast<const char*>(digest), length});
}

std::string Frame(uint8_t opcode, std::string_view body, Random& random) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  constexpr uint8_t kMasked = 0x80;
  if (body.size() <= kControlBytes) {
    frame.push_back(static_cast<char>(kMasked | body.size()));
  } else {
    const int bytes = body.size() <= 0xFFFF ? 2 : 8;
    frame.push_back(static_cast<char>(kMasked | (bytes == 2 ? 126 : 127)));
    for (int i = bytes - 1; i >= 0; --i) {
      frame.push_back(static_cast<char>(body.size() >> (8 * i)));
    }
  }
  char mask[4];
  for (char& byte : mask) byte = static_cast<char>(random.Below(256));
  frame.append(mask, sizeof(mask));
  for (size_t i = 0; i < body.size(); ++i) {
    frame.push_back(static_cast<char>(body[i] ^ mask[i % sizeof(mask)]));
  }
  return frame;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The value of the header field, or empty.
std::string_view HeaderOf(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at != std::string_view::npos; at = head.find("\r\n", at)) {
    at += 2;
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    const bool same = std::equal(name.begin(), name.end(), line.begin(),
                                 [](char a, char b) { return Lower(a) == Lower(b); });
    if (!same) continue;
    std::string_view value = line.substr(name.size() + 1);
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
    return value;
  }
  return {};
}

}  // namespace

std::string NewWebSocketKey(Random& random) {
  std::string bytes(16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.Below(256));
  return Base64(bytes);
}

std::string WebSocketRequest(const std::string& authority, const std::string& target,
                             const std::string& key) {
  return "GET " + target + " HTTP/1.1\r\nHost: " + authority +
         "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: " + key +
         "\r\nSec-WebSocket-Version: 13\r\n\r\n";
}

std::string WebSocketText(std::string_view text, Random& random) {
  return Frame(kTextFrame, text, random);
}

std::string WebSocketClose(Random& random) {
  return Frame(kCloseFrame, std::string_view("\x03\xE8", 2), random);
}

std::string WebSocketPong(std::string_view body, Random& random) {
  return Frame(kPongFrame, body, random);
}

Status WebSocketReader::Add(std::string_view bytes) {
  buffer_.append(bytes);
  if (!open_) {
    TM_RETURN_IF_ERROR(ReadHead());
    if (!open_) return Ok();
  }
  while (!closed_) {
    TM_ASSIGN_OR_RETURN(const bool read, ReadFrame());
    if (!read) return Ok();
  }
  return Ok();
}

std::vector<std::string> WebSocketReader::TakeMessages() {
  return std::exchange(messages_, {});
}

std::vector<std::string> WebSocketReader::TakePings() {
  return std::exchange(pings_, {});
}

Status WebSocketReader::ReadHead() {
  const size_t end = buffer_.find("\r\n\r\n");
  if (std::min(end, buffer_.size()) > limits_.head_bytes) {
    return Unavailable("its answer to the handshake is too long");
  }
  if (end == std::string::npos) return Ok();
  const std::string_view head = std::string_view(buffer_).substr(0, end + 2);
  const std::string_view status = head.substr(0, head.find("\r\n"));
  if (!status.starts_with("HTTP/1.1 101")) {
    return Unavailable("it refuses a socket: " + std::string(status.substr(0, 100)));
  }
  if (HeaderOf(head, "sec-websocket-accept") != AcceptOf(key_)) {
    return Unavailable("its answer to the handshake is not to this one");
  }
  open_ = true;
  buffer_.erase(0, end + 4);
  return Ok();
}

Result<bool> WebSocketReader::ReadFrame() {
  if (buffer_.size() < 2) return false;
  const auto byte = [this](size_t at) { return static_cast<uint8_t>(buffer_[at]); };
  if ((byte(0) & 0x70) != 0) return Unavailable("a frame has bits that nobody agreed on");
  if ((byte(1) & 0x80) != 0) return Unavailable("a server's frame is masked");
  uint64_t length = byte(1) & 0x7F;
  size_t head = 2;
  if (length > kControlBytes) {
    const size_t more = length == 126 ? 2 : 8;
    head += more;
    if (buffer_.size() < head) return false;
    length = 0;
    for (size_t i = 0; i < more; ++i) length = length << 8 | byte(2 + i);
  }
  if (length > limits_.message_bytes || message_.size() + length > limits_.message_bytes) {
    return Unavailable("a message is longer than " + std::to_string(limits_.message_bytes) +
                       " bytes");
  }
  if (buffer_.size() < head + length) return false;
  const std::string_view body = std::string_view(buffer_).substr(head, length);
  TM_RETURN_IF_ERROR(TakeFrame(byte(0) & 0x0F, (byte(0) & 0x80) != 0, body));
  buffer_.erase(0, head + length);
  return true;
}

Status WebSocketReader::TakeFrame(uint8_t opcode, bool last, std::string_view body) {
  if (opcode >= kCloseFrame) {
    if (!last || body.size() > kControlBytes) return Unavailable("a control frame is cut or long");
    if (opcode == kPingFrame) pings_.emplace_back(body);
    closed_ = opcode == kCloseFrame;
    return opcode <= kPongFrame ? Ok() : Unavailable("a frame of no known kind");
  }
  const bool begins = opcode == kTextFrame || opcode == kBinaryFrame;
  if (!begins && opcode != 0) return Unavailable("a frame of no known kind");
  if (begins == in_message_) return Unavailable("frames of two messages are mixed");
  message_.append(body);
  in_message_ = !last;
  if (last) messages_.push_back(std::exchange(message_, {}));
  return Ok();
}

}  // namespace tidemill
