#include "gateway/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/files.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/secret.h"
#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kKeyFileBytesMax = size_t{1} << 20;
constexpr size_t kKeysMax = 10'000;
constexpr std::string_view kHashPrefix = "sha256:";

bool IsTenantName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  });
}

bool IsHash(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

template <typename Number>
Result<Number> ParseLimit(std::string_view key, std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || !(value > 0) ||
      static_cast<double>(value) > 1e9) {
    return Invalid("\"" + std::string(key) + "\" must be a positive number, got \"" +
                   Beginning(text, 40) + "\"");
  }
  return value;
}

Status SetField(std::string_view key, std::string_view value, Tenant& tenant) {
  if (key == "tenant") {
    if (!IsTenantName(value)) {
      return Invalid("\"tenant\" must be letters, digits, '-', '_' and '.', at most 64, got \"" +
                     Beginning(value, 80) + "\"");
    }
    tenant.name = value;
    return Ok();
  }
  if (key == "consent") {
    TM_ASSIGN_OR_RETURN(tenant.consent, ParseConsent(value));
    return Ok();
  }
  if (key == "rate") {
    TM_ASSIGN_OR_RETURN(tenant.requests_per_minute, ParseLimit<double>(key, value));
    return Ok();
  }
  if (key == "concurrency") {
    TM_ASSIGN_OR_RETURN(tenant.concurrency, ParseLimit<uint32_t>(key, value));
    return Ok();
  }
  if (key == "metrics") {
    if (value != "yes" && value != "no") {
      return Invalid("\"metrics\" must be yes or no, got \"" + Beginning(value, 40) + "\"");
    }
    tenant.metrics = value == "yes";
    return Ok();
  }
  if (key == "policy") {
    if (value.empty()) return Invalid("\"policy\" must be the name of an adapter");
    tenant.policy = value;
    return Ok();
  }
  return Invalid("no field \"" + Beginning(key, 40) +
                 "\"; there are tenant, consent, rate, concurrency, policy and metrics");
}

bool SameLimits(const Tenant& a, const Tenant& b) {
  return a.consent == b.consent && a.requests_per_minute == b.requests_per_minute &&
         a.concurrency == b.concurrency && a.metrics == b.metrics && a.policy == b.policy;
}

}  // namespace

std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.size() < kBearer.size()) return "";
  for (size_t i = 0; i < kBearer.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kBearer[i]) return "";
  }
  return authorization.substr(kBearer.size());
}

Result<Consent> ParseConsent(std::string_view text) {
  if (text == "train") return Consent::kTrain;
  if (text == "store") return Consent::kStore;
  if (text == "none") return Consent::kNone;
  return Invalid("\"consent\" must be train, store or none, got \"" + Beginning(text, 40) + "\"");
}

std::string_view ConsentName(Consent consent) {
  constexpr std::string_view kNames[] = {"train", "store", "none"};
  return kNames[static_cast<size_t>(consent)];
}

uint64_t KeyTenantId(const std::string& name) {
  return std::max(StableHash("tenant " + name), kFirstKeyTenant);
}

ApiKeys ApiKeys::Open(Tenant tenant) {
  ApiKeys keys;
  tenant.metrics = true;
  keys.tenants_.push_back(std::move(tenant));
  return keys;
}

Status ApiKeys::AddLine(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::string hash;
  words >> hash;
  if (hash.rfind(kHashPrefix, 0) != 0 || !IsHash(hash.substr(kHashPrefix.size()))) {
    return Invalid(
        "must begin with sha256: and 64 hex digits (tidemill serve --new-key makes one)");
  }
  Tenant tenant;
  tenant.name.clear();
  std::string word;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return Invalid("\"" + Beginning(word, 40) + "\" must be FIELD=VALUE");
    }
    TM_RETURN_IF_ERROR(SetField(std::string_view(word).substr(0, equals),
                                std::string_view(word).substr(equals + 1), tenant));
  }
  if (tenant.name.empty()) return Invalid("\"tenant\" is missing");
  auto it = std::find_if(tenants_.begin(), tenants_.end(),
                         [&](const Tenant& t) { return t.name == tenant.name; });
  if (it == tenants_.end()) {
    tenant.id = KeyTenantId(tenant.name);
    it = tenants_.insert(tenants_.end(), std::move(tenant));
  } else if (!SameLimits(*it, tenant)) {
    return Invalid("another line says something else about \"" + it->name + "\"");
  }
  if (keys_.size() == kKeysMax) return Invalid("more than 10000 keys");
  keys_.push_back({hash.substr(kHashPrefix.size()), static_cast<size_t>(it - tenants_.begin())});
  return Ok();
}

Result<ApiKeys> ApiKeys::Parse(std::string_view text, const std::string& name) {
  ApiKeys keys;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
      line.pop_back();
    }
    if (line.empty() || line[0] == '#') continue;
    TM_RETURN_IF_ERROR(keys.AddLine(line).WithContext(name + ":" + std::to_string(number)));
  }
  if (keys.keys_.empty()) return Invalid(name + ": contains no key");
  return keys;
}

Result<ApiKeys> ApiKeys::Read(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kKeyFileBytesMax));
  return Parse(text, path);
}

const Tenant* ApiKeys::FindKey(std::string_view key) const {
  const std::string given = Sha256Hex(key);
  const Tenant* found = nullptr;
  for (const Key& known : keys_) {  // no short cut: every key is compared
    const bool same = CRYPTO_memcmp(known.sha256.data(), given.data(), given.size()) == 0;
    found = same ? &tenants_[known.tenant] : found;
  }
  return found;
}

const Tenant* ApiKeys::Find(std::string_view authorization, std::string_view x_api_key) const {
  if (open()) return &tenants_[0];
  const Tenant* by_header = FindKey(x_api_key);
  const Tenant* by_bearer = FindKey(BearerOf(authorization));
  return by_header != nullptr ? by_header : by_bearer;
}

Result<NewKey> MakeKey(const Tenant& tenant, std::string_view prefix) {
  if (!IsTenantName(tenant.name)) {
    return Invalid("a tenant's name must be letters, digits, '-', '_' and '.', at most 64, got \"" +
                   Beginning(tenant.name, 80) + "\"");
  }
  NewKey made;
  made.key = std::string(prefix) + NewSecret();
  made.line = fmt::format("{}{} tenant={} consent={}", kHashPrefix, Sha256Hex(made.key),
                          tenant.name, ConsentName(tenant.consent));
  if (tenant.requests_per_minute > 0) {
    made.line += fmt::format(" rate={}", tenant.requests_per_minute);
  }
  if (tenant.concurrency > 0) made.line += fmt::format(" concurrency={}", tenant.concurrency);
  if (tenant.metrics) made.line += " metrics=yes";
  return made;
}

}  // namespace tidemill
