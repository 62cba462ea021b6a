// POST /v1/embeddings: the mean of the prompt's hidden states behind the last norm, of length 1.
#include <openssl/evp.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "gateway/answer.h"
#include "gateway/field_rules.h"
#include "gateway/raw_prompts.h"
#include "gateway/request_parts.h"
#include "gateway/translators.h"

namespace tidemill {
namespace {

constexpr FieldRule kEmbeddingsTable[] = {
    {"", "model", kHonoured, "any name, unless the server is strict"},
    {"", "input", kHonoured, "a text, token ids, or a list of either"},
    {"", "encoding_format", kHonoured, "`float` or `base64`"},
    {"", "dimensions", kRefused, "an embedding is as long as the model is wide"},
    {"", "user", kIgnored, ""},
    {"", "truncate_prompt_tokens", kRefused, "the prompt is taken as it is"},
};

// Of a sum the direction is that of the mean.
std::vector<float> Normalised(std::vector<float> sum) {
  double square = 0;
  for (const float value : sum) square += static_cast<double>(value) * value;
  const double length = std::sqrt(square);
  if (length > 0) {
    for (float& value : sum) value = static_cast<float>(value / length);
  }
  return sum;
}

std::string InBase64(const std::vector<float>& values) {
  std::vector<unsigned char> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  std::vector<unsigned char> text(4 * ((bytes.size() + 2) / 3) + 1);
  const int length = EVP_EncodeBlock(text.data(), bytes.data(), static_cast<int>(bytes.size()));
  return {text.begin(), text.begin() + length};
}

}  // namespace

const std::span<const FieldRule> kEmbeddingsRules = kEmbeddingsTable;

void ReadEmbeddingsBody(const WireObject& body, ChatRequest& request) {
  request.model = body.String("model").value_or("");
  const std::string format = body.String("encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    body.Fail("encoding_format", "must be \"float\" or \"base64\"");
  }
  request.base64 = format == "base64";
  request.sampling.max_tokens = 1;  // the least that a turn draws; it is not shown
  ReadPrompts(body, "input", request);
}

WireJson EmbeddingsBody(const ChatRequest& request, const AnswerHead& head, const Answer& answer) {
  WireJson data = WireJson::array();
  for (const AnswerChoice& choice : answer.choices) {
    const std::vector<float> values = Normalised(choice.embedding);
    WireJson one = {{"object", "embedding"}, {"index", data.size()}};
    if (request.base64) {
      one["embedding"] = InBase64(values);
    } else {
      one["embedding"] = values;
    }
    data.push_back(std::move(one));
  }
  return {
      {"object", "list"},
      {"data", std::move(data)},
      {"model", head.model},
      {"usage", {{"prompt_tokens", answer.usage.prompt}, {"total_tokens", answer.usage.prompt}}}};
}

}  // namespace tidemill
