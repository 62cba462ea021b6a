#include "model/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/files.h"
#include "core/log.h"
#include "model/model_folder.h"
#include "model/tokenizer_impl.h"
#include "model/unicode.h"

namespace tidemill {
namespace {

constexpr size_t kTokenizerBytesMax = size_t{256} << 20;

MergeTable MakeMergeTable(const TokenizerParts& parts) {
  MergeTable table(parts.merges.size());
  for (size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const auto& [pair, result] = parts.merges[rank];
    table.Insert(pair.first, pair.second, {static_cast<uint32_t>(rank), result});
  }
  return table;
}

// How far to encode, and what came in between.
struct EncodeWalk {
  std::vector<TokenId>& ids;
  size_t most = std::numeric_limits<size_t>::max();
  size_t more = 0;  // not 0: it stopped
  bool gave_up = false;
};

// The most bytes an id stands for; 0: nobody knows, because bytes may be left out or fused.
size_t LongestToken(const TokenizerParts& parts) {
  const auto& bytes = parts.vocabulary.byte_ids;
  if (std::any_of(bytes.begin(), bytes.end(), [](TokenId id) { return id < 0; })) return 0;
  size_t longest = 1;
  for (const std::string& token : parts.token_bytes) longest = std::max(longest, token.size());
  return longest;
}

// Valid UTF-8, with the parts from outside where they are then.
struct RepairedText {
  std::string text;
  std::vector<TextSpan> outside;
};

// Part by part, so that what is from outside stays known.
RepairedText Repair(std::string_view text, std::span<const TextSpan> outside) {
  RepairedText repaired;
  size_t at = 0;
  for (const TextSpan& span : outside) {
    repaired.text += Utf8Lossy(text.substr(at, span.begin - at));
    const size_t begin = repaired.text.size();
    repaired.text += Utf8Lossy(text.substr(span.begin, span.end - span.begin));
    repaired.outside.push_back({begin, repaired.text.size()});
    at = span.end;
  }
  repaired.text += Utf8Lossy(text.substr(at));
  return repaired;
}

}  // namespace

struct Tokenizer::Impl {
  bool nfc;
  size_t longest;  // LongestToken
  std::vector<AddedToken> added;
  std::vector<std::string> token_bytes;
  std::vector<bool> special;  // by id
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokenMatcher raw;         // matched in the text as it is
  AddedTokenMatcher normalized;  // matched after normalization

  explicit Impl(TokenizerParts parts)
      : nfc(parts.nfc),
        longest(LongestToken(parts)),
        added(std::move(parts.added)),
        token_bytes(std::move(parts.token_bytes)),
        special(token_bytes.size()),
        pre_tokenizer(std::move(parts.stages)),
        bpe(std::move(parts.vocabulary), MakeMergeTable(parts)) {
    // Special ones first: where two have one spelling, theirs is the one that counts.
    for (const AddedToken& token : added) {
      if (token.special) Register(token);
    }
    for (const AddedToken& token : added) {
      if (!token.special) Register(token);
    }
  }

  void Register(const AddedToken& token) {
    if (token.special) special[static_cast<size_t>(token.id)] = true;
    if (!token.normalized) return raw.Add(token.content, &token);
    const std::optional<std::string> composed =
        nfc ? ToNfc(token.content) : std::optional<std::string>();
    normalized.Add(composed ? *composed : token.content, &token);
  }

  // False: with these bytes the ids are too many.
  bool EncodeWord(std::string_view pre_token, EncodeWalk& walk) const {
    const size_t room = walk.most - std::min(walk.most, walk.ids.size());
    size_t least = longest == 0 ? 0 : (pre_token.size() + longest - 1) / longest;
    if (walk.ids.size() > walk.most) least = std::max<size_t>(1, least);
    if (least > room) {
      walk.more = least;
      return false;
    }
    bpe.Encode(pre_token, walk.ids);
    return true;
  }

  // Text without raw added tokens.
  void EncodeBetween(std::string_view text, const SpecialRule& rule, EncodeWalk& walk) const {
    std::optional<std::string> composed;
    if (nfc) composed = ToNfc(text);
    // Composing moves bytes, so that what is from outside cannot be told any more.
    const bool lost = composed && !rule.outside.empty();
    const SpecialRule used = lost ? SpecialRule(SpecialTokens::kAsText) : rule;
    if (composed) text = *composed;
    for (const AddedTokenMatcher::Piece& piece : normalized.Cut(text, used)) {
      if (!EncodePiece(piece, walk)) return;
      if (piece.token != nullptr) continue;
      const bool split = pre_tokenizer.Split(
          piece.text, [&](std::string_view pre_token) { return EncodeWord(pre_token, walk); });
      walk.gave_up = walk.gave_up || !split;
    }
  }

  // An added token, if it is one. False: the ids are too many.
  static bool EncodePiece(const AddedTokenMatcher::Piece& piece, EncodeWalk& walk) {
    if (walk.more > 0) return false;
    if (piece.token == nullptr) return true;
    if (walk.ids.size() >= walk.most) {
      walk.more = 1;
      return false;
    }
    walk.ids.push_back(piece.token->id);
    return true;
  }

  // Valid UTF-8.
  void EncodeValid(std::string_view text, const SpecialRule& rule, EncodeWalk& walk) const {
    for (const AddedTokenMatcher::Piece& piece : raw.Cut(text, rule)) {
      if (!EncodePiece(piece, walk)) return;
      if (piece.token != nullptr) continue;
      SpecialRule inside = rule;
      inside.offset = static_cast<size_t>(piece.text.data() - text.data());
      EncodeBetween(piece.text, inside, walk);
    }
  }

  // For those who take what comes.
  void EncodeAll(std::string_view text, const SpecialRule& rule, std::vector<TokenId>& ids) const {
    EncodeWalk walk{ids};
    EncodeValid(text, rule, walk);
    if (!walk.gave_up) return;
    LogEvery(std::chrono::seconds(10), "tokenizer-gave-up", LogLevel::kError,
             "the tokenizer's pattern takes too many steps on a text; a part of it was encoded as "
             "one word",
             {{"bytes", text.size()}});
  }

  bool Has(TokenId id) const { return id >= 0 && static_cast<size_t>(id) < token_bytes.size(); }
};

Result<Tokenizer> Tokenizer::Parse(std::string_view json, std::string_view name) {
  TM_ASSIGN_OR_RETURN(TokenizerParts parts, ParseTokenizerParts(json, name));
  return Tokenizer(std::make_shared<const Impl>(std::move(parts)));
}

Result<Tokenizer> Tokenizer::Read(const std::string& dir) {
  TM_RETURN_IF_ERROR(CheckModelFolder(dir));
  const std::string path = dir + "/tokenizer.json";
  TM_ASSIGN_OR_RETURN(const std::string json, ReadFileBounded(path, kTokenizerBytesMax));
  return Parse(json, path);
}

std::vector<TokenId> Tokenizer::Encode(std::string_view text, SpecialTokens special) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3);
  EncodeTo(text, special, ids);
  return ids;
}

void Tokenizer::EncodeTo(std::string_view text, SpecialTokens special,
                         std::vector<TokenId>& ids) const {
  std::string repaired;
  if (ValidUtf8Prefix(text) != text.size()) {
    repaired = Utf8Lossy(text);
    text = repaired;
  }
  impl_->EncodeAll(text, special, ids);
}

std::vector<TokenId> Tokenizer::EncodeGuarded(std::string_view text,
                                              std::span<const TextSpan> outside) const {
  if (ValidUtf8Prefix(text) != text.size()) {
    const RepairedText repaired = Repair(text, outside);
    return EncodeGuarded(repaired.text, repaired.outside);
  }
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3);
  impl_->EncodeAll(text, SpecialRule(outside, 0), ids);
  return ids;
}

Result<Tokenizer::Bounded> Tokenizer::EncodeBounded(std::string_view text,
                                                    std::span<const TextSpan> outside,
                                                    size_t most) const {
  if (ValidUtf8Prefix(text) != text.size()) {
    const RepairedText repaired = Repair(text, outside);
    return EncodeBounded(repaired.text, repaired.outside, most);
  }
  Bounded bounded;
  EncodeWalk walk{bounded.ids, most};
  impl_->EncodeValid(text, SpecialRule(outside, 0), walk);
  if (walk.gave_up) {
    return Invalid(
        "the tokenizer's pattern takes too many steps on this text, so its tokens are not known; "
        "break its longest run of characters of one kind");
  }
  bounded.more = walk.more;
  return bounded;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (!skip_special || !IsSpecial(id)) bytes.append(TokenBytes(id));
  }
  return Utf8Lossy(bytes);
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  return impl_->Has(id) ? std::string_view(impl_->token_bytes[static_cast<size_t>(id)])
                        : std::string_view();
}

std::optional<TokenId> Tokenizer::AddedTokenId(std::string_view content) const {
  for (const AddedToken& token : impl_->added) {
    if (token.content == content) return token.id;
  }
  return std::nullopt;
}

std::optional<TokenId> Tokenizer::TokenIdOfBytes(std::string_view bytes) const {
  const auto& ids = impl_->bpe.vocabulary().ids;
  const auto it = ids.find(std::string(bytes));
  return it == ids.end() ? std::nullopt : std::optional(it->second);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  return impl_->Has(id) && impl_->special[static_cast<size_t>(id)];
}

const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return impl_->added;
}

int32_t Tokenizer::vocab_size() const {
  return static_cast<int32_t>(impl_->token_bytes.size());
}

std::string StreamDecoder::Push(TokenId id) {
  held_.append(tokenizer_.TokenBytes(id));
  std::string out;
  const size_t open = AppendUtf8Lossy(held_, out);
  held_.erase(0, held_.size() - open);
  return out;
}

std::string StreamDecoder::Finish() {
  return Utf8Lossy(std::exchange(held_, {}));
}

}  // namespace tidemill
