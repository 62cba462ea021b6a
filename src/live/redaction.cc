#include "live/redaction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/hash.h"

namespace tidemill {
namespace {

// Shapes of secrets. A backslash and a letter before one is an escape of JSON, not a part of it.
#define TM_APART "(?:(?<![A-Za-z0-9_])|(?<=\\\\[nrtbf]))"
constexpr std::pair<const char*, const char*> kShapes[] = {
    {"private-key",
     "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[\\s\\S]{0,20000}?"
     "-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\\s\\\\:,.-]{0,20000})"},
    {"anthropic-key", "sk-ant-[A-Za-z0-9_-]{16,}"},
    {"api-key", TM_APART "sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{20,}"},
    {"tidemill-key", "tmk-[0-9a-f]{32,}"},
    {"aws-key", "(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Z0-9])"},
    {"aws-secret",
     "(?i)aws_?(?:secret_?(?:access_?)?key|session_?token)[\"'\\\\\\s:=]{1,8}[A-Za-z0-9/+=]{40,}"},
    {"github-token", "gh[pousr]_[A-Za-z0-9]{36,}"},
    {"github-token", "github_pat_[A-Za-z0-9_]{40,}"},
    {"gitlab-token", "glpat-[A-Za-z0-9_-]{20,}"},
    {"slack-token", "xox[abeoprs]-[A-Za-z0-9-]{10,}"},
    {"google-key", "AIza[A-Za-z0-9_-]{35}"},
    {"google-token", "ya29\\.[A-Za-z0-9_-]{20,}"},
    {"stripe-key", TM_APART "[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"},
    {"huggingface-token", TM_APART "hf_[A-Za-z0-9]{30,}"},
    {"npm-token", TM_APART "npm_[A-Za-z0-9]{36}"},
    {"pypi-token", "pypi-[A-Za-z0-9_-]{50,}"},
    {"sendgrid-key", "SG\\.[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}"},
    {"vendor-key", TM_APART "(?:gsk_|xai-|nvapi-|r8_|pplx-|dop_v1_|shpat_)[A-Za-z0-9_-]{30,}"},
    {"jwt", "eyJ[A-Za-z0-9_-]{10,}\\.eyJ[A-Za-z0-9_-]{10,}\\.[A-Za-z0-9_-]*"},
    {"bearer-token", "(?i)" TM_APART "bearer[ \\t]{1,4}[A-Za-z0-9._~+/=-]{20,}"},
    {"url-password", "[a-z][a-z0-9+.-]{1,20}://[^\\s/:@]{0,100}:[^\\s/@]{3,200}@"},
};
#undef TM_APART

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
  for (const auto& [name, pattern] : kShapes) {
    auto regex = TextRegex::FromPcre2(pattern);
    TM_CHECK(regex.ok(), std::string(name) + ": " + regex.status().message());
    redaction.patterns_.push_back({name, std::move(*regex)});
  }
  if (patterns.size() > kPatternsMax) return Invalid("live.redact: more than 256 patterns");
  for (size_t i = 0; i < patterns.size(); ++i) {
    const std::string name = "live.redact[" + std::to_string(i) + "]";
    auto regex = TextRegex::FromPcre2(patterns[i]);
    if (!regex.ok()) return regex.status().WithContext(name);
    if (regex->Find("", 0)) return Invalid(name + ": must not match an empty text");
    redaction.patterns_.push_back({"pattern-" + std::to_string(i), std::move(*regex)});
  }
  return redaction;
}

std::vector<Redaction::Span> Redaction::Find(std::string_view text) const {
  std::vector<Span> all;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const TextRegex::Search search = patterns_[i].regex.In(text);
    for (auto match = search.From(0); match; match = search.From(match->end)) {
      if (match->end == match->begin) break;  // it could match nothing for ever
      all.push_back({match->begin, match->end, i});
    }
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
  const std::string valid = ValidInPlace(text);
  const std::vector<Span> spans = Find(valid);
  if (spans.empty()) return 0;
  std::string clean;
  size_t at = 0;
  for (const Span& span : spans) {
    clean.append(text, at, span.begin - at);
    clean += std::string(kRedactedMark) + patterns_[span.pattern].name + "]";
    found.insert(text.substr(span.begin, span.end - span.begin));
    at = span.end;
  }
  clean.append(text, at);
  text = std::move(clean);
  return spans.size();
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
  if (Find(ValidInPlace(name)).empty()) return name;
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
  for (const Span& span : Find(text)) secrets.emplace_back(span.begin, span.end);
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
