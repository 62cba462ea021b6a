#include "environments/zero_mq.h"

#include <algorithm>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kGreetingBytes = 64;
constexpr size_t kMechanismAt = 12, kMechanismBytes = 20;
constexpr uint8_t kMoreFlag = 1, kLongFlag = 2, kCommandFlag = 4;
constexpr size_t kPingContextBytes = 16;
constexpr size_t kPingTtlBytes = 2;
constexpr size_t kCommandBytes = 64 * 1024;
constexpr size_t kRepliesBytes = 64 * 1024;  // nobody is owed more at once

void AppendNumber(size_t number, int bytes, std::string& to) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<char>(number >> (8 * i)));
}

void AppendFrame(uint8_t flags, std::string_view body, std::string& to) {
  const bool is_long = body.size() > 255;
  to.push_back(static_cast<char>(flags | (is_long ? kLongFlag : 0)));
  AppendNumber(body.size(), is_long ? 8 : 1, to);
  to += body;
}

// The name that a command begins with, behind its length; empty: it has none.
std::string_view CommandName(std::string_view body) {
  const size_t size = body.empty() ? 0 : static_cast<uint8_t>(body[0]);
  return size + 1 <= body.size() ? body.substr(1, size) : std::string_view();
}

}  // namespace

std::string ZeroMqHello(std::string_view kind) {
  std::string hello("\xFF\0\0\0\0\0\0\0\x01\x7F", 10);
  hello += std::string("\x03\x01", 2);
  std::string mechanism = "NULL";
  mechanism.resize(kMechanismBytes);
  hello += mechanism;
  hello.resize(kGreetingBytes);
  std::string ready("\x05READY");
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::string_view>{"Socket-Type", kind}, {"Identity", ""}}) {
    AppendNumber(name.size(), 1, ready);
    ready += name;
    AppendNumber(value.size(), 4, ready);
    ready += value;
  }
  AppendFrame(kCommandFlag, ready, hello);
  return hello;
}

std::string ZeroMqMessage(const ZeroMqParts& parts) {
  std::string bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    AppendFrame(i + 1 < parts.size() ? kMoreFlag : 0, parts[i], bytes);
  }
  return bytes;
}

Status ZeroMqReader::Add(std::string_view bytes) {
  buffer_ += bytes;
  for (;;) {
    TM_ASSIGN_OR_RETURN(const bool read, stage_ == Stage::kGreeting ? ReadGreeting() : ReadFrame());
    if (!read) break;
  }
  buffer_.erase(0, std::exchange(at_, 0));
  return Ok();
}

std::vector<ZeroMqParts> ZeroMqReader::TakeMessages() {
  return std::exchange(messages_, {});
}

std::string ZeroMqReader::TakeReplies() {
  return std::exchange(replies_, {});
}

Result<bool> ZeroMqReader::ReadGreeting() {
  const std::string_view greeting = rest();
  // What is no ZeroMQ may never send 64 bytes.
  const bool other = (!greeting.empty() && greeting[0] != '\xFF') ||
                     (greeting.size() > 9 && (greeting[9] & 1) == 0);
  if (other) return Unavailable("it does not speak ZeroMQ");
  if (greeting.size() < kGreetingBytes) return false;
  if (greeting[10] < 3) return Unavailable("its ZeroMQ is older than version 3 of the protocol");
  std::string_view mechanism = greeting.substr(kMechanismAt, kMechanismBytes);
  mechanism = mechanism.substr(0, mechanism.find('\0'));
  if (mechanism != "NULL") return Unavailable("it asks for a security mechanism; NULL is spoken");
  at_ += kGreetingBytes;
  stage_ = Stage::kReady;
  return true;
}

Result<bool> ZeroMqReader::ReadFrame() {
  const std::string_view bytes = rest();
  if (bytes.empty()) return false;
  const auto flags = static_cast<uint8_t>(bytes[0]);
  if ((flags & ~(kMoreFlag | kLongFlag | kCommandFlag)) != 0) {
    return Unavailable("a frame has flags that there are not");
  }
  const size_t length_bytes = (flags & kLongFlag) != 0 ? 8 : 1;
  if (bytes.size() < 1 + length_bytes) return false;
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) {
    length = length << 8 | static_cast<uint8_t>(bytes[1 + i]);
  }
  const bool command = (flags & kCommandFlag) != 0;
  const size_t most = command ? kCommandBytes : limits_.message_bytes - part_bytes_;
  if (length > most) {
    return Unavailable(
        command ? "a command is longer than " + std::to_string(kCommandBytes) + " bytes"
                : "a message is longer than " + std::to_string(limits_.message_bytes) + " bytes");
  }
  if (bytes.size() - 1 - length_bytes < length) return false;
  const std::string_view body = bytes.substr(1 + length_bytes, length);
  TM_RETURN_IF_ERROR(command ? TakeCommand(body) : TakePart(body, (flags & kMoreFlag) != 0));
  at_ += 1 + length_bytes + length;
  return true;
}

Status ZeroMqReader::TakeCommand(std::string_view body) {
  const std::string_view name = CommandName(body);
  if (name == "READY") {
    if (stage_ != Stage::kReady) return Unavailable("it says twice that it is ready");
    stage_ = Stage::kOpen;
    return Ok();
  }
  if (name == "ERROR") {
    std::string_view reason = body.substr(name.size() + 1);
    reason = reason.substr(std::min<size_t>(1, reason.size()));
    return Unavailable("it refuses: " + std::string(reason.substr(0, 255)));
  }
  if (stage_ != Stage::kOpen) return Unavailable("it begins without being ready");
  if (name != "PING") return Ok();  // PONG, and what later versions add
  const std::string_view context = body.substr(name.size() + 1);
  if (context.size() < kPingTtlBytes || context.size() > kPingTtlBytes + kPingContextBytes) {
    return Unavailable("a heartbeat is cut or long");
  }
  if (replies_.size() > kRepliesBytes) return Unavailable("it sends nothing but heartbeats");
  AppendFrame(kCommandFlag, "\x04PONG" + std::string(context.substr(kPingTtlBytes)), replies_);
  return Ok();
}

Status ZeroMqReader::TakePart(std::string_view body, bool more) {
  if (stage_ != Stage::kOpen) return Unavailable("it begins without being ready");
  if (parts_.size() >= limits_.parts) {
    return Unavailable("a message has more than " + std::to_string(limits_.parts) + " frames");
  }
  parts_.emplace_back(body);
  part_bytes_ += body.size();
  if (more) return Ok();
  messages_.push_back(std::exchange(parts_, {}));
  part_bytes_ = 0;
  return Ok();
}

}  // namespace tidemill
