// Files of labelled cases.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/text.h"
#include "judge/judge_check.h"

namespace tidemill {
namespace {

constexpr size_t kCasesBytesMax = size_t{256} << 20;
constexpr size_t kCasesMax = 1'000'000;

// Words of praise and of failure, for the rule that a judge has to beat.
constexpr std::string_view kPraise[] = {"thank",  "great",   "perfect", "works",
                                        "passed", "exactly", "ok",      "nice"};
constexpr std::string_view kBlame[] = {"error", "fail",    "wrong", "not ",         "unavailable",
                                       "still", "instead", "but ",  "unfortunately"};

Status ReadText(const nlohmann::json& json, const char* name, std::string* out) {
  const auto it = json.find(name);
  if (it == json.end()) return Ok();
  if (!it->is_string()) return Invalid("\"" + std::string(name) + "\" must be a text");
  *out = it->get<std::string>();
  return Ok();
}

}  // namespace

Result<JudgeCase> ParseJudgeCase(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("a case must be one JSON object");
  JudgeCase result;
  std::string task;
  TM_RETURN_IF_ERROR(ReadText(json, "task", &task));
  TM_ASSIGN_OR_RETURN(result.task, ParseJudgeTask(task));
  TM_RETURN_IF_ERROR(ReadText(json, "id", &result.id));
  TM_RETURN_IF_ERROR(ReadText(json, "kind", &result.kind));
  if (result.kind.empty()) result.kind = "plain";
  TM_RETURN_IF_ERROR(ReadText(json, "label", &result.label));
  std::string words;
  for (const JudgeChoice& choice : ChoicesOf(result.task)) {
    if (choice.word == result.label) words.clear();
    if (choice.word == result.label) break;
    words += (words.empty() ? "" : ", ") + std::string(choice.word);
    if (&choice == &ChoicesOf(result.task).back()) {
      return Invalid("\"label\" of the task " + task + " must be one of " + words + ", got \"" +
                     Beginning(result.label, 50) + "\"");
    }
  }
  TM_RETURN_IF_ERROR(ReadText(json, "prompt", result.request.mutable_prompt()));
  TM_RETURN_IF_ERROR(ReadText(json, "submission", result.request.mutable_submission()));
  TM_RETURN_IF_ERROR(ReadText(json, "other", result.request.mutable_other()));
  if (result.task != v1::JUDGE_TASK_NEXT_STATE && result.task != v1::JUDGE_TASK_PROCESS)
    return result;
  v1::JudgedTurn& turn = *result.request.add_turns();
  TM_RETURN_IF_ERROR(ReadText(json, "turn", turn.mutable_text()));
  TM_RETURN_IF_ERROR(ReadText(json, "next", turn.mutable_next()));
  return result;
}

Result<std::vector<JudgeCase>> ReadJudgeCases(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kCasesBytesMax));
  std::vector<JudgeCase> cases;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    Result<JudgeCase> one = ParseJudgeCase(line);
    if (!one.ok())
      return Invalid(path + ":" + std::to_string(number) + ": " + one.status().message());
    if (one->id.empty()) one->id = "line " + std::to_string(number);
    cases.push_back(std::move(*one));
    if (cases.size() > kCasesMax)
      return Invalid(path + " has more than " + std::to_string(kCasesMax) + " cases");
  }
  if (cases.empty()) return Invalid(path + " has no cases");
  return cases;
}

double KeywordScore(const v1::JudgeRequest& request) {
  std::string text = request.turns_size() > 0 ? request.turns(request.turns_size() - 1).next()
                                              : request.submission();
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  return static_cast<double>(std::count_if(std::begin(kPraise), std::end(kPraise), has)) -
         static_cast<double>(std::count_if(std::begin(kBlame), std::end(kBlame), has));
}

}  // namespace tidemill
