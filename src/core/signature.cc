#include "core/signature.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

constexpr size_t kSignatureBytes = 64;

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct DigestFree {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using BioPtr = std::unique_ptr<BIO, BioFree>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, DigestFree>;

Status WriteNew(const std::string& path, BIO* pem, mode_t mode) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(pem, &text);
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd && errno == EEXIST) return Exists(path + " is there already");
  if (!fd) return FileFailure(path, "cannot create", errno);
  return WriteAll(fd, std::string_view(text, static_cast<size_t>(size)), path);
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Status MakeSigningKey(const std::string& path) {
  const std::shared_ptr<EVP_PKEY> key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
                                      EVP_PKEY_free);
  TM_CHECK(key != nullptr, "Ed25519 is missing from libcrypto");
  const BioPtr secret(BIO_new(BIO_s_mem())), open(BIO_new(BIO_s_mem()));
  TM_CHECK(PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) == 1);
  TM_CHECK(PEM_write_bio_PUBKEY(open.get(), key.get()) == 1);
  TM_RETURN_IF_ERROR(WriteNew(path, secret.get(), 0600));
  return WriteNew(path + ".pub", open.get(), 0644);
}

Result<SigningKey> SigningKey::ReadPrivate(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string pem, ReadFileBounded(path, 65536));
  struct stat about {};
  // A group may read it: that is how a container's user gets its secrets.
  if (stat(path.c_str(), &about) == 0 && (about.st_mode & 027) != 0) {
    return Invalid(path + ": others may read or change this private key; chmod 600 it");
  }
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::shared_ptr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, const_cast<char*>("")), EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    return Invalid(path + ": no private Ed25519 key; make one with: tidemill bus key " + path);
  }
  return SigningKey(std::move(key));
}

Result<SigningKey> SigningKey::ReadPublic(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string pem, ReadFileBounded(path, 65536));
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::shared_ptr<EVP_PKEY> key(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr),
                                EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519) {
    return Invalid(path + ": no public Ed25519 key; tidemill bus key FILE writes one to FILE.pub");
  }
  return SigningKey(std::move(key));
}

std::string SigningKey::Sign(std::string_view text) const {
  const DigestPtr context(EVP_MD_CTX_new());
  unsigned char bytes[kSignatureBytes];
  size_t size = sizeof bytes;
  const bool made =
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
      EVP_DigestSign(context.get(), bytes, &size,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
  TM_CHECK(made && size == sizeof bytes, "only a private key signs");
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned char byte : bytes) hex += kDigits[byte >> 4], hex += kDigits[byte & 15];
  return hex;
}

bool SigningKey::Verifies(std::string_view text, std::string_view signature) const {
  if (signature.size() != 2 * kSignatureBytes) return false;
  unsigned char bytes[kSignatureBytes];
  for (size_t i = 0; i < kSignatureBytes; ++i) {
    const int high = HexValue(signature[2 * i]), low = HexValue(signature[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<unsigned char>(high * 16 + low);
  }
  const DigestPtr context(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes, sizeof bytes,
                          reinterpret_cast<const unsigned char*>(text.data()), text.size()) == 1;
}

}  // namespace tidemill
