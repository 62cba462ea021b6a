#include "cli/model_tokenize.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/files.h"
#include "model/tokenizer.h"

namespace tidemill {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 30;

Result<std::string> ReadText(const std::string& file) {
  if (file != "-") return ReadFileBounded(file, kTextBytesMax);
  std::string text;
  char buffer[65536];
  while (std::cin.read(buffer, sizeof(buffer)) || std::cin.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kTextBytesMax) return Invalid("standard input: too long");
  }
  return text;
}

int Failed(const Status& status) {
  std::cerr << "tidemill: " << status.message() << "\n";
  return 1;
}

}  // namespace

int RunModelTokenize(const std::string& model_dir, const std::optional<std::string>& text_file,
                     const std::optional<std::vector<int32_t>>& ids, bool json) {
  if (text_file.has_value() == ids.has_value()) {
    std::cerr << "tidemill: model tokenize needs either a text file or ids\n";
    return 2;
  }
  const Result<Tokenizer> tokenizer = Tokenizer::Read(model_dir);
  if (!tokenizer.ok()) return Failed(tokenizer.status());
  if (ids) {
    const std::string text = tokenizer->Decode(*ids);
    std::cout << (json ? nlohmann::json{{"text", text}}.dump() + "\n" : Shown(text)) << std::flush;
    return std::cout.good() ? 0 : 1;
  }
  const Result<std::string> text = ReadText(*text_file);
  if (!text.ok()) return Failed(text.status());
  const std::vector<TokenId> encoded = tokenizer->Encode(*text, SpecialTokens::kRecognise);
  if (json) {
    std::cout << nlohmann::json{{"ids", encoded}}.dump();
  } else {
    for (size_t i = 0; i < encoded.size(); ++i) std::cout << (i > 0 ? " " : "") << encoded[i];
  }
  std::cout << "\n" << std::flush;
  return std::cout.good() ? 0 : 1;
}

}  // namespace tidemill
