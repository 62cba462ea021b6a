#include "bus/rabbit/rabbit_url.h"

#include <utility>

#include "bus/server_url.h"

namespace tidemill {
namespace {

constexpr ServerUrlForm kRabbitForm = {
    .server = "rabbitmq",
    .scheme = "amqp://",
    .tls_scheme = "amqps://",
    .form = "expected amqp://[user[:password]@]host[:port][/vhost], or amqps:// for TLS"};
constexpr int kTlsPort = 5671;

Status TakeOptions(ServerUrl& url, RabbitAddress& address) {
  for (auto& [name, value] : url.options) {
    if (name == "queues") {
      if (value != "quorum" && value != "classic") {
        return kRabbitForm.Wrong("queues must be quorum or classic");
      }
      address.quorum = value == "quorum";
      continue;
    }
    std::string* file = name == "ca"     ? &address.ca
                        : name == "cert" ? &address.cert
                        : name == "key"  ? &address.key
                                         : nullptr;
    if (!address.tls || file == nullptr) {
      return kRabbitForm.Wrong(
          "unknown option after the '?'; amqp:// takes queues=, amqps:// also ca=, cert= and key=");
    }
    *file = std::move(value);
    if (file->empty()) return kRabbitForm.Wrong("ca, cert and key name files");
  }
  if (address.cert.empty() != address.key.empty()) {
    return kRabbitForm.Wrong("cert and key go together");
  }
  return Ok();
}

}  // namespace

std::string RabbitAddress::Name() const {
  return HostAndPort(host, port) + "/" + (vhost == "/" ? "" : vhost);
}

Result<RabbitAddress> ParseRabbitUrl(std::string_view text) {
  TM_ASSIGN_OR_RETURN(ServerUrl url, ParseServerUrl(text, kRabbitForm));
  RabbitAddress address;
  address.tls = url.tls;
  TM_RETURN_IF_ERROR(TakeOptions(url, address));
  if (url.signs_in) {
    address.user = std::move(url.user);
    address.password = std::move(url.password);
  }
  address.host = std::move(url.host);
  address.port = url.port != 0 ? url.port : url.tls ? kTlsPort : address.port;
  if (!url.path.empty()) {
    TM_ASSIGN_OR_RETURN(address.vhost, PercentDecode(url.path, kRabbitForm, "vhost"));
  }
  return address;
}

}  // namespace tidemill
