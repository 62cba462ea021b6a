// The file of API keys: which key belongs to which tenant. Only hashes of keys are kept.
//
//   sha256:HEX tenant=NAME [consent=train|store|none] [rate=REQUESTS_A_MINUTE] [concurrency=N]
//              [metrics=yes|no]
//
// Empty lines and lines that begin with '#' do not count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "gateway/tenant.h"

namespace tidemill {

// "train", "store" or "none".
Result<Consent> ParseConsent(std::string_view text);
std::string_view ConsentName(Consent consent);
// Tenant::id of a tenant of a key file.
uint64_t KeyTenantId(const std::string& name);

// The key of an Authorization header ("Bearer KEY"); empty: none.
std::string_view BearerOf(std::string_view authorization);

// Immutable and thread-safe.
class ApiKeys {
 public:
  // No keys: everybody is `tenant`, and may read the metrics.
  static ApiKeys Open(Tenant tenant);
  // kInvalid names file, line and field. Lines of one tenant must say the same about it.
  static Result<ApiKeys> Parse(std::string_view text, const std::string& name);
  static Result<ApiKeys> Read(const std::string& path);

  bool open() const { return keys_.empty(); }
  // The tenant of a request by its Authorization ("Bearer KEY") and x-api-key headers, or nullptr.
  // Takes the same time whichever key it is and wherever it differs.
  const Tenant* Find(std::string_view authorization, std::string_view x_api_key) const;
  const std::vector<Tenant>& tenants() const { return tenants_; }

 private:
  struct Key {
    std::string sha256;  // 64 hex digits
    size_t tenant = 0;   // in tenants_
  };
  const Tenant* FindKey(std::string_view key) const;
  Status AddLine(std::string_view line);

  std::vector<Key> keys_;
  std::vector<Tenant> tenants_;
};

struct NewKey {
  std::string key;   // for the client
  std::string line;  // for the file
};
// kInvalid: a name with characters other than letters, digits, '-', '_' and '.'.
Result<NewKey> MakeKey(const Tenant& tenant, std::string_view prefix = "tmk-");

}  // namespace tidemill
