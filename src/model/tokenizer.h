// Text to token ids and back: byte-level BPE read from a Hugging Face tokenizer.json.
//
//   text -> added tokens cut out -> NFC -> pre-tokens by regex -> bytes -> merges -> ids
//
// Agrees with the reference implementation id for id on every text that is valid UTF-8. What the
// file asks for and we do not do (another model type, normalizer, pre-tokenizer, decoder) is
// refused by name when it is read, so that a tokenizer that loads is exact.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/text_span.h"
#include "model/token_id.h"

namespace tidemill {

// A token matched as a whole before anything else is done to the text.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      // only recognised where the caller asks for it
  bool normalized = false;   // matched after normalization instead of before
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool single_word = false;  // only where no word character touches it
};

enum class SpecialTokens : uint8_t {
  kAsText,     // "<|im_end|>" is ten ordinary characters: for everything that comes from outside
  kRecognise,  // "<|im_end|>" is the token
};

// Immutable and thread-safe; copies share one instance. Threads keep a small cache of pre-tokens
// each.
class Tokenizer {
 public:
  // `name` is what errors call the input. kInvalid names the field.
  static Result<Tokenizer> Parse(std::string_view json, std::string_view name);
  // DIR/tokenizer.json. kNotFound: no such file.
  static Result<Tokenizer> Read(const std::string& dir);

  // Adds no token that is not in the text. Bytes that are not UTF-8 are read as U+FFFD. Added
  // tokens that are not special are recognised either way.
  std::vector<TokenId> Encode(std::string_view text, SpecialTokens special) const;
  // Text of which the parts `outside` (sorted, disjoint) came from elsewhere, such as a rendered
  // chat template. A special token that has a byte from outside is text ("<" + key + ">" makes no
  // token, whatever the key). Text between two tokens is encoded in one piece: where no special
  // token touches what is from outside, the ids are those of Encode with kRecognise.
  std::vector<TokenId> EncodeGuarded(std::string_view text,
                                     std::span<const TextSpan> outside) const;
  // As EncodeGuarded, of a text that may be long and meant to do harm. Stops when the ids are known
  // to be more than `most`, which takes no longer than that many ids and words of their length do.
  // kInvalid: the pattern that cuts the text into words takes too many steps on it (the other calls
  // leave such a part whole and log it).
  struct Bounded {
    std::vector<TokenId> ids{};
    size_t more = 0;  // at least so many follow; 0: these are all
    bool empty() const { return ids.empty() && more == 0; }
  };
  Result<Bounded> EncodeBounded(std::string_view text, std::span<const TextSpan> outside,
                                size_t most) const;
  // As Encode, appended to `ids`.
  void EncodeTo(std::string_view text, SpecialTokens special, std::vector<TokenId>& ids) const;

  // Works for any ids: those that name no token are skipped, bytes that are not UTF-8 become
  // U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool skip_special = false) const;
  // The bytes the token stands for, possibly part of a character. Empty: no such token.
  std::string_view TokenBytes(TokenId id) const;
  // The id of an added token by its content, or of a token by its bytes.
  std::optional<TokenId> AddedTokenId(std::string_view content) const;
  std::optional<TokenId> TokenIdOfBytes(std::string_view bytes) const;
  bool IsSpecial(TokenId id) const;
  const std::vector<AddedToken>& added_tokens() const;
  // One above the largest id. A model's vocab_size may be larger (padding), never smaller.
  int32_t vocab_size() const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;  // shared: copies of this object use it from any thread
};

// Text as tokens come, never part of a character: what Push and Finish return adds up to Decode of
// all ids.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  // The characters that are complete now; holds back at most three bytes.
  std::string Push(TokenId id);
  // The bytes held back, as U+FFFD, or nothing. The decoder is as new afterwards.
  std::string Finish();

 private:
  Tokenizer tokenizer_;
  std::string held_;
};

}  // namespace tidemill
