// References, and schemas that hold together, resolved to one schema at a place.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "engine/constraint/schema_merge.h"

namespace tidemill {

// What it makes of one root is bounded. `root` must outlive it.
class SchemaResolver {
 public:
  explicit SchemaResolver(const SchemaJson& root) : root_(root) {}

  // kInvalid names a word of the schema itself that is not supported.
  Status CheckWords(const SchemaJson& schema) const;
  Result<const SchemaJson*> Find(const std::string& reference) const;
  // The same schema without "$ref" and "allOf" at its top. `within`: others hold together with it,
  // which its "unevaluated.." does not see.
  Result<SchemaJson> Flat(const SchemaJson& schema, bool within) {
    return FlatAt(schema, within, 0);
  }
  // MergeSchemas.
  Result<SchemaJson> Merge(const SchemaJson& a, const SchemaJson& b);
  // What else a schema with such a word says about documents.
  static SchemaJson Beside(const SchemaJson& schema, std::string_view word);

 private:
  Result<SchemaJson> FlatAt(const SchemaJson& schema, bool within, size_t depth);
  Status Spend(const SchemaJson& made);

  const SchemaJson& root_;
  size_t spent_ = 0;
};

}  // namespace tidemill
