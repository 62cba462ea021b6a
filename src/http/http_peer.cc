#include "http/http_peer.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <charconv>
#include <optional>

#include "core/fd.h"
#include "core/text.h"

namespace tidemill {
namespace {

namespace ask_asio = boost::asio;
namespace ask_beast = boost::beast;
namespace ask_http = boost::beast::http;
using AskTcp = boost::asio::ip::tcp;
using AskError = boost::system::error_code;
using AskResponse = ask_http::response_parser<ask_http::string_body>;

std::string Explain(const AskError& error) {
  if (error == ask_beast::error::timeout) return "no answer in time";
  if (error == ask_http::error::body_limit) return "its answer is too large";
  if (error == ask_http::error::header_limit) return "the header of its answer is too large";
  if (error == ask_http::error::end_of_stream) return "it closed the connection";
  return error.message();
}

std::chrono::seconds RetryAfter(const ask_http::response<ask_http::string_body>& response) {
  const auto field = response.find(ask_http::field::retry_after);
  if (field == response.end()) return std::chrono::seconds(0);
  const auto text = field->value();
  uint32_t seconds = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::seconds(read.ec == std::errc() ? std::min(seconds, 3600u) : 0);
}

bool IsHostCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_' ||
         c == ':';
}

}  // namespace

std::string HttpUrl::Authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? "443" : "80") ? name : name + ":" + port;
}

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return Invalid("\"" + Beginning(text, 200) + "\" is no address: " + std::string(why) +
                   "; right is http://HOST:PORT/PATH, or https");
  };
  HttpUrl url;
  std::string_view rest = text;
  if (rest.rfind("https://", 0) == 0) {
    url.tls = true;
    rest.remove_prefix(8);
  } else if (rest.rfind("http://", 0) == 0) {
    rest.remove_prefix(7);
  } else {
    return wrong("it must begin with http:// or https://");
  }
  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  url.path = slash == std::string_view::npos ? "/" : std::string(rest.substr(slash));
  while (url.path.size() > 1 && url.path.back() == '/') url.path.pop_back();
  for (const char c : url.path) {
    if (c <= ' ' || c == '?' || c == '#' || c == 0x7f)
      return wrong("its path has other characters");
  }
  url.port = url.tls ? "443" : "80";
  const size_t colon = authority.rfind(':');
  const size_t bracket = authority.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    url.port = std::string(authority.substr(colon + 1));
    authority = authority.substr(0, colon);
    uint16_t port = 0;
    const auto read = std::from_chars(url.port.data(), url.port.data() + url.port.size(), port);
    if (read.ec != std::errc() || read.ptr != url.port.data() + url.port.size() || port == 0)
      return wrong("its port must be a number from 1 to 65535");
  }
  if (authority.size() > 2 && authority.front() == '[' && authority.back() == ']')
    authority = authority.substr(1, authority.size() - 2);
  url.host = std::string(authority);
  if (url.host.empty()) return wrong("it has no host");
  for (const char c : url.host) {
    if (!IsHostCharacter(c)) return wrong("its host has other characters");
  }
  return url;
}

std::string HttpAnswer::Header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return header.first == name; });
  return found == headers.end() ? "" : found->second;
}

struct HttpPeer::Core {
  Core(HttpUrl to, HttpPeerOptions limits)
      : url(std::move(to)), options(std::move(limits)), tls(ask_asio::ssl::context::tls_client) {}

  using Plain = ask_beast::tcp_stream;
  using Sealed = ask_beast::ssl_stream<ask_beast::tcp_stream>;

  const HttpUrl url;
  const HttpPeerOptions options;
  ask_asio::io_context io{1};
  ask_asio::ssl::context tls;
  std::optional<Plain> plain;
  std::optional<Sealed> sealed;
  ask_beast::flat_buffer buffer;
  std::atomic<bool> interrupted{false};
  uint64_t connections = 0;

  bool open() const { return plain.has_value() || sealed.has_value(); }
  void Close() {
    plain.reset();
    sealed.reset();
    buffer.clear();
  }
  Plain& lowest() { return sealed ? sealed->next_layer() : *plain; }

  // Waits for the operation that was started; its handler stores what became of it.
  AskError Finish(const std::optional<AskError>& done) {
    io.restart();
    if (interrupted) return ask_asio::error::operation_aborted;
    io.run();
    return done.value_or(ask_asio::error::operation_aborted);
  }

  AskError Connect(std::chrono::steady_clock::time_point deadline) {
    AskTcp::resolver resolver(io);
    AskError error;
    const auto found = resolver.resolve(url.host, url.port, error);
    if (error) return error;
    if (url.tls) {
      sealed.emplace(io, tls);
      if (SSL_set_tlsext_host_name(sealed->native_handle(), url.host.c_str()) != 1)
        return ask_asio::error::invalid_argument;
      sealed->set_verify_callback(ask_asio::ssl::host_name_verification(url.host));
    } else {
      plain.emplace(io);
    }
    lowest().expires_at(deadline);
    std::optional<AskError> done;
    lowest().async_connect(found, [&](AskError e, const AskTcp::endpoint&) { done = e; });
    error = Finish(done);
    if (error) return error;
    ++connections;
    (void)CloseOnExec(lowest().socket().native_handle());
    AskError ignored;
    lowest().socket().set_option(AskTcp::no_delay(true), ignored);
    if (!url.tls) return {};
    done.reset();
    sealed->async_handshake(ask_asio::ssl::stream_base::client, [&](AskError e) { done = e; });
    return Finish(done);
  }

  template <class Stream>
  AskError Exchange(Stream& stream, ask_http::request<ask_http::string_body>& request,
                    AskResponse& response) {
    std::optional<AskError> done;
    ask_http::async_write(stream, request, [&](AskError e, size_t) { done = e; });
    AskError error = Finish(done);
    // A server may answer before it has read everything.
    if (error && error != ask_asio::error::broken_pipe &&
        error != ask_asio::error::connection_reset)
      return error;
    done.reset();
    ask_http::async_read(stream, buffer, response, [&](AskError e, size_t) { done = e; });
    return Finish(done);
  }
};

HttpPeer::HttpPeer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
HttpPeer::~HttpPeer() = default;

Result<std::unique_ptr<HttpPeer>> HttpPeer::Make(HttpUrl url, HttpPeerOptions options) {
  auto core = std::make_unique<Core>(std::move(url), std::move(options));
  if (core->url.tls) {
    AskError error;
    if (core->options.ca_file.empty())
      core->tls.set_default_verify_paths(error);
    else
      core->tls.load_verify_file(core->options.ca_file, error);
    if (error)
      return Invalid("reading certificates from " + core->options.ca_file + ": " + error.message());
    core->tls.set_verify_mode(ask_asio::ssl::verify_peer);
  }
  return std::unique_ptr<HttpPeer>(new HttpPeer(std::move(core)));
}

Result<HttpAnswer> HttpPeer::Ask(const HttpAsk& ask, std::chrono::milliseconds timeout) {
  Core& core = *core_;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  ask_http::request<ask_http::string_body> request;
  request.version(11);
  request.method_string(ask.method);
  request.target(ask.target);
  request.set(ask_http::field::host, core.url.Authority());
  for (const auto& [name, value] : ask.headers) request.set(name, value);
  request.body() = ask.body;
  request.prepare_payload();
  const auto failed = [&](const AskError& error) {
    core.Close();
    return Unavailable(core.url.Authority() + ": " +
                       (core.interrupted ? "stopped" : Explain(error)));
  };
  for (int round = 0;; ++round) {
    const bool kept = core.open();
    if (!kept) {
      if (const AskError error = core.Connect(deadline); error) return failed(error);
    }
    core.lowest().expires_at(deadline);
    AskResponse response;
    response.body_limit(core.options.body_max);
    response.header_limit(static_cast<uint32_t>(core.options.header_max));
    const AskError error = core.sealed ? core.Exchange(*core.sealed, request, response)
                                       : core.Exchange(*core.plain, request, response);
    if (error && kept && round == 0 && !response.got_some() && !core.interrupted &&
        error != ask_beast::error::timeout) {
      core.Close();  // it was closed since the last answer
      continue;
    }
    if (error) return failed(error);
    auto message = response.release();
    if (!message.keep_alive()) core.Close();
    HttpAnswer answer{static_cast<int>(message.result_int()), std::move(message.body()),
                      RetryAfter(message)};
    for (const auto& field : message) {
      std::string name(field.name_string());
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      answer.headers.emplace_back(std::move(name), std::string(field.value()));
    }
    return answer;
  }
}

void HttpPeer::Interrupt() {
  core_->interrupted = true;
  core_->io.stop();
}

uint64_t HttpPeer::connections() const {
  return core_->connections;
}

}  // namespace tidemill
