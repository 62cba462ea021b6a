#include "bus/redis/redis_url.h"

#include <utility>

#include "bus/server_url.h"

namespace tidemill {
namespace {

constexpr ServerUrlForm kForm = {
    .server = "redis",
    .scheme = "redis://",
    .tls_scheme = "rediss://",
    .form = "expected redis://[user[:password]@]host[:port][/db], or rediss:// for TLS"};

// "ca=/etc/ca.pem&cert=..&key=..", behind the '?'.
Status TakeTlsFiles(ServerUrl& url, RedisAddress& address) {
  for (auto& [name, value] : url.options) {
    std::string* file = name == "ca"     ? &address.ca
                        : name == "cert" ? &address.cert
                        : name == "key"  ? &address.key
                                         : nullptr;
    if (!address.tls || file == nullptr) {
      return kForm.Wrong("unknown option after the '?'; rediss:// takes ca=, cert= and key=");
    }
    *file = std::move(value);
    if (file->empty()) return kForm.Wrong("ca, cert and key name files");
  }
  if (address.cert.empty() != address.key.empty()) {
    return kForm.Wrong("cert and key go together");
  }
  return Ok();
}

}  // namespace

std::string RedisAddress::Name() const {
  return HostAndPort(host, port) + "/" + std::to_string(db);
}

Result<RedisAddress> ParseRedisUrl(std::string_view text) {
  TM_ASSIGN_OR_RETURN(ServerUrl url, ParseServerUrl(text, kForm));
  RedisAddress address;
  address.tls = url.tls;
  TM_RETURN_IF_ERROR(TakeTlsFiles(url, address));
  address.user = std::move(url.user);
  address.password = std::move(url.password);
  address.host = std::move(url.host);
  if (url.port != 0) address.port = url.port;
  if (!url.path.empty()) {
    TM_ASSIGN_OR_RETURN(address.db, ParseUrlNumber(url.path, 0, 1'000'000, kForm, "database"));
  }
  return address;
}

}  // namespace tidemill
