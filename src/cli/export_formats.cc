#include "cli/export_formats.h"

#include <utility>
#include <vector>

#include "store/line_file.h"
#include "store/parquet_writer.h"

namespace tidemill {
namespace {

using FormatJson = nlohmann::ordered_json;

constexpr const char* kAtifVersion = "ATIF-v1.4";

// What every format keeps of a record beside its messages.
constexpr const char* kOrigin[] = {"run", "task", "group", "member", "attempt", "branch"};

FormatJson OriginOf(const FormatJson& record) {
  FormatJson origin = FormatJson::object();
  for (const char* field : kOrigin) origin[field] = record.at(field);
  origin["reward"] = record.at("reward");
  origin["solved"] = record.at("solved");
  return origin;
}

std::string TextOfMessage(const FormatJson& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_string() ? content->get<std::string>() : "";
}

FormatJson AsOpenai(const FormatJson& record) {
  return {{"messages", record.at("messages")}, {"metadata", OriginOf(record)}};
}

FormatJson AsSharegpt(const FormatJson& record) {
  FormatJson turns = FormatJson::array();
  for (const FormatJson& message : record.at("messages")) {
    const std::string role = message.value("role", "user");
    std::string value = TextOfMessage(message);
    // The format has calls as text of their own.
    for (const FormatJson& call : message.value("tool_calls", FormatJson::array())) {
      if (!value.empty()) {
        turns.push_back({{"from", "gpt"}, {"value", std::exchange(value, "")}});
      }
      turns.push_back({{"from", "function_call"}, {"value", call.at("function").dump()}});
    }
    if (value.empty() && message.contains("tool_calls")) continue;
    const char* from = role == "assistant" ? "gpt"
                       : role == "system"  ? "system"
                       : role == "tool"    ? "observation"
                                           : "human";
    turns.push_back({{"from", from}, {"value", std::move(value)}});
  }
  return {{"conversations", std::move(turns)}, {"metadata", OriginOf(record)}};
}

// Results of tools are observations of the step whose calls they answer.
FormatJson AtifSteps(const FormatJson& record) {
  FormatJson steps = FormatJson::array();
  for (const FormatJson& message : record.at("messages")) {
    const std::string role = message.value("role", "user");
    const std::string text = TextOfMessage(message);
    if (role == "tool" && !steps.empty()) {
      FormatJson result = {{"content", text}};
      if (message.contains("tool_call_id")) result["source_call_id"] = message["tool_call_id"];
      steps.back()["observation"]["results"].push_back(std::move(result));
      continue;
    }
    const char* source = role == "assistant" ? "agent" : role == "system" ? "system" : "user";
    FormatJson step = {{"step_id", steps.size() + 1}, {"source", source}, {"message", text}};
    if (message.contains("reasoning_content")) {
      step["reasoning_content"] = message["reasoning_content"];
    }
    size_t number = 0;
    for (const FormatJson& call : message.value("tool_calls", FormatJson::array())) {
      const FormatJson& function = call.at("function");
      const std::string text_of = function.value("arguments", "{}");
      FormatJson arguments = FormatJson::parse(text_of, nullptr, false);
      if (!arguments.is_object()) arguments = {{"text", text_of}};
      step["tool_calls"].push_back(
          {{"tool_call_id", call.value("id", "call_" + std::to_string(++number))},
           {"function_name", function.at("name")},
           {"arguments", std::move(arguments)}});
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

FormatJson AsAtif(const FormatJson& record) {
  std::string id = record.at("run").get<std::string>();
  for (const char* field : {"group", "member", "attempt", "branch"}) {
    id += "-" + record.at(field).dump();
  }
  size_t drawn = 0;
  for (const FormatJson& mask : record.at("completion_mask")) drawn += mask == 1 ? 1 : 0;
  return {{"schema_version", kAtifVersion},
          {"session_id", std::move(id)},
          {"agent", {{"name", "tidemill"}, {"version", "1"}, {"model_name", record.at("run")}}},
          {"steps", AtifSteps(record)},
          {"final_metrics",
           {{"total_prompt_tokens", record.at("prompt_ids").size()},
            {"total_completion_tokens", drawn}}},
          {"extra",
           {{"origin", OriginOf(record)},
            {"prompt_token_ids", record.at("prompt_ids")},
            {"completion_token_ids", record.at("completion_ids")},
            {"completion_mask", record.at("completion_mask")},
            {"logprobs", record.at("logprobs")},
            {"versions", record.at("versions")},
            {"experts", record.at("experts")}}}};
}

std::string Line(const FormatJson& json) {
  return json.dump(-1, ' ', false, FormatJson::error_handler_t::replace);
}

class LineRecords final : public RecordWriter {
 public:
  LineRecords(ExportFormat format, LineWriter writer)
      : format_(format), writer_(std::move(writer)) {}
  Status Write(const FormatJson& record) override {
    return writer_.Write(Line(RecordAs(format_, record)));
  }
  Status Finish() override { return writer_.Finish(); }

 private:
  const ExportFormat format_;
  LineWriter writer_;
};

// The fields of a record as columns; lists of objects as JSON text.
const std::vector<ParquetColumn>& Columns() {
  using enum ParquetKind;
  static const std::vector<ParquetColumn> columns = {{"run", kText},
                                                     {"task", kText},
                                                     {"group", kWhole},
                                                     {"member", kWhole},
                                                     {"attempt", kWhole},
                                                     {"branch", kWhole},
                                                     {"branches", kWhole},
                                                     {"turns", kWholes},
                                                     {"purpose", kText},
                                                     {"eval", kText},
                                                     {"eval_step", kWhole},
                                                     {"end", kText},
                                                     {"started_ms", kWhole},
                                                     {"finished_ms", kWhole},
                                                     {"worker", kText},
                                                     {"temperature", kReal},
                                                     {"role", kText},
                                                     {"policy", kText},
                                                     {"messages", kText},
                                                     {"calls", kText},
                                                     {"submission", kText},
                                                     {"prompt_ids", kWholes},
                                                     {"completion_ids", kWholes},
                                                     {"completion_mask", kWholes},
                                                     {"logprobs", kReals},
                                                     {"versions", kWholes},
                                                     {"experts", kText},
                                                     {"scored", kBool},
                                                     {"reward", kReal},
                                                     {"solved", kBool},
                                                     {"tests_passed", kWhole},
                                                     {"tests_total", kWhole},
                                                     {"compiled", kBool},
                                                     {"parts", kText},
                                                     {"by_role", kText},
                                                     {"turn_rewards", kReals},
                                                     {"cause", kText},
                                                     {"fate", kText},
                                                     {"fate_reason", kText},
                                                     {"used_by_steps", kWholes}};
  return columns;
}

ParquetValue ValueOf(const FormatJson& value, ParquetKind kind) {
  if (kind == ParquetKind::kWholes) return value.get<std::vector<int64_t>>();
  if (kind == ParquetKind::kReals) return value.get<std::vector<float>>();
  if (value.is_null()) return {};
  switch (kind) {
    case ParquetKind::kWhole:
      return value.get<int64_t>();
    case ParquetKind::kReal:
      return value.get<double>();
    case ParquetKind::kBool:
      return value.get<bool>();
    default:
      return value.is_string() ? value.get<std::string>() : Line(value);
  }
}

class ParquetRecords final : public RecordWriter {
 public:
  explicit ParquetRecords(std::unique_ptr<ParquetWriter> writer) : writer_(std::move(writer)) {}
  Status Write(const FormatJson& record) override {
    std::vector<ParquetValue> row;
    for (const ParquetColumn& column : Columns()) {
      row.push_back(ValueOf(record.at(column.name), column.kind));
    }
    return writer_->Add(row);
  }
  Status Finish() override { return writer_->Finish(); }

 private:
  std::unique_ptr<ParquetWriter> writer_;
};

}  // namespace

Result<ExportFormat> ParseExportFormat(std::string_view name) {
  if (name == "records") return ExportFormat::kRecords;
  if (name == "openai") return ExportFormat::kOpenai;
  if (name == "sharegpt") return ExportFormat::kSharegpt;
  if (name == "atif") return ExportFormat::kAtif;
  if (name == "parquet") return ExportFormat::kParquet;
  return Invalid("\"" + std::string(name) +
                 "\" is no format; there are records, openai, sharegpt, atif and parquet");
}

FormatJson RecordAs(ExportFormat format, const FormatJson& record) {
  switch (format) {
    case ExportFormat::kOpenai:
      return AsOpenai(record);
    case ExportFormat::kSharegpt:
      return AsSharegpt(record);
    case ExportFormat::kAtif:
      return AsAtif(record);
    case ExportFormat::kRecords:
    case ExportFormat::kParquet:
      break;
  }
  return record;
}

Result<std::unique_ptr<RecordWriter>> NewRecordWriter(ExportFormat format,
                                                      const std::string& path) {
  using Made = std::unique_ptr<RecordWriter>;
  if (format != ExportFormat::kParquet) {
    TM_ASSIGN_OR_RETURN(LineWriter writer, LineWriter::Create(path));
    return Made(std::make_unique<LineRecords>(format, std::move(writer)));
  }
  if (path.ends_with(".zst")) {
    return Invalid(path + ": Parquet is compressed inside; the name ends in .parquet");
  }
  TM_ASSIGN_OR_RETURN(auto writer, ParquetWriter::Create(path, Columns()));
  return Made(std::make_unique<ParquetRecords>(std::move(writer)));
}

}  // namespace tidemill
