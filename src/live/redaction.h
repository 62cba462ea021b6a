// Secrets are taken out of what is stored: keys of known vendors, tokens, private keys, and what
// the patterns of `live.redact` match.
//
//   messages -> Clean -> "[redacted:NAME]" in their place, and the secrets found, for Tokens
//   ids -> Tokens -> every token that holds a part of one becomes kRedactedToken
//
// A text that cannot be searched within the bounds of the patterns is taken for a secret whole.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "gateway/chat_request.h"
#include "model/text_regex.h"
#include "model/token_id.h"

namespace tidemill {

// In the place of a token of a secret.
inline constexpr TokenId kRedactedToken = 0;
// The replacement of a secret in a text begins like this.
inline constexpr std::string_view kRedactedMark = "[redacted:";

using SecretSet = std::set<std::string>;

// Immutable, thread-safe.
class Redaction {
 public:
  // With patterns (PCRE2) besides the built-in ones. kInvalid names the pattern that is wrong, or
  // that matches an empty text.
  static Result<Redaction> Make(const std::vector<std::string>& patterns);

  // Takes the secrets out of a text of UTF-8 and adds them to `found`. How many there were.
  size_t Clean(std::string& text, SecretSet& found) const;
  // Of every text in it, names of fields too.
  size_t Clean(WireJson& json, SecretSet& found) const;
  // A name that holds a secret becomes another, always the same one.
  std::string CleanName(const std::string& name) const;
  // Marks the tokens behind the first `from` that hold a part of a secret, or of one of `known`
  // (as it is, or escaped as in JSON). How many secrets were found.
  size_t Tokens(std::vector<TokenId>& ids, size_t from, const SecretSet& known,
                const std::function<std::string(TokenId)>& bytes_of) const;

 private:
  struct Pattern {
    std::string name;
    TextRegex regex;
  };
  struct Span {
    size_t begin = 0;
    size_t end = 0;
    size_t pattern = 0;
  };
  bool Search(std::string_view text, const std::vector<size_t>* begins,
              std::vector<Span>& all) const;
  // In order, apart from each other. Nothing: the search cost too much, and any part of the text
  // may be a secret.
  std::optional<std::vector<Span>> Find(std::string_view text) const;

  std::vector<Pattern> patterns_;
};

// Whether some text of it stands for a secret.
bool HoldsRedaction(const WireJson& json);

}  // namespace tidemill
