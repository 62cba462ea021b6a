#include "http/access.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/files.h"
#include "core/hash.h"

namespace tidemill {
namespace {

constexpr std::string_view kScheme = "bearer ";
constexpr size_t kAccessTokensMax = 1000;
constexpr size_t kTokenFileBytesMax = 1 << 20;

bool SchemeIsBearer(std::string_view text) {
  if (text.size() < kScheme.size()) return false;
  return std::equal(kScheme.begin(), kScheme.end(), text.begin(), [](char a, char b) {
    return a == std::tolower(static_cast<unsigned char>(b));
  });
}

}  // namespace

Result<Tokens> Tokens::Make(std::vector<std::string> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string name = "token " + std::to_string(i + 1);
    if (tokens[i].size() < kTokenBytesMin) {
      return Invalid(name + " is shorter than " + std::to_string(kTokenBytesMin) + " characters");
    }
    if (!std::all_of(tokens[i].begin(), tokens[i].end(),
                     [](char c) { return c > ' ' && c < 127; })) {
      return Invalid(name + " has characters other than printable ASCII");
    }
  }
  Tokens result;
  // Digests have one length, so that comparing them tells nothing of a token's.
  for (const std::string& token : tokens) result.tokens_.push_back(Sha256Hex(token));
  return result;
}

bool Tokens::Accept(std::string_view authorization) const {
  if (!SchemeIsBearer(authorization)) return false;
  const std::string given = Sha256Hex(authorization.substr(kScheme.size()));
  bool accepted = false;
  for (const std::string& token : tokens_) {
    const bool same = CRYPTO_memcmp(token.data(), given.data(), given.size()) == 0;
    accepted = accepted | same;  // no short cut: every token is compared
  }
  return accepted;
}

Result<std::vector<std::string>> ReadTokenFile(const std::string& path) {
  const Result<std::string> text = ReadFileBounded(path, kTokenFileBytesMax);
  if (!text.ok()) {
    return Invalid(text.status().message() + "; it should hold one token a line");
  }
  std::istringstream file(*text);
  std::vector<std::string> tokens;
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    if (const Result<Tokens> checked = Tokens::Make({line}); !checked.ok()) {
      return Invalid(path + ":" + std::to_string(number) + ": " + checked.status().message());
    }
    if (tokens.size() == kAccessTokensMax) return Invalid(path + ": more than 1000 tokens");
    tokens.push_back(line);
  }
  if (tokens.empty()) return Invalid(path + ": contains no token");
  return tokens;
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1" || host == "[::1]") return true;
  if (host.substr(0, 4) != "127.") return false;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return c == '.' || (c >= '0' && c <= '9'); }) &&
         std::count(host.begin(), host.end(), '.') == 3;
}

bool HostIsLoopback(std::string_view host_header) {
  const bool bracket = !host_header.empty() && host_header[0] == '[';
  const size_t end = bracket ? host_header.find(']') + 1  // none: 0
                             : std::min(host_header.find(':'), host_header.size());
  const std::string_view port = host_header.substr(end);
  const bool is_port = port.empty() || (port[0] == ':' && port.size() > 1 && port.size() <= 6 &&
                                        std::all_of(port.begin() + 1, port.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; }));
  return is_port && IsLoopback(host_header.substr(0, end));
}

bool FromAForeignPage(const HttpRequest& request) {
  std::string_view origin = request.Header("origin");
  if (origin.empty() || !request.Header("authorization").empty() ||
      !request.Header("x-api-key").empty()) {
    return false;
  }
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.substr(0, scheme.size()) == scheme) {
      return !HostIsLoopback(origin.substr(scheme.size()));
    }
  }
  return true;
}

}  // namespace tidemill
