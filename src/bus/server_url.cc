#include "bus/server_url.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tidemill {
namespace {

constexpr size_t kUrlMax = 2048;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Status ParseUser(std::string_view text, const ServerUrlForm& form, ServerUrl& url) {
  const size_t colon = text.find(':');
  TM_ASSIGN_OR_RETURN(url.user, PercentDecode(text.substr(0, colon), form, "user"));
  if (colon != std::string_view::npos) {
    TM_ASSIGN_OR_RETURN(url.password, PercentDecode(text.substr(colon + 1), form, "password"));
  }
  url.signs_in = !url.user.empty() || !url.password.empty();
  return url.signs_in ? Ok() : form.Wrong("an '@' without a user or a password before it");
}

Status ParseHost(std::string_view text, const ServerUrlForm& form, ServerUrl& url) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return form.Wrong("a '[' without its ']'");
    url.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    has_port = text.starts_with(':');
    if (!has_port && !text.empty()) return form.Wrong("expected a port after the ']'");
    if (has_port) port = text.substr(1);
  } else {
    const size_t colon = text.find(':');
    has_port = colon != std::string_view::npos;
    url.host = text.substr(0, colon);
    if (has_port) port = text.substr(colon + 1);
  }
  if (url.host.empty()) return form.Wrong("the host is missing");
  for (const unsigned char c : url.host) {
    if (c <= 0x20 || c >= 0x7f || c == '[' || c == ']') {
      return form.Wrong("the host has an invalid character");
    }
  }
  if (has_port) {
    TM_ASSIGN_OR_RETURN(url.port, ParseUrlNumber(port, 1, 65535, form, "port"));
  }
  return Ok();
}

// "ca=/etc/ca.pem&cert=..&key=..", behind the '?'.
Status ParseOptions(std::string_view text, const ServerUrlForm& form, ServerUrl& url) {
  while (!text.empty()) {
    const std::string_view option = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), option.size() + 1));
    const std::string_view name = option.substr(0, option.find('='));
    const std::string_view value = option.substr(std::min(option.size(), name.size() + 1));
    TM_ASSIGN_OR_RETURN(url.options[std::string(name)],
                        PercentDecode(value, form, "option's value"));
  }
  return Ok();
}

}  // namespace

Status ServerUrlForm::Wrong(std::string_view what) const {
  return Invalid(std::string(server) + " URL: " + std::string(what) + "; " + std::string(form));
}

Result<std::string> PercentDecode(std::string_view text, const ServerUrlForm& form,
                                  std::string_view what) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return form.Wrong("a '%' in the " + std::string(what) + " without two hex digits after it");
    }
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

Result<int> ParseUrlNumber(std::string_view text, int low, int high, const ServerUrlForm& form,
                           std::string_view what) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      number < low || number > high) {
    return form.Wrong("the " + std::string(what) + " must be a number from " + std::to_string(low) +
                      " to " + std::to_string(high));
  }
  return number;
}

std::string HostAndPort(std::string_view host, int port) {
  const bool brackets = host.find(':') != std::string_view::npos;
  const std::string name(host);
  return (brackets ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

Result<ServerUrl> ParseServerUrl(std::string_view text, const ServerUrlForm& form) {
  if (text.size() > kUrlMax) return form.Wrong("it is too long");
  ServerUrl url;
  url.tls = text.starts_with(form.tls_scheme);
  if (!url.tls && !text.starts_with(form.scheme)) {
    return form.Wrong("it does not begin with " + std::string(form.scheme) + " or " +
                      std::string(form.tls_scheme));
  }
  text.remove_prefix(url.tls ? form.tls_scheme.size() : form.scheme.size());
  if (const size_t mark = text.find('?'); mark != std::string_view::npos) {
    TM_RETURN_IF_ERROR(ParseOptions(text.substr(mark + 1), form, url));
    text = text.substr(0, mark);
  }
  if (text.find('#') != std::string_view::npos) return form.Wrong("there is a '#' in it");
  // The last '@': one inside a password should be written %40, but is understood.
  const size_t at = text.rfind('@');
  if (at != std::string_view::npos) {
    TM_RETURN_IF_ERROR(ParseUser(text.substr(0, at), form, url));
    text.remove_prefix(at + 1);
  }
  const size_t slash = text.find('/');
  TM_RETURN_IF_ERROR(ParseHost(text.substr(0, slash), form, url));
  if (slash != std::string_view::npos) url.path = text.substr(slash + 1);
  return url;
}

}  // namespace tidemill
