// tokenizer.json, then texts of its own through what was read. The input is the file; with a zero
// byte in it, what stands behind is the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tidemill::SpecialTokens;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const auto tokenizer = tidemill::Tokenizer::Parse(input.substr(0, zero), "fuzz");
  if (!tokenizer.ok()) return 0;
  const std::string_view text = zero == std::string_view::npos
                                    ? std::string_view("it's 12 <a> caf\xc3\xa9 e\xcc\x81\n\n \xff")
                                    : input.substr(zero + 1);
  for (const SpecialTokens mode : {SpecialTokens::kRecognise, SpecialTokens::kAsText}) {
    const auto ids = tokenizer->Encode(text, mode);
    tidemill::StreamDecoder stream(*tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab_size()) std::abort();
      if (mode == SpecialTokens::kAsText && tokenizer->IsSpecial(id) &&
          !tokenizer->TokenIdOfBytes(tokenizer->TokenBytes(id))) {
        std::abort();  // a special token that no merge makes came out of plain text
      }
      streamed += stream.Push(id);
    }
    if (streamed + stream.Finish() != tokenizer->Decode(ids)) std::abort();
  }
  return 0;
}
