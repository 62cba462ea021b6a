#include "cli/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/enum_name.h"
#include "core/text.h"
#include "observe/episode_timeline.h"
#include "tools/box/box.h"

namespace tidemill {
namespace {

std::string Indented(const std::string& text) {
  std::string out = "    ";
  for (char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out + "\n";
}

std::string IdsText(const google::protobuf::RepeatedField<uint32_t>& ids,
                    const TextOfIds& text_of) {
  const std::vector<int32_t> copy(ids.begin(), ids.end());
  return text_of(copy);
}

std::string TurnText(const v1::Turn& turn, int number, const TextOfIds& text_of) {
  std::string versions;
  for (const v1::VersionRun& run : turn.versions()) {
    versions += fmt::format("{}v{} x{}", versions.empty() ? "" : ", ", run.version(), run.tokens());
  }
  double logprob = 0;
  for (float value : turn.logprobs()) logprob += value;
  std::string text;
  if (turn.prompt_ids_size() > 0) {
    text = fmt::format("  prompt of turn {}, which begins a branch\n", number);
    text += Indented(IdsText(turn.prompt_ids(), text_of));
  }
  const std::string who = turn.role().empty() ? "" : " of " + turn.role();
  text += fmt::format("  turn {}{} ({} tokens: {}; log-probability {:.2f})\n", number, who,
                      turn.ids_size(), versions, logprob);
  text += Indented(IdsText(turn.ids(), text_of));
  if (!turn.malformed().empty()) text += "  malformed: " + turn.malformed() + "\n";
  for (const v1::ToolCall& call : turn.calls()) {
    text += fmt::format("  tool {} {} -> {}", call.tool(), call.arguments_json(),
                        call.cancelled() ? "cancelled" : EnumName(call.outcome()));
    if (!call.handle().empty()) text += ", in the background as " + call.handle();
    if (call.asked_token() > 0) text += fmt::format(", begun at token {}", call.asked_token());
    if (call.tests_total() > 0)
      text += fmt::format(", {}/{} tests", call.tests_passed(), call.tests_total());
    text += fmt::format(" ({:.0f} ms, {:.0f} ms in the box{})\n", call.wait_ms(), call.run_ms(),
                        call.retries() > 0 ? fmt::format(", {} retries", call.retries()) : "");
    if (!call.text().empty()) text += Indented(call.text());
  }
  if (turn.end() == v1::TURN_END_INTERRUPTED) text += "  a result ended the turn\n";
  if (!turn.delivered().empty()) {
    text += "  delivered:";
    for (const std::string& handle : turn.delivered()) text += " " + handle;
    text += "\n";
  }
  // The messages that an agent's program put behind the turn; with calls it repeats their results.
  if (turn.calls().empty() && !turn.observation_ids().empty()) {
    text += "  then\n" + Indented(IdsText(turn.observation_ids(), text_of));
  }
  return text;
}

// A judge's question and votes.
std::string JudgementText(const v1::Judgement& judgement) {
  std::string text =
      fmt::format("    judge {} (version {}){} {:.2f}, probability {:.2f}, spread {:.2f}\n",
                  judgement.judge(), judgement.version(),
                  judgement.turn() > 0 ? fmt::format(" turn {}", judgement.turn()) : std::string(),
                  judgement.value(), judgement.probability(), judgement.spread());
  for (const v1::JudgeVote& vote : judgement.votes()) {
    text += vote.valid() ? fmt::format("      {} votes {:.2f}: {}\n", vote.judge(), vote.value(),
                                       vote.reason())
                         : fmt::format("      {} failed: {}\n", vote.judge(), vote.cause());
  }
  return text + Indented(judgement.prompt());
}

// The output and the end of an agent that is a program.
std::string LogText(const v1::AgentLog& log) {
  std::string text = fmt::format("  the program ended: {}; it got {} answer{} of the model\n",
                                 log.ended(), log.answers(), log.answers() == 1 ? "" : "s");
  if (!log.untrained().empty()) text += "  nothing to train: " + log.untrained() + "\n";
  if (log.bytes() == 0) return text + "  it printed nothing\n";
  text += fmt::format("  it printed {} bytes{}\n", log.bytes(),
                      log.truncated() ? ", of which the end:" : ":");
  text += Indented(ToUtf8(log.text()));
  if (!log.diff().empty()) text += "  it changed\n" + Indented(log.diff());
  return text;
}

}  // namespace

std::string TranscriptText(const EpisodeDetail& episode, const TextOfIds& text_of) {
  const EpisodeRow& row = episode.row;
  std::string text = fmt::format("== {}  group {} member {} attempt {}  {}", row.task, row.group,
                                 row.member, row.attempt, EnumName(row.end));
  text += row.reward ? fmt::format("  reward {:.3f}\n", *row.reward) : std::string("  no reward\n");
  if (episode.trajectory.prompt_ids().empty()) {
    text += "  no prompt was sent\n";
  } else {
    text += "  prompt\n" + Indented(IdsText(episode.trajectory.prompt_ids(), text_of));
  }
  for (int i = 0; i < episode.trajectory.turns_size(); ++i) {
    text += TurnText(episode.trajectory.turns(i), i + 1, text_of);
  }
  text += TimelineText(episode.trajectory);
  if (episode.trajectory.has_log()) text += LogText(episode.trajectory.log());
  if (!row.stale_cause.empty()) text += "  stale: " + row.stale_cause + "\n";
  if (episode.verdict) {
    for (const v1::RewardPart& part : episode.verdict->parts()) {
      text += fmt::format("  {} (version {}) {:.3f} x {:g}: {}\n", part.scorer(),
                          part.scorer_version(), part.value(), part.weight(), part.comment());
      for (const v1::Judgement& judgement : part.judgements()) text += JudgementText(judgement);
      if (part.audited()) text += fmt::format("    audited: executed {:.3f}\n", part.executed());
    }
  }
  if (episode.verdict) {
    for (const v1::RoleReward& own : episode.verdict->by_role()) {
      text += fmt::format("  reward of {} {:.3f}\n", own.role(), own.reward());
    }
  }
  text += fmt::format("  fate {}{}", row.fate,
                      row.fate_reason.empty() ? "" : " (" + row.fate_reason + ")");
  if (!episode.used_by.empty()) text += fmt::format(", used by step {}", episode.used_by.front());
  return text + "\n";
}

}  // namespace tidemill
