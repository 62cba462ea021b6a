#include "gateway/reasoning_seal.h"

#include <openssl/evp.h>

#include <limits>
#include <vector>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr std::string_view kSealMark = "tmr1.";

}  // namespace

std::string SealReasoning(std::string_view reasoning) {
  std::vector<unsigned char> base64(4 * ((reasoning.size() + 2) / 3) + 1);
  const int length =
      EVP_EncodeBlock(base64.data(), reinterpret_cast<const unsigned char*>(reasoning.data()),
                      static_cast<int>(reasoning.size()));
  return std::string(kSealMark) + std::string(base64.begin(), base64.begin() + length);
}

std::optional<std::string> OpenReasoning(std::string_view sealed) {
  if (!sealed.starts_with(kSealMark)) return std::nullopt;
  sealed.remove_prefix(kSealMark.size());
  if (sealed.size() % 4 != 0 || sealed.size() > size_t{std::numeric_limits<int>::max()}) {
    return std::nullopt;
  }
  std::vector<unsigned char> text(sealed.size() / 4 * 3 + 1);
  int length = EVP_DecodeBlock(text.data(), reinterpret_cast<const unsigned char*>(sealed.data()),
                               static_cast<int>(sealed.size()));
  if (length < 0) return std::nullopt;
  // It counts the bytes that "=" stands for.
  for (size_t i = 1; i <= 2 && i <= sealed.size() && sealed[sealed.size() - i] == '='; ++i)
    --length;
  std::string reasoning(text.begin(), text.begin() + length);
  if (!IsUtf8(reasoning)) return std::nullopt;
  return reasoning;
}

}  // namespace tidemill
