#include "core/hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "core/status.h"

namespace tidemill {

std::string Sha256Hex(std::string_view bytes) {
  Sha256 sum;
  sum.Add(bytes);
  return sum.Hex();
}

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  const int ok = EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_), EVP_sha256(), nullptr);
  TM_CHECK(ok == 1, "SHA-256 is missing from libcrypto");
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(state_));
}

void Sha256::Add(std::string_view bytes) {
  TM_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Hex() {
  unsigned char digest[32];
  unsigned int size = 0;
  const int ok = EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_), digest, &size);
  TM_CHECK(ok == 1 && size == sizeof digest);
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex(64, '0');
  for (size_t i = 0; i < sizeof digest; ++i) {
    hex[2 * i] = kHex[digest[i] >> 4];
    hex[2 * i + 1] = kHex[digest[i] & 15];
  }
  return hex;
}

void NormalizeTree(v1::Tree& tree) {
  for (v1::File& file : *tree.mutable_files()) {
    // Its content decides, not its sender's word.
    if (file.has_content() || file.hash().empty()) file.set_hash(Sha256Hex(file.content()));
  }
  std::sort(tree.mutable_files()->begin(), tree.mutable_files()->end(),
            [](const v1::File& a, const v1::File& b) { return a.path() < b.path(); });
}

std::string TreeHash(const v1::Tree& tree) {
  v1::Tree normal = tree;
  NormalizeTree(normal);
  std::string text;
  for (const v1::File& file : normal.files()) {
    text += file.hash();
    text += file.executable() ? 'x' : '-';
    text += file.path();
    text += '\0';
  }
  return Sha256Hex(text);
}

}  // namespace tidemill
