// Ed25519 signatures with keys in PEM files: who reads a signed text knows that the holder of the
// private key wrote it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

struct evp_pkey_st;

namespace tidemill {

// Writes a new private key to `path`, for its owner alone, and the public one to `path`.pub.
// kExists: there is a file already; nothing was written over.
Status MakeSigningKey(const std::string& path);

// A key as read from its file. Shared by copies; thread-safe.
class SigningKey {
 public:
  // kInvalid: no Ed25519 key, or a private one that others may read.
  static Result<SigningKey> ReadPrivate(const std::string& path);
  static Result<SigningKey> ReadPublic(const std::string& path);

  // 128 hex digits. Only with a private key.
  std::string Sign(std::string_view text) const;
  // Whether the private key of this one made the signature of this text.
  bool Verifies(std::string_view text, std::string_view signature) const;

 private:
  explicit SigningKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  std::shared_ptr<evp_pkey_st> key_;  // shared: OpenSSL counts references too
};

}  // namespace tidemill
