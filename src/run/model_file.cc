#include "run/model_file.h"

#include <algorithm>

namespace tidemill {
namespace {

constexpr uint64_t kBytesMax = uint64_t{1} << 42;

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

}  // namespace

Status CheckModelFile(const ModelFile& file) {
  const bool folder =
      file.folder == "model" || file.folder == "tokenizer" || file.folder == "adapter";
  const bool name = !file.name.empty() && file.name.size() < 200 && file.name[0] != '.' &&
                    std::none_of(file.name.begin(), file.name.end(), [](char c) {
                      return c == '/' || static_cast<unsigned char>(c) < ' ';
                    });
  const bool hash =
      file.sha256.size() == 64 && std::all_of(file.sha256.begin(), file.sha256.end(), IsHex);
  if (folder && name && hash && file.bytes <= kBytesMax) return Ok();
  return Invalid("\"model_files\" lists something that is no file of a model");
}

}  // namespace tidemill
