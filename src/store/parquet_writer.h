// Tables as Apache Parquet files, for pandas, Arrow and `datasets`. What is written: one data page
// a column and row group, plain values compressed with zstd, version 1 of the format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/status.h"

namespace tidemill {

enum class ParquetKind : uint8_t { kText, kWhole, kReal, kBool, kWholes, kReals };

struct ParquetColumn {
  std::string name;
  ParquetKind kind = ParquetKind::kText;
};

// The first is null. Lists are never null.
using ParquetValue = std::variant<std::monostate, std::string, int64_t, double, bool,
                                  std::vector<int64_t>, std::vector<float>>;

// Belongs to one thread. The file has its name once Finish was ok; before, and if this goes without
// Finish, it does not exist.
class ParquetWriter {
 public:
  static Result<std::unique_ptr<ParquetWriter>> Create(const std::string& path,
                                                       std::vector<ParquetColumn> columns);
  ~ParquetWriter();

  // A value for each column, in order, of its kind or null.
  Status Add(const std::vector<ParquetValue>& row);
  Status Finish();

 private:
  struct Column;
  struct State;
  explicit ParquetWriter(std::unique_ptr<State> state);
  Status WriteGroup();
  Status Put(const std::string& bytes);

  std::unique_ptr<State> state_;
};

}  // namespace tidemill
