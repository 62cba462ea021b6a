#include "environments/model_words.h"

#include "core/secret.h"

namespace tidemill {
namespace {

bool FillWord(std::string& word, const std::string& name, const std::string& value) {
  const size_t at = word.find(name);
  if (at != std::string::npos) word.replace(at, name.size(), value);
  return at != std::string::npos;
}

}  // namespace

std::string FillModelWords(const std::string& model_url, std::vector<std::string>& command) {
  const std::string key = "tmk-" + NewSecret();
  bool has_key = false;
  for (std::string& word : command) {
    (void)FillWord(word, "{model_url}", model_url);
    has_key = FillWord(word, kModelKeyWord, key + "-{server}") || has_key;
  }
  return has_key ? key : "";
}

}  // namespace tidemill
