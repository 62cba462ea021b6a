#include "bus/redis/redis_tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>

namespace tidemill {
namespace {

constexpr size_t kRecord = 16 * 1024;

// The newest of OpenSSL's errors in words; the others are forgotten.
std::string TlsReason() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(error);
  return reason == nullptr ? "the connection was closed" : reason;
}

bool IsIpAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

struct CtxFree {
  void operator()(SSL_CTX* ctx) const { SSL_CTX_free(ctx); }
};

Status LoadFiles(SSL_CTX* ctx, const RedisAddress& address) {
  const bool trusted = address.ca.empty() ? SSL_CTX_set_default_verify_paths(ctx) == 1
                                          : SSL_CTX_load_verify_file(ctx, address.ca.c_str()) == 1;
  if (!trusted) return Invalid("the CA certificates of " + address.ca + ": " + TlsReason());
  if (address.cert.empty()) return Ok();
  if (SSL_CTX_use_certificate_chain_file(ctx, address.cert.c_str()) != 1)
    return Invalid("the certificate " + address.cert + ": " + TlsReason());
  if (SSL_CTX_use_PrivateKey_file(ctx, address.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return Invalid("the key " + address.key + ": " + TlsReason());
  return Ok();
}

}  // namespace

struct RedisTls::Session {
  SSL* ssl = nullptr;
  BIO* in = nullptr;   // owned by ssl
  BIO* out = nullptr;  // owned by ssl
  ~Session() { SSL_free(ssl); }
};

RedisTls::RedisTls(std::unique_ptr<Session> session) : session_(std::move(session)) {}
RedisTls::~RedisTls() = default;

Result<std::unique_ptr<RedisTls>> RedisTls::Make(const RedisAddress& address) {
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, CtxFree> ctx(SSL_CTX_new(TLS_client_method()));
  if (ctx == nullptr) return Internal("TLS: " + TlsReason());
  SSL_CTX_set_min_proto_version(ctx.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(ctx.get(), SSL_VERIFY_PEER, nullptr);
  TM_RETURN_IF_ERROR(LoadFiles(ctx.get(), address));
  auto session = std::make_unique<Session>();
  session->ssl = SSL_new(ctx.get());
  session->in = BIO_new(BIO_s_mem());
  session->out = BIO_new(BIO_s_mem());
  TM_CHECK(session->ssl != nullptr && session->in != nullptr && session->out != nullptr);
  SSL_set_bio(session->ssl, session->in, session->out);
  SSL_set_connect_state(session->ssl);
  const bool ip = IsIpAddress(address.host);
  const int named =
      ip ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session->ssl), address.host.c_str())
         : SSL_set1_host(session->ssl, address.host.c_str());
  if (named != 1) return Invalid("no certificate can name the host " + address.host);
  if (!ip) SSL_set_tlsext_host_name(session->ssl, address.host.c_str());
  return std::unique_ptr<RedisTls>(new RedisTls(std::move(session)));
}

void RedisTls::Drain(std::string& wire) {
  const size_t had = wire.size();
  const size_t waiting = BIO_ctrl_pending(session_->out);
  wire.resize(had + waiting);
  if (waiting == 0) return;
  const int read = BIO_read(session_->out, wire.data() + had, static_cast<int>(waiting));
  wire.resize(had + static_cast<size_t>(std::max(read, 0)));
}

Result<bool> RedisTls::Shake(std::string& wire) {
  ERR_clear_error();
  const int done = SSL_do_handshake(session_->ssl);
  Drain(wire);
  if (done == 1) return true;
  const int error = SSL_get_error(session_->ssl, done);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  const long verified = SSL_get_verify_result(session_->ssl);
  if (verified != X509_V_OK) {
    ERR_clear_error();
    return Invalid(std::string("the server's certificate was rejected: ") +
                   X509_verify_cert_error_string(verified));
  }
  return Unavailable("TLS: " + TlsReason());
}

Status RedisTls::Feed(std::string_view wire) {
  const int written = BIO_write(session_->in, wire.data(), static_cast<int>(wire.size()));
  return written == static_cast<int>(wire.size()) ? Ok() : Internal("TLS: out of memory");
}

Status RedisTls::Open(std::string& plain) {
  ERR_clear_error();
  while (true) {
    const size_t had = plain.size();
    plain.resize(had + kRecord);
    const int read = SSL_read(session_->ssl, plain.data() + had, static_cast<int>(kRecord));
    plain.resize(had + static_cast<size_t>(std::max(read, 0)));
    if (read > 0) continue;
    if (SSL_get_error(session_->ssl, read) == SSL_ERROR_WANT_READ) return Ok();
    return Unavailable("TLS: " + TlsReason());
  }
}

Status RedisTls::Seal(std::string_view plain, std::string& wire) {
  ERR_clear_error();
  while (!plain.empty()) {
    const int size = static_cast<int>(std::min<size_t>(plain.size(), 1 << 20));
    const int written = SSL_write(session_->ssl, plain.data(), size);
    if (written <= 0) return Unavailable("TLS: " + TlsReason());
    plain.remove_prefix(static_cast<size_t>(written));
  }
  Drain(wire);
  return Ok();
}

}  // namespace tidemill
