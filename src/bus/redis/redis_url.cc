#include "bus/redis/redis_url.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tidemill {
namespace {

constexpr std::string_view kScheme = "redis://";
constexpr std::string_view kTlsScheme = "rediss://";
constexpr std::string_view kForm =
    "expected redis://[user[:password]@]host[:port][/db], or rediss:// for TLS";
constexpr size_t kUrlMax = 2048;

Status Wrong(std::string what) {
  return Invalid("redis URL: " + std::move(what) + "; " + std::string(kForm));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> PercentDecode(std::string_view text, std::string_view what) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Wrong("a '%' in the " + std::string(what) + " without two hex digits after it");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Result<int> ParseNumber(std::string_view text, int low, int high, std::string_view what) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      number < low || number > high) {
    // The text there is not shown: it may be a password whose host was left out.
    return Wrong("the " + std::string(what) + " must be a number from " + std::to_string(low) +
                 " to " + std::to_string(high));
  }
  return number;
}

Status ParseUser(std::string_view text, RedisAddress& address) {
  const size_t colon = text.find(':');
  TM_ASSIGN_OR_RETURN(address.user, PercentDecode(text.substr(0, colon), "user"));
  if (colon != std::string_view::npos) {
    TM_ASSIGN_OR_RETURN(address.password, PercentDecode(text.substr(colon + 1), "password"));
  }
  if (!address.authenticates()) return Wrong("an '@' without a user or a password before it");
  return Ok();
}

Status ParseHost(std::string_view text, RedisAddress& address) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Wrong("a '[' without its ']'");
    address.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    has_port = text.starts_with(':');
    if (!has_port && !text.empty()) return Wrong("expected a port after the ']'");
    if (has_port) port = text.substr(1);
  } else {
    const size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    address.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  }
  if (address.host.empty()) return Wrong("the host is missing");
  for (const unsigned char c : address.host) {
    if (c <= 0x20 || c >= 0x7f || c == '[' || c == ']') {
      return Wrong("the host has an invalid character");
    }
  }
  if (has_port) {
    TM_ASSIGN_OR_RETURN(address.port, ParseNumber(port, 1, 65535, "port"));
  }
  return Ok();
}

// "ca=/etc/ca.pem&cert=..&key=..", behind the '?'.
Status ParseTlsFiles(std::string_view text, RedisAddress& address) {
  while (!text.empty()) {
    const std::string_view option = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), option.size() + 1));
    const size_t equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    std::string* file = name == "ca"     ? &address.ca
                        : name == "cert" ? &address.cert
                        : name == "key"  ? &address.key
                                         : nullptr;
    if (!address.tls || file == nullptr || equals == std::string_view::npos)
      return Wrong("unknown option after the '?'; rediss:// takes ca=, cert= and key=");
    TM_ASSIGN_OR_RETURN(*file, PercentDecode(option.substr(equals + 1), "file's name"));
    if (file->empty()) return Wrong("ca, cert and key name files");
  }
  if (address.cert.empty() != address.key.empty()) return Wrong("cert and key go together");
  return Ok();
}

}  // namespace

std::string RedisAddress::Name() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" +
         std::to_string(db);
}

Result<RedisAddress> ParseRedisUrl(std::string_view url) {
  if (url.size() > kUrlMax) return Wrong("it is too long");
  RedisAddress address;
  address.tls = url.starts_with(kTlsScheme);
  if (!address.tls && !url.starts_with(kScheme)) {
    return Wrong("it does not begin with redis:// or rediss://");
  }
  url.remove_prefix(address.tls ? kTlsScheme.size() : kScheme.size());
  if (const size_t mark = url.find('?'); mark != std::string_view::npos) {
    TM_RETURN_IF_ERROR(ParseTlsFiles(url.substr(mark + 1), address));
    url = url.substr(0, mark);
  }
  if (url.find('#') != std::string_view::npos) return Wrong("there is a '#' in it");
  // The last '@': one inside a password should be written %40, but is understood.
  const size_t at = url.rfind('@');
  if (at != std::string_view::npos) {
    TM_RETURN_IF_ERROR(ParseUser(url.substr(0, at), address));
    url.remove_prefix(at + 1);
  }
  const size_t slash = url.find('/');
  TM_RETURN_IF_ERROR(ParseHost(url.substr(0, slash), address));
  if (slash != std::string_view::npos && slash + 1 < url.size()) {
    TM_ASSIGN_OR_RETURN(address.db, ParseNumber(url.substr(slash + 1), 0, 1'000'000, "database"));
  }
  return address;
}

}  // namespace tidemill
