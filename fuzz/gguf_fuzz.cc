// A GGUF file: header, metadata, config, tokenizer and the bytes of every tensor.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_tensors.h"
#include "model/gguf/gguf_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  auto file = tidemill::ParseGguf(input, "fuzz");
  if (!file.ok()) return 0;
  size_t total = 0;
  for (const tidemill::GgufTensor& tensor : file->tensors) {
    total += tensor.data.size();
    std::vector<float> numbers(static_cast<size_t>(tensor.elements()));
    tidemill::Dequantise(tensor.type, tensor.data, numbers);
  }
  if (total > size) std::abort();
  const auto config = tidemill::GgufModelConfig(file->metadata, file->tensors, "fuzz");
  if (!config.ok()) return 0;
  const auto plans = tidemill::PlanGgufTensors(*config, file->tensors, "fuzz");
  if (plans.ok()) {
    for (const tidemill::GgufTensorPlan& plan : *plans) {
      std::vector<std::byte> out(static_cast<size_t>(plan.source->elements()) * 2);
      if (!tidemill::FillTensor(plan, tidemill::Dtype::kBF16, out).ok()) return 0;
    }
  }
  const auto tokenizer = tidemill::GgufTokenizer(file->metadata, *config, "fuzz");
  return tokenizer.ok() && tokenizer->tokenizer.empty() ? std::abort(), 0 : 0;
}
