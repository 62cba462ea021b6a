#include "learner/group_question.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/enum_name.h"
#include "core/text.h"

namespace tidemill {
namespace {

using GroupJson = nlohmann::ordered_json;

constexpr size_t kAnswerShown = 200;

GroupJson MemberJson(const v1::Sample& sample, double reward) {
  const v1::Trajectory& trajectory = sample.trajectory();
  const v1::Verdict& verdict = sample.verdict();
  int64_t tokens = 0;
  for (const v1::Turn& turn : trajectory.turns()) tokens += turn.ids_size();
  GroupJson parts = GroupJson::object();
  for (const v1::RewardPart& part : verdict.parts()) parts[part.scorer()] = part.value();
  return {{"member", trajectory.id().member()},
          {"role", sample.role()},
          {"reward", reward},
          {"parts", std::move(parts)},
          {"solved", verdict.solved()},
          {"tests_passed", verdict.tests_passed()},
          {"tests_total", verdict.tests_total()},
          {"end", EnumName(trajectory.end())},
          {"turns", trajectory.turns_size()},
          {"generated_tokens", tokens},
          {"submission", trajectory.submission()}};
}

// Places of the samples of each group.
using Groups = std::map<uint64_t, std::vector<size_t>>;

Status TakeKeep(const GroupJson& keep, const std::vector<size_t>& places, GroupAnswers& answers) {
  if (!keep.is_array() || keep.size() != places.size()) {
    return Unavailable("\"keep\" must be a list of one true or false for each of the " +
                       std::to_string(places.size()) + " members");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (!keep[i].is_boolean()) return Unavailable("\"keep\" must hold true and false alone");
    answers.keep[places[i]] = keep[i].get<bool>();
  }
  return Ok();
}

Status TakeAdvantages(const GroupJson& advantages, const std::vector<size_t>& places,
                      GroupAnswers& answers) {
  if (!advantages.is_array() || advantages.size() != places.size()) {
    return Unavailable("\"advantages\" must be a list of one number for each of the " +
                       std::to_string(places.size()) + " members");
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const bool number = advantages[i].is_number() && std::isfinite(advantages[i].get<double>());
    if (!number) return Unavailable("\"advantages\" must hold finite numbers alone");
    answers.advantages[places[i]] = advantages[i].get<double>();
  }
  return Ok();
}

}  // namespace

Result<GroupAnswers> AskAboutGroups(const GroupFunction& ask,
                                    std::span<const v1::Sample* const> samples,
                                    std::span<const double> rewards) {
  Groups groups;
  for (size_t i = 0; i < samples.size(); ++i) {
    groups[samples[i]->trajectory().id().group()].push_back(i);
  }
  std::vector<std::string> questions;
  for (const auto& [group, places] : groups) {
    GroupJson question = {{"group", group},
                          {"task", samples[places[0]]->trajectory().id().task()},
                          {"members", GroupJson::array()}};
    for (const size_t i : places) {
      question["members"].push_back(MemberJson(*samples[i], rewards[i]));
    }
    questions.push_back(question.dump(-1, ' ', false, GroupJson::error_handler_t::replace));
  }
  TM_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ask(questions));
  GroupAnswers answers;
  answers.keep.assign(samples.size(), true);
  answers.advantages.assign(samples.size(), 0.0);
  std::optional<bool> has_advantages;
  auto line = lines.begin();
  for (const auto& [group, places] : groups) {
    const std::string which = "learner.group_command, group " + std::to_string(group);
    const GroupJson answer = GroupJson::parse(*line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object() || !(answer.contains("keep") || answer.contains("advantages"))) {
      return Unavailable(which + ": an answer needs \"keep\" or \"advantages\", got " +
                         Beginning(*line, kAnswerShown));
    }
    ++line;
    const bool gives = answer.contains("advantages");
    if (has_advantages.value_or(gives) != gives) {
      return Unavailable(which + ": \"advantages\" must be in all answers or in none");
    }
    has_advantages = gives;
    if (answer.contains("keep")) {
      TM_RETURN_IF_ERROR(TakeKeep(answer["keep"], places, answers).WithContext(which));
    }
    if (gives) {
      TM_RETURN_IF_ERROR(TakeAdvantages(answer["advantages"], places, answers).WithContext(which));
    }
  }
  if (!has_advantages.value_or(false)) answers.advantages.clear();
  return answers;
}

}  // namespace tidemill
