// The records of `tidemill runs export` in the formats of others. docs/store.md describes them.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

enum class ExportFormat : uint8_t {
  kRecords,   // every field, a JSON object a line
  kOpenai,    // {"messages": ..}, as for fine-tuning
  kSharegpt,  // {"conversations": [{"from": .., "value": ..}]}
  kAtif,      // one trajectory of the Agent Trajectory Interchange Format a line
  kParquet,   // every field as a column
};

// kInvalid names the formats.
Result<ExportFormat> ParseExportFormat(std::string_view name);

// Takes records in their order; the file is there once Finish was ok.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  virtual Status Write(const nlohmann::ordered_json& record) = 0;
  virtual Status Finish() = 0;
};

// kInvalid: Parquet into a file that ends in .zst, which it does by itself.
Result<std::unique_ptr<RecordWriter>> NewRecordWriter(ExportFormat format, const std::string& path);

// One record in another format of lines.
nlohmann::ordered_json RecordAs(ExportFormat format, const nlohmann::ordered_json& record);

}  // namespace tidemill
