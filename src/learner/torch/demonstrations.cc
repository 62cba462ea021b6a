#include "learner/torch/demonstrations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "store/line_file.h"

namespace tidemill {
namespace {

using nlohmann::json;

constexpr size_t kDemonstrationsMax = 20'000'000;
constexpr int kBadLinesShown = 10;

Result<std::string> Text(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return Invalid("\"" + std::string(key) + "\" is missing");
  if (!found->is_string()) return Invalid("\"" + std::string(key) + "\" must be a string");
  return found->get<std::string>();
}

Result<std::vector<int32_t>> Ids(const json& object, const char* key) {
  const std::string name = "\"" + std::string(key) + "\"";
  const auto found = object.find(key);
  if (found == object.end()) return Invalid(name + " is missing");
  if (!found->is_array()) return Invalid(name + " must be a list of token ids");
  std::vector<int32_t> ids;
  for (const json& id : *found) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return Invalid(name + " must be a list of token ids, it has " + id.dump());
    }
    ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
  }
  return ids;
}

}  // namespace

Result<Demonstration> ParseDemonstration(std::string_view line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) return Invalid("not valid JSON");
  if (!object.is_object()) return Invalid("must be a JSON object");
  Demonstration demonstration;
  demonstration.text = !object.contains("prompt_ids") && !object.contains("completion_ids");
  if (demonstration.text) {
    TM_ASSIGN_OR_RETURN(demonstration.prompt, Text(object, "prompt"));
    TM_ASSIGN_OR_RETURN(demonstration.completion, Text(object, "completion"));
    if (const auto special = object.find("special"); special != object.end()) {
      if (!special->is_boolean()) return Invalid("\"special\" must be true or false");
      demonstration.special = special->get<bool>();
    }
    return demonstration;
  }
  // Before episodes were exported a branch a line, what several roles wrote stood behind the first
  // one's prompt.
  if (object.contains("completion_mask") && object.contains("member") &&
      !object.contains("branch")) {
    return Invalid(
        "an exported episode without \"branch\": an older tidemill wrote it, with the answers to "
        "several prompts behind the first; export the run again");
  }
  TM_ASSIGN_OR_RETURN(demonstration.prompt_ids, Ids(object, "prompt_ids"));
  TM_ASSIGN_OR_RETURN(demonstration.completion_ids, Ids(object, "completion_ids"));
  if (object.contains("completion_mask")) {
    TM_ASSIGN_OR_RETURN(const std::vector<int32_t> mask, Ids(object, "completion_mask"));
    if (mask.size() != demonstration.completion_ids.size() ||
        std::any_of(mask.begin(), mask.end(), [](int32_t one) { return one > 1; })) {
      return Invalid("\"completion_mask\" must have a 0 or 1 for each of the completion's ids");
    }
    demonstration.completion_mask.assign(mask.begin(), mask.end());
  }
  return demonstration;
}

Result<TrainSequence> EncodeDemonstration(const Demonstration& demonstration,
                                          const EncodeOptions& options) {
  std::vector<int32_t> prompt = demonstration.prompt_ids;
  std::vector<int32_t> completion = demonstration.completion_ids;
  if (demonstration.text) {
    if (options.tokenizer == nullptr) {
      return Invalid("it is text, but the model has no tokenizer.json; give ids instead");
    }
    const SpecialTokens special =
        demonstration.special ? SpecialTokens::kRecognise : SpecialTokens::kAsText;
    prompt = options.tokenizer->Encode(demonstration.prompt, special);
    completion = options.tokenizer->Encode(demonstration.completion, special);
    const auto& ends = options.end_ids;
    const bool ended =
        !completion.empty() && std::find(ends.begin(), ends.end(), completion.back()) != ends.end();
    if (options.append_end && !ends.empty() && !ended) completion.push_back(ends.front());
  }
  if (prompt.empty()) return Invalid("the prompt is empty");
  if (completion.empty()) return Invalid("the completion is empty");
  TrainSequence row;
  row.prompt_tokens = prompt.size();
  row.ids = std::move(prompt);
  row.ids.insert(row.ids.end(), completion.begin(), completion.end());
  const size_t count = row.ids.size();
  if (options.context > 0 && count > static_cast<size_t>(options.context)) {
    return Invalid("it has " + std::to_string(count) + " tokens, the model's context " +
                   std::to_string(options.context));
  }
  for (int32_t id : row.ids) {
    if (options.vocabulary > 0 && id >= options.vocabulary) {
      return Invalid("id " + std::to_string(id) + " is outside the vocabulary of " +
                     std::to_string(options.vocabulary));
    }
  }
  row.mask.assign(count, 0);
  const size_t first = options.train_prompt ? 1 : row.prompt_tokens;
  std::fill(row.mask.begin() + static_cast<std::ptrdiff_t>(first), row.mask.end(), uint8_t{1});
  const std::vector<uint8_t>& mask = demonstration.completion_mask;
  std::copy(mask.begin(), mask.end(), row.mask.end() - static_cast<std::ptrdiff_t>(mask.size()));
  row.trained_tokens = static_cast<size_t>(std::count(row.mask.begin(), row.mask.end(), 1));
  if (row.trained_tokens == 0) return Invalid("no token of the completion is trained on");
  row.behaviour.assign(count, 0);
  row.versions.assign(count, 0);
  row.lags.assign(count, 0);
  row.turns.assign(count, 0);
  row.turn_ends.assign(count, 0);
  return row;
}

Result<std::vector<TrainSequence>> ReadDemonstrations(const std::string& path,
                                                      const EncodeOptions& options) {
  TM_ASSIGN_OR_RETURN(LineReader file, LineReader::Open(path));
  std::vector<TrainSequence> rows;
  std::string line, bad;
  int bad_lines = 0;
  for (uint64_t number = 1;; ++number) {
    TM_ASSIGN_OR_RETURN(const bool more, file.Next(line));
    if (!more) break;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const std::string where = path + ":" + std::to_string(number);
    if (rows.size() >= kDemonstrationsMax) return Invalid(where + ": too many demonstrations");
    auto parsed = ParseDemonstration(line);
    Status status = parsed.status();
    if (parsed.ok()) {
      auto row = EncodeDemonstration(*parsed, options);
      status = row.status();
      if (row.ok()) rows.push_back(std::move(*row));
    }
    if (status.ok()) continue;
    bad += (bad.empty() ? "" : "\n") + where + ": " + status.message();
    if (++bad_lines == kBadLinesShown) {
      return Invalid(bad + "\npossibly more; stopped after " + std::to_string(bad_lines));
    }
  }
  if (bad_lines > 0) return Invalid(bad);
  if (rows.empty()) return Invalid(path + " has no demonstrations");
  return rows;
}

}  // namespace tidemill
