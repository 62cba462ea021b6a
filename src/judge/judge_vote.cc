// From what a judge's model said to votes, and from votes to a judgement.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/text.h"
#include "judge/judge_question.h"

namespace tidemill {
namespace {

using VoteJson = nlohmann::json;

constexpr size_t kReasonMax = 2000;
constexpr size_t kShownMax = 120;

std::string Trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

v1::JudgeVote FailedVote(std::string cause) {
  v1::JudgeVote vote;
  vote.set_cause(std::move(cause));
  return vote;
}

const JudgeChoice* FindChoice(std::span<const JudgeChoice> choices, std::string_view word) {
  const auto it = std::find_if(choices.begin(), choices.end(),
                               [&](const JudgeChoice& choice) { return choice.word == word; });
  return it == choices.end() ? nullptr : &*it;
}

std::string WordList(std::span<const JudgeChoice> choices) {
  std::string words;
  for (const JudgeChoice& choice : choices)
    words += (words.empty() ? "" : ", ") + std::string(choice.word);
  return words;
}

v1::JudgeVote ReadWord(const JudgeQuestion& question, const JudgeReply& reply) {
  const auto choices = ChoicesOf(question.task);
  const std::string word = Trimmed(reply.text);
  const JudgeChoice* chosen = FindChoice(choices, word);
  if (chosen == nullptr) {
    return FailedVote("the answer must be one word of " + WordList(choices) + ", got \"" +
                      Beginning(reply.text, kShownMax) + "\"");
  }
  v1::JudgeVote vote;
  vote.set_valid(true);
  vote.set_value(chosen->value);
  vote.set_reason(word);
  const std::vector<double> probabilities = ChoiceProbabilities(choices, reply, word);
  if (probabilities.empty()) return vote;
  double expected = 0;
  for (size_t i = 0; i < choices.size(); ++i) expected += probabilities[i] * choices[i].value;
  vote.set_value(expected);
  vote.set_probability(probabilities[static_cast<size_t>(chosen - choices.data())]);
  return vote;
}

bool HasOnly(const VoteJson& object, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) return false;
  }
  return true;
}

// kInvalid: no number from 0 to 1.
Result<double> Share(const VoteJson& value, const std::string& name) {
  const bool number = value.is_number() && std::isfinite(value.get<double>());
  if (!number || value.get<double>() < 0 || value.get<double>() > 1)
    return Invalid("\"" + name + "\" must be a number from 0 to 1");
  return value.get<double>();
}

Result<double> ReadScores(const JudgeConfig& judge, const VoteJson& answer) {
  if (judge.criteria.empty()) {
    if (!answer.contains("score")) return Invalid("\"score\" is missing");
    return Share(answer["score"], "score");
  }
  if (!answer.contains("scores") || !answer["scores"].is_object())
    return Invalid("\"scores\" must be an object with the criteria");
  const VoteJson& scores = answer["scores"];
  if (scores.size() != judge.criteria.size())
    return Invalid("\"scores\" must have the " + std::to_string(judge.criteria.size()) +
                   " criteria, got " + std::to_string(scores.size()));
  double sum = 0, weights = 0;
  for (const auto& [name, weight] : judge.criteria) {
    if (!scores.contains(name)) return Invalid("\"scores." + name + "\" is missing");
    TM_ASSIGN_OR_RETURN(const double score, Share(scores[name], "scores." + name));
    sum += weight * score;
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

// The value of a JSON answer.
Result<double> ReadValue(const JudgeConfig& judge, const JudgeQuestion& question,
                         const VoteJson& answer, const CodeTracer& tracer) {
  const auto choices = ChoicesOf(question.task);
  const bool outcome = question.task == v1::JUDGE_TASK_OUTCOME;
  const bool certificate = question.task == v1::JUDGE_TASK_EQUIVALENCE;
  if (certificate) return CheckCertificate(answer, {question.other, question.text, tracer});
  if (!HasOnly(answer,
               {outcome ? (judge.criteria.empty() ? "score" : "scores") : "verdict", "reason"}))
    return Invalid("the answer has fields that were not asked for");
  if (outcome) return ReadScores(judge, answer);
  const auto verdict = answer.find("verdict");
  const JudgeChoice* chosen = verdict != answer.end() && verdict->is_string()
                                  ? FindChoice(choices, verdict->get<std::string>())
                                  : nullptr;
  if (chosen == nullptr) return Invalid("\"verdict\" must be one of " + WordList(choices));
  return chosen->value;
}

v1::JudgeVote ReadObject(const JudgeConfig& judge, const JudgeQuestion& question,
                         const JudgeReply& reply, const CodeTracer& tracer) {
  const VoteJson answer = VoteJson::parse(reply.text, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded() || !answer.is_object()) {
    return FailedVote("the answer must be one JSON object, got \"" +
                      Beginning(reply.text, kShownMax) + "\"");
  }
  const auto reason = answer.find("reason");
  if (reason != answer.end() && !reason->is_string())
    return FailedVote("\"reason\" must be a text");
  const Result<double> value = ReadValue(judge, question, answer, tracer);
  if (!value.ok()) return FailedVote(value.status().message());
  v1::JudgeVote vote;
  vote.set_valid(true);
  vote.set_value(*value);
  if (reason != answer.end()) vote.set_reason(Beginning(reason->get<std::string>(), kReasonMax));
  return vote;
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The value that most votes have; where two have as many, the median of all.
double MajorityOf(const std::vector<double>& values) {
  std::map<double, size_t> counts;
  for (const double value : values) ++counts[value];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto same = std::count_if(counts.begin(), counts.end(),
                                  [&](const auto& entry) { return entry.second == most->second; });
  return same == 1 ? most->first : MedianOf(values);
}

}  // namespace

std::vector<double> ChoiceProbabilities(std::span<const JudgeChoice> choices,
                                        const JudgeReply& reply, std::string_view chosen) {
  // The first token that is more than white space begins the word.
  const auto token = std::find_if(reply.tokens.begin(), reply.tokens.end(),
                                  [](const TokenChoices& t) { return !Trimmed(t.token).empty(); });
  if (token == reply.tokens.end()) return {};
  std::vector<std::optional<double>> logs(choices.size());
  for (const auto& [text, logprob] : token->alternatives) {
    const std::string begin = Lower(Trimmed(text));
    if (begin.empty() || !std::isfinite(logprob)) continue;
    // It counts for the choice that alone begins with it.
    size_t found = choices.size();
    bool unique = true;
    for (size_t i = 0; i < choices.size(); ++i) {
      if (choices[i].word.substr(0, begin.size()) != begin) continue;
      unique = found == choices.size();
      found = i;
    }
    if (found == choices.size() || !unique) continue;
    const double before = logs[found].value_or(-INFINITY);
    const double high = std::max(before, logprob);
    logs[found] = high + std::log(std::exp(before - high) + std::exp(logprob - high));
  }
  double most = -INFINITY, sum = 0;
  for (const auto& log : logs) most = std::max(most, log.value_or(-INFINITY));
  const JudgeChoice* word = FindChoice(choices, chosen);
  if (word == nullptr || !logs[static_cast<size_t>(word - choices.data())]) return {};
  std::vector<double> probabilities;
  for (const auto& log : logs) {
    probabilities.push_back(log ? std::exp(*log - most) : 0);
    sum += probabilities.back();
  }
  for (double& p : probabilities) p /= sum;
  return probabilities;
}

v1::JudgeVote ReadVote(const JudgeConfig& judge, const JudgeQuestion& question,
                       const JudgeReply& reply, const CodeTracer& tracer) {
  v1::JudgeVote vote = judge.answer == "token" ? ReadWord(question, reply)
                                               : ReadObject(judge, question, reply, tracer);
  vote.set_judge(judge.name);
  if (vote.valid() && question.swapped) vote.set_value(1 - vote.value());
  return vote;
}

v1::Judgement CountVotes(const JudgeConfig& judge, const JudgeQuestion& question,
                         std::span<const v1::JudgeVote> votes) {
  std::vector<double> values;
  double sum = 0;
  for (const v1::JudgeVote& vote : votes) {
    if (!vote.valid()) continue;
    values.push_back(vote.value());
    sum += vote.value();
  }
  TM_CHECK(!values.empty(), "a judgement needs a vote");
  const double mean = sum / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  v1::Judgement judgement;
  judgement.set_judge(judge.name);
  judgement.set_version(judge.version);
  judgement.set_turn(question.turn);
  judgement.set_spread(std::sqrt(squares / static_cast<double>(values.size())));
  const bool score = question.task == v1::JUDGE_TASK_OUTCOME && judge.answer == "json";
  judgement.set_value(judge.aggregate == "mean" ? mean
                      : score                   ? MedianOf(values)
                                                : MajorityOf(values));
  // From -1 .. 1 to a probability for turns; else the mean value is one.
  judgement.set_probability(std::clamp(question.turn > 0 ? (mean + 1) / 2 : mean, 0.0, 1.0));
  for (const v1::JudgeVote& vote : votes) {
    *judgement.add_votes() = vote;
    // The reason of a vote that the result agrees with most.
    if (vote.valid() && !vote.reason().empty() &&
        (judgement.reason().empty() || vote.value() == judgement.value()))
      judgement.set_reason(vote.reason());
  }
  return judgement;
}

}  // namespace tidemill
