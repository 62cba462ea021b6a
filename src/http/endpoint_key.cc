#include "http/endpoint_key.h"

#include <cctype>
#include <cstdlib>

#include "core/files.h"

namespace tidemill {
namespace {

constexpr size_t kKeyBytesMax = 16 * 1024;

std::string WithoutSpace(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0)
    text.erase(0, 1);
  return text;
}

}  // namespace

Result<std::string> ReadEndpointKey(const std::string& key_file, const std::string& key_env) {
  std::string key;
  if (!key_file.empty()) {
    TM_ASSIGN_OR_RETURN(key, ReadFileBounded(key_file, kKeyBytesMax));
    key = WithoutSpace(std::move(key));
    if (key.empty()) return Invalid(key_file + " is empty; it must hold the API key");
  } else if (!key_env.empty()) {
    const char* value = std::getenv(key_env.c_str());
    if (value == nullptr || *value == '\0')
      return Invalid("the environment variable " + key_env + " must hold the API key");
    key = WithoutSpace(value);
  }
  for (const char c : key) {
    if (c <= ' ' || c >= 0x7f) return Invalid("its API key has characters that no key has");
  }
  return key;
}

}  // namespace tidemill
