#include "live/redaction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/hash.h"
#include "live/plain_view.h"
#include "live/secret_shapes.h"

namespace tidemill {
namespace {

constexpr const char* kUnsearched = "unsearchable";  // a text that no pattern could be tried on
constexpr size_t kPatternsMax = 256;

// The length of the valid UTF-8 character at the beginning; 0: there is none.
size_t CharacterAt(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  const auto next = static_cast<unsigned char>(text[1]);
  const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
  const bool outside = (lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F);
  return overlong || outside ? 0 : size;
}

// Bytes that are no UTF-8 become '?', one for one, so that places stay.
std::string ValidInPlace(std::string text) {
  for (size_t at = 0; at < text.size();) {
    const size_t size = CharacterAt(std::string_view(text).substr(at));
    if (size == 0) text[at] = '?';
    at += std::max<size_t>(1, size);
  }
  return text;
}

// As it stands inside of a JSON string.
std::string Escaped(const std::string& text) {
  const std::string quoted =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace

Result<Redaction> Redaction::Make(const std::vector<std::string>& patterns) {
  Redaction redaction;
  for (const auto& [name, pattern] : SecretShapes()) {
    auto regex = TextRegex::FromPcre2(pattern);
    TM_CHECK(regex.ok(), std::string(name) + ": " + regex.status().message());
    redaction.patterns_.push_back({name, std::move(*regex)});
  }
  if (patterns.size() > kPatternsMax) return Invalid("live.redact: more than 256 patterns");
  for (size_t i = 0; i < patterns.size(); ++i) {
    const std::string name = "live.redact[" + std::to_string(i) + "]";
    auto regex = TextRegex::FromPcre2(patterns[i]);
    if (!regex.ok()) return regex.status().WithContext(name);
    if (regex->Find("", 0).match) return Invalid(name + ": must not match an empty text");
    redaction.patterns_.push_back({"pattern-" + std::to_string(i), std::move(*regex)});
  }
  return redaction;
}

// False: a pattern gave up, so what there is in the text is not known.
bool Redaction::Search(std::string_view text, const std::vector<size_t>* begins,
                       std::vector<Span>& all) const {
  const auto place = [&](size_t at) { return begins == nullptr ? at : (*begins)[at]; };
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const TextRegex::Search search = patterns_[i].regex.In(text);
    for (size_t from = 0;;) {
      const auto [match, gave_up] = search.From(from);
      if (gave_up) return false;
      if (!match || match->end == match->begin) break;  // it could match nothing for ever
      all.push_back({place(match->begin), place(match->end), i});
      from = match->end;
    }
  }
  return true;
}

std::optional<std::vector<Redaction::Span>> Redaction::Find(std::string_view text) const {
  std::vector<Span> all;
  if (!Search(text, nullptr, all)) return std::nullopt;
  if (const auto plain = PlainViewOf(text)) {
    if (!Search(plain->text, &plain->begins, all)) return std::nullopt;
  }
  std::sort(all.begin(), all.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> apart;
  for (const Span& span : all) {
    if (!apart.empty() && span.begin < apart.back().end) {
      apart.back().end = std::max(apart.back().end, span.end);
    } else {
      apart.push_back(span);
    }
  }
  return apart;
}

size_t Redaction::Clean(std::string& text, SecretSet& found) const {
  const auto spans = Find(ValidInPlace(text));
  if (!spans) {
    found.insert(text);
    text = std::string(kRedactedMark) + kUnsearched + "]";
    return 1;
  }
  if (spans->empty()) return 0;
  std::string clean;
  size_t at = 0;
  for (const Span& span : *spans) {
    clean.append(text, at, span.begin - at);
    clean += std::string(kRedactedMark) + patterns_[span.pattern].name + "]";
    found.insert(text.substr(span.begin, span.end - span.begin));
    at = span.end;
  }
  clean.append(text, at);
  text = std::move(clean);
  return spans->size();
}

size_t Redaction::Clean(WireJson& json, SecretSet& found) const {
  size_t count = 0;
  if (json.is_string()) return Clean(json.get_ref<std::string&>(), found);
  if (json.is_array()) {
    for (WireJson& item : json) count += Clean(item, found);
    return count;
  }
  if (!json.is_object()) return 0;
  bool renamed = false;
  for (auto& [name, value] : json.items()) {
    count += Clean(value, found);
    std::string clean = name;
    renamed = Clean(clean, found) > 0 || renamed;
  }
  if (!renamed) return count;
  WireJson fresh = WireJson::object();
  for (auto& [name, value] : json.items()) {
    std::string clean = name;
    count += Clean(clean, found);
    fresh[clean] = std::move(value);
  }
  json = std::move(fresh);
  return count;
}

std::string Redaction::CleanName(const std::string& name) const {
  const auto spans = Find(ValidInPlace(name));
  if (spans && spans->empty()) return name;
  return "redacted-" + Sha256Hex(name).substr(0, 16);
}

size_t Redaction::Tokens(std::vector<TokenId>& ids, size_t from, const SecretSet& known,
                         const std::function<std::string(TokenId)>& bytes_of) const {
  std::string text;
  std::vector<size_t> begins;  // of the tokens in the text
  for (const TokenId id : ids) {
    begins.push_back(text.size());
    text += bytes_of(id);
  }
  text = ValidInPlace(std::move(text));
  std::vector<std::pair<size_t, size_t>> secrets;
  const auto spans = Find(text);
  if (!spans) secrets.emplace_back(0, text.size());
  for (const Span& span : spans.value_or(std::vector<Span>())) {
    secrets.emplace_back(span.begin, span.end);
  }
  for (const std::string& secret : known) {
    for (const std::string& form : {ValidInPlace(secret), Escaped(secret)}) {
      for (size_t at = text.find(form); at != std::string::npos;
           at = text.find(form, at + form.size())) {
        secrets.emplace_back(at, at + form.size());
      }
    }
  }
  size_t count = 0;
  for (const auto& [begin, end] : secrets) {
    const auto first = std::upper_bound(begins.begin(), begins.end(), begin) - begins.begin() - 1;
    bool marked = false;
    for (size_t i = static_cast<size_t>(first); i < ids.size() && begins[i] < end; ++i) {
      if (i < from) continue;
      ids[i] = kRedactedToken;
      marked = true;
    }
    count += marked ? 1 : 0;
  }
  return count;
}

bool HoldsRedaction(const WireJson& json) {
  if (json.is_string()) {
    return json.get_ref<const std::string&>().find(kRedactedMark) != std::string::npos;
  }
  return json.is_structured() && std::any_of(json.begin(), json.end(), [](const WireJson& one) {
           return HoldsRedaction(one);
         });
}

}  // namespace tidemill
