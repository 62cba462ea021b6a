#include "reward/judge_scorer.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemill {
namespace {

using JudgeKeys = JudgeConfig;

bool JudgesTurns(const JudgeKeys& judge) {
  return judge.task == "next_state" || judge.task == "process";
}

bool Compares(const JudgeKeys& judge) {
  return judge.task == "pairwise";
}

// Of the members an answer is compared with, how many this judge looks at.
int PeersOf(const JudgeKeys& judge, const v1::ScoreRequest& request) {
  return std::min(static_cast<int>(judge.pairs), request.peers_size());
}

// Who gave no answer has lost, and the same answer is as good: only the rest is asked about.
bool AsksAbout(const v1::ScoredPeer& peer, const v1::ScoreRequest& request) {
  return peer.submitted() && peer.submission() != request.submission();
}

// The share of comparisons that were won; a tie is half of one. Half, where there was none.
double ShareWon(const JudgeKeys& judge, const v1::ScoreRequest& request,
                const v1::JudgeAnswer* answer) {
  const int peers = PeersOf(judge, request);
  if (peers == 0) return 0.5;
  double won = 0;
  int asked = 0;
  for (int i = 0; i < peers; ++i) {
    const v1::ScoredPeer& peer = request.peers(i);
    if (AsksAbout(peer, request))
      won += answer->judgements(asked++).value();
    else
      won += peer.submitted() ? 0.5 : 1;
  }
  return won / peers;
}

// What the judge's turn rewards are: bounded, compared with each other or shared out, weighed.
std::vector<double> ShapeTurns(const JudgeKeys& judge, std::vector<double> rewards) {
  double mean = 0;
  for (double& reward : rewards) {
    reward = std::clamp(reward, -judge.clip, judge.clip);
    mean += reward / static_cast<double>(rewards.size());
  }
  for (double& reward : rewards) {
    if (judge.normalize == "center") reward -= mean;
    if (judge.normalize == "turns") reward /= static_cast<double>(rewards.size());
    reward *= judge.weight;
  }
  return rewards;
}

class JudgeScorer final : public Scorer {
 public:
  explicit JudgeScorer(std::vector<JudgeKeys> judges) : judges_(std::move(judges)) {}
  std::string_view name() const override { return "judge"; }
  bool IsAudited() const override { return true; }
  // The sum, so that it rises with each of them.
  uint32_t version() const override {
    uint32_t sum = 0;
    for (const JudgeKeys& judge : judges_) sum += judge.version;
    return sum;
  }

  std::vector<Need> Needs(const v1::ScoreRequest& request,
                          const ScoreEvidence& evidence) const override {
    std::vector<Need> needs;
    if (IsTested(request)) {
      if (evidence.Tool("grade") == nullptr)
        needs.push_back({.kind = Need::Kind::kTool, .name = "grade"});
      return needs;
    }
    for (const JudgeKeys& judge : judges_) {
      if (!Asks(judge, request) || evidence.judged.count(judge.name) != 0) continue;
      needs.push_back({.kind = Need::Kind::kJudge, .name = judge.name});
    }
    return needs;
  }

  TaskSolved Solved(const v1::ScoreRequest& request, const ScoreEvidence& evidence) const override {
    bool any = false;
    for (const JudgeKeys& judge : judges_) {
      if (!Claims(judge) || !Asks(judge, request)) continue;
      if (evidence.judged.count(judge.name) == 0) return TaskSolved::kAskLater;
      any = true;
    }
    if (!any || IsTested(request)) return TaskSolved::kNotKnown;
    return ValueOf(request, evidence, true) >= 0.5 ? TaskSolved::kYes : TaskSolved::kNo;
  }

  Result<v1::RewardPart> Score(const v1::ScoreRequest& request,
                               const ScoreEvidence& evidence) const override {
    if (IsTested(request)) {
      const v1::ToolResult* grade = evidence.Tool("grade");
      if (grade == nullptr) return Unavailable("no result of grade");
      return MakePart(*this, TestsValue(*grade, false), "evaluated by tests, not judged");
    }
    std::string comment;
    const bool submitted = request.end() == v1::EPISODE_END_SUBMITTED;
    v1::RewardPart part = MakePart(*this, ValueOf(request, evidence, false), "");
    for (const JudgeKeys& judge : judges_) {
      const auto answer = evidence.judged.find(judge.name);
      const bool answered = answer != evidence.judged.end();
      if (submitted && Compares(judge)) {
        comment +=
            fmt::format("{}{}: {:.3g} of {} comparisons won", comment.empty() ? "" : "; ",
                        judge.name, ShareWon(judge, request, answered ? &answer->second : nullptr),
                        PeersOf(judge, request));
      }
      if (!answered) continue;
      for (const v1::Judgement& judgement : answer->second.judgements()) {
        *part.add_judgements() = judgement;
        comment += fmt::format(
            "{}{}{} {:.2f}{}{}", comment.empty() ? "" : "; ", judge.name,
            judgement.turn() == 0 ? std::string() : fmt::format(" turn {}", judgement.turn()),
            judgement.value(), judgement.reason().empty() ? "" : ": ", judgement.reason());
      }
    }
    part.set_comment(comment.empty() ? "nothing was submitted" : comment);
    return part;
  }

  std::vector<double> TurnRewards(const ScoreEvidence& evidence) const override {
    std::vector<double> sum;
    for (const JudgeKeys& judge : judges_) {
      const auto answer = evidence.judged.find(judge.name);
      if (answer == evidence.judged.end() || !JudgesTurns(judge)) continue;
      std::vector<double> rewards;
      for (const v1::Judgement& judgement : answer->second.judgements())
        rewards.push_back(judgement.value());
      rewards = ShapeTurns(judge, std::move(rewards));
      sum.resize(std::max(sum.size(), rewards.size()));
      for (size_t i = 0; i < rewards.size(); ++i) sum[i] += rewards[i];
    }
    return sum;
  }

 private:
  // An evaluation with tests needs no opinion.
  static bool IsTested(const v1::ScoreRequest& request) {
    return request.purpose() == v1::PURPOSE_EVAL && HasHiddenTests(request);
  }
  // An answer that was not given is not judged; a reference that is missing cannot be compared.
  static bool Asks(const JudgeKeys& judge, const v1::ScoreRequest& request) {
    if (JudgesTurns(judge)) return request.turns() > 0;
    if (request.end() != v1::EPISODE_END_SUBMITTED) return false;
    if (Compares(judge)) {
      const auto peers = request.peers().begin();
      return std::any_of(peers, peers + PeersOf(judge, request),
                         [&](const v1::ScoredPeer& peer) { return AsksAbout(peer, request); });
    }
    return judge.task != "equivalence" || request.grading().has_specification();
  }
  // The better of two answers may still be wrong.
  static bool Claims(const JudgeKeys& judge) { return !JudgesTurns(judge) && !Compares(judge); }

  // Of the judges of the answer, or only of those that claim it to be right or wrong; 0 where there
  // was none to judge.
  double ValueOf(const v1::ScoreRequest& request, const ScoreEvidence& evidence,
                 bool claims) const {
    double sum = 0, weights = 0;
    if (request.end() != v1::EPISODE_END_SUBMITTED) return 0;
    for (const JudgeKeys& judge : judges_) {
      if (JudgesTurns(judge) || (claims && !Claims(judge))) continue;
      const auto found = evidence.judged.find(judge.name);
      const v1::JudgeAnswer* answer = found == evidence.judged.end() ? nullptr : &found->second;
      const bool asked = Asks(judge, request);
      if (asked ? answer == nullptr : !Compares(judge)) continue;
      weights += judge.weight;
      sum += judge.weight *
             (Compares(judge) ? ShareWon(judge, request, answer) : answer->judgements(0).value());
    }
    return weights > 0 ? sum / weights : 0;
  }

  const std::vector<JudgeKeys> judges_;
};

}  // namespace

Result<std::unique_ptr<Scorer>> NewJudgeScorer(const RewardConfig& reward) {
  std::vector<JudgeKeys> judges;
  for (const JudgeKeys& judge : reward.judges) {
    if (judge.reward) judges.push_back(judge);
  }
  if (judges.empty()) return Invalid("no [[judge]] has reward = true");
  return std::unique_ptr<Scorer>(std::make_unique<JudgeScorer>(std::move(judges)));
}

Status CheckJudgeAnswer(const JudgeKeys& judge, const v1::ScoreRequest& request,
                        const v1::JudgeAnswer& answer) {
  int wanted = JudgesTurns(judge) ? request.turn_texts_size() : 1;
  if (Compares(judge)) {
    const auto peers = request.peers().begin();
    wanted = static_cast<int>(
        std::count_if(peers, peers + PeersOf(judge, request),
                      [&](const v1::ScoredPeer& peer) { return AsksAbout(peer, request); }));
  }
  if (answer.judgements_size() == wanted) return Ok();
  return Invalid("the judge " + judge.name + " gave " + std::to_string(answer.judgements_size()) +
                 " judgements on " + std::to_string(wanted) + " questions");
}

Result<v1::JudgeRequest> MakeJudgeRequest(const JudgeKeys& judge, const v1::ScoreRequest& request) {
  v1::JudgeRequest question;
  question.set_judge(judge.name);
  question.set_prompt(request.prompt());
  if (!JudgesTurns(judge)) {
    question.set_submission(request.submission());
    for (int i = 0; Compares(judge) && i < PeersOf(judge, request); ++i) {
      if (AsksAbout(request.peers(i), request)) question.add_others(request.peers(i).submission());
    }
    if (judge.task == "equivalence") question.set_other(request.grading().specification().source());
    return question;
  }
  if (request.turn_texts_size() != request.last_calls_size())
    return Unavailable("the texts of the turns did not come with the request");
  for (int i = 0; i < request.turn_texts_size(); ++i) {
    v1::JudgedTurn& turn = *question.add_turns();
    turn.set_text(request.turn_texts(i));
    turn.set_next(request.last_calls(i).text());
  }
  return question;
}

}  // namespace tidemill
