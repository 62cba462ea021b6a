#include "cli/runs_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "store/line_file.h"
#include "tools/box/box.h"

namespace tidemill {
namespace {

using ExportJson = nlohmann::ordered_json;

constexpr uint64_t kPageRows = 200;

std::string Decoded(const google::protobuf::RepeatedField<uint32_t>& ids,
                    const TextOfIds& text_of) {
  return text_of(std::vector<int32_t>(ids.begin(), ids.end()));
}

// All that came behind the prompt, token by token: what the model wrote (mask 1) with its
// log-probabilities and versions, and what was appended after it (mask 0).
struct Completion {
  std::vector<uint32_t> ids;
  std::vector<int> mask;
  std::vector<float> logprobs;
  std::vector<uint64_t> versions;

  void Add(const v1::Turn& turn) {
    size_t at = 0;
    const auto count = static_cast<size_t>(turn.ids_size());
    std::vector<uint64_t> drawn_by;
    for (const v1::VersionRun& run : turn.versions()) {
      drawn_by.insert(drawn_by.end(), std::min<size_t>(run.tokens(), count - drawn_by.size()),
                      run.version());
    }
    drawn_by.resize(count, 0);
    for (; at < count; ++at) {
      const int i = static_cast<int>(at);
      Put(turn.ids(i), 1, i < turn.logprobs_size() ? turn.logprobs(i) : 0, drawn_by[at]);
    }
    for (const uint32_t id : turn.observation_ids()) Put(id, 0, 0, 0);
  }
  void Put(uint32_t id, int by_model, float logprob, uint64_t version) {
    ids.push_back(id), mask.push_back(by_model);
    logprobs.push_back(logprob), versions.push_back(version);
  }
};

ExportJson CallsJson(const v1::Trajectory& trajectory) {
  ExportJson calls = ExportJson::array();
  for (int turn = 0; turn < trajectory.turns_size(); ++turn) {
    for (const v1::ToolCall& call : trajectory.turns(turn).calls()) {
      calls.push_back({{"turn", turn + 1},
                       {"tool", call.tool()},
                       {"arguments", call.arguments_json()},
                       {"outcome", OutcomeName(call.outcome())},
                       {"text", call.text()},
                       {"wait_ms", call.wait_ms()},
                       {"run_ms", call.run_ms()}});
    }
  }
  return calls;
}

// The text of the tokens, template and all.
ExportJson MessagesJson(const v1::Trajectory& trajectory, const TextOfIds& text_of) {
  ExportJson messages = ExportJson::array();
  messages.push_back({{"role", "user"}, {"content", Decoded(trajectory.prompt_ids(), text_of)}});
  for (const v1::Turn& turn : trajectory.turns()) {
    messages.push_back({{"role", "assistant"}, {"content", Decoded(turn.ids(), text_of)}});
    if (turn.observation_ids_size() > 0)
      messages.push_back({{"role", "tool"}, {"content", Decoded(turn.observation_ids(), text_of)}});
  }
  return messages;
}

void AddVerdict(const EpisodeDetail& episode, ExportJson& json) {
  const v1::Verdict none;
  const v1::Verdict& verdict = episode.verdict ? *episode.verdict : none;
  const bool scored = episode.verdict && verdict.scored();
  json["scored"] = scored;
  json["reward"] = scored ? ExportJson(verdict.reward()) : ExportJson();
  json["solved"] = scored ? ExportJson(verdict.solved()) : ExportJson();
  json["tests_passed"] = verdict.tests_passed();
  json["tests_total"] = verdict.tests_total();
  json["compiled"] = verdict.compiled();
  json["parts"] = ExportJson::array();
  for (const v1::RewardPart& part : verdict.parts()) {
    json["parts"].push_back({{"scorer", part.scorer()},
                             {"version", part.scorer_version()},
                             {"value", part.value()},
                             {"weight", part.weight()},
                             {"comment", part.comment()}});
  }
  json["turn_rewards"] =
      std::vector<double>(verdict.turn_rewards().begin(), verdict.turn_rewards().end());
  json["cause"] = episode.row.stale_cause.empty() ? verdict.cause() : episode.row.stale_cause;
}

}  // namespace

ExportJson EpisodeJson(const std::string& run, const EpisodeDetail& episode,
                       const TextOfIds& text_of) {
  const EpisodeRow& row = episode.row;
  const v1::Trajectory& trajectory = episode.trajectory;
  Completion completion;
  for (const v1::Turn& turn : trajectory.turns()) completion.Add(turn);
  ExportJson json = {{"run", run},
                     {"task", row.task},
                     {"group", row.group},
                     {"member", row.member},
                     {"attempt", row.attempt},
                     {"purpose", row.purpose == v1::PURPOSE_EVAL ? "eval" : "train"},
                     {"eval", row.eval_name},
                     {"end", std::string(EpisodeEndName(row.end))},
                     {"started_ms", row.started_ms},
                     {"finished_ms", row.finished_ms},
                     {"worker", row.worker},
                     {"temperature", trajectory.sampling().temperature()}};
  json["messages"] = MessagesJson(trajectory, text_of);
  json["calls"] = CallsJson(trajectory);
  json["submission"] = trajectory.submission();
  json["prompt_ids"] =
      std::vector<uint32_t>(trajectory.prompt_ids().begin(), trajectory.prompt_ids().end());
  json["completion_ids"] = std::move(completion.ids);
  json["completion_mask"] = std::move(completion.mask);
  json["logprobs"] = std::move(completion.logprobs);
  json["versions"] = std::move(completion.versions);
  AddVerdict(episode, json);
  json["fate"] = row.fate;
  json["fate_reason"] = row.fate_reason;
  json["used_by_steps"] = episode.used_by;
  return json;
}

Result<uint64_t> ExportEpisodes(RunReader& reader, const ExportOptions& options,
                                const TextOfIds& text_of) {
  TM_ASSIGN_OR_RETURN(LineWriter writer, LineWriter::Create(options.out));
  EpisodeFilter filter = options.filter;
  uint64_t written = 0, offset = options.offset;
  for (bool more = true; more;) {
    uint64_t wanted = kPageRows;
    if (options.limit > 0) wanted = std::min(wanted, options.limit - written);
    if (wanted == 0) break;
    TM_ASSIGN_OR_RETURN(const EpisodePage page,
                        reader.Episodes(filter, EpisodeSort::kOldest, {offset, wanted}));
    for (const EpisodeRow& row : page.rows) {
      TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader.Episode(row.group, row.member));
      TM_RETURN_IF_ERROR(
          writer.Write(EpisodeJson(options.run, episode, text_of)
                           .dump(-1, ' ', false, ExportJson::error_handler_t::replace)));
      filter.after_seq = row.seq;
      ++written;
    }
    offset = 0;
    more = page.rows.size() == wanted;
  }
  TM_RETURN_IF_ERROR(writer.Finish());
  return written;
}

}  // namespace tidemill
