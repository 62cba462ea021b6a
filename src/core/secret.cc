#include "core/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kTokenBytes = 16;

std::string LowerHex(const unsigned char* bytes, size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < size; ++i) {
    hex += kDigits[bytes[i] >> 4];
    hex += kDigits[bytes[i] & 15];
  }
  return hex;
}

Result<std::string> ReadSecret(const std::string& path) {
  TM_ASSIGN_OR_RETURN(std::string secret, ReadFileBounded(path, 4096));
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && (about.st_mode & 077) != 0) {
    return Invalid(path + ": other users can read this secret; run chmod 600 on it");
  }
  while (!secret.empty() && secret.back() == '\n') secret.pop_back();
  const bool hex = std::all_of(secret.begin(), secret.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (!hex || secret.size() != 2 * kSecretBytes) {
    return Invalid(path + ": a secret has " + std::to_string(2 * kSecretBytes) + " hex digits");
  }
  return secret;
}

}  // namespace

std::string NewSecret() {
  unsigned char bytes[kSecretBytes];
  TM_CHECK(RAND_bytes(bytes, sizeof bytes) == 1, "the system has no random bytes");
  return LowerHex(bytes, sizeof bytes);
}

Result<std::string> KeepSecret(const std::string& path) {
  Result<std::string> secret = ReadSecret(path);
  if (secret.status().code() != Code::kNotFound) return secret;
  // Written whole under another name and linked: who comes second finds the first one's.
  const std::string made = NewSecret();
  const std::string draft = path + "." + made.substr(0, 8);
  Fd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return FileFailure(draft, "cannot create", errno);
  Status written = WriteAll(fd, made + "\n", draft);
  if (written.ok() && fsync(fd.get()) != 0) written = FileFailure(draft, "cannot sync", errno);
  if (written.ok() && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    written = FileFailure(path, "cannot create", errno);
  }
  unlink(draft.c_str());
  TM_RETURN_IF_ERROR(written);
  TM_RETURN_IF_ERROR(SyncDirectory(ParentOf(path)));
  return ReadSecret(path);
}

std::string TokenFor(std::string_view secret, std::string_view words) {
  unsigned char digest[32];
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(words.data()), words.size(), digest, &size);
  TM_CHECK(made != nullptr && size == sizeof digest, "HMAC-SHA256 is missing from libcrypto");
  return LowerHex(digest, kTokenBytes);
}

bool SameToken(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tidemill
