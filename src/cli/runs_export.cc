#include "cli/runs_export.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/transcript.h"
#include "core/enum_name.h"
#include "tools/box/box.h"

namespace tidemill {
namespace {

using ExportJson = nlohmann::ordered_json;

constexpr uint64_t kPageRows = 200;

using Ids = google::protobuf::RepeatedField<uint32_t>;

// A sequence of an episode: the first begins with the trajectory's prompt, each further one with
// that of the turn that begins a branch. Its turns are of one role, and others may lie between.
struct Branch {
  const Ids* prompt = nullptr;
  std::vector<int> turns{};
};

std::vector<Branch> BranchesOf(const v1::Trajectory& trajectory) {
  std::vector<Branch> branches = {{&trajectory.prompt_ids()}};
  std::map<std::string, size_t> newest;  // by role
  for (int t = 0; t < trajectory.turns_size(); ++t) {
    const v1::Turn& turn = trajectory.turns(t);
    size_t& branch = newest[turn.role()];
    if (!turn.prompt_ids().empty()) {
      branch = branches.size();
      branches.push_back({&turn.prompt_ids()});
    }
    branches[branch].turns.push_back(t);
  }
  return branches;
}

// All that came behind the prompt, token by token: what the model wrote (mask 1) with its
// log-probabilities and versions, and what was appended after it (mask 0). What is behind the last
// turn is left out: nothing was drawn after it.
struct Completion {
  std::vector<uint32_t> ids;
  std::vector<int> mask;
  std::vector<float> logprobs;
  std::vector<uint64_t> versions;

  Completion(const v1::Trajectory& trajectory, const Branch& branch) {
    for (const int t : branch.turns) {
      Add(trajectory.turns(t));
      if (t == branch.turns.back()) break;
      for (const uint32_t id : trajectory.turns(t).observation_ids()) Put(id, 0, 0, 0);
    }
  }
  void Add(const v1::Turn& turn) {
    const auto count = static_cast<size_t>(turn.ids_size());
    std::vector<uint64_t> drawn_by;
    for (const v1::VersionRun& run : turn.versions()) {
      drawn_by.insert(drawn_by.end(), std::min<size_t>(run.tokens(), count - drawn_by.size()),
                      run.version());
    }
    drawn_by.resize(count, 0);
    for (size_t at = 0; at < count; ++at) {
      const int i = static_cast<int>(at);
      Put(turn.ids(i), 1, i < turn.logprobs_size() ? turn.logprobs(i) : 0, drawn_by[at]);
    }
  }
  void Put(uint32_t id, int by_model, float logprob, uint64_t version) {
    ids.push_back(id), mask.push_back(by_model);
    logprobs.push_back(logprob), versions.push_back(version);
  }
};

ExportJson CallsJson(const v1::Trajectory& trajectory, const Branch& branch) {
  ExportJson calls = ExportJson::array();
  for (const int turn : branch.turns) {
    for (const v1::ToolCall& call : trajectory.turns(turn).calls()) {
      calls.push_back({{"turn", turn + 1},
                       {"tool", call.tool()},
                       {"arguments", call.arguments_json()},
                       {"outcome", EnumName(call.outcome())},
                       {"text", call.text()},
                       {"wait_ms", call.wait_ms()},
                       {"run_ms", call.run_ms()},
                       {"handle", call.handle()},
                       {"cancelled", call.cancelled()}});
    }
  }
  return calls;
}

std::string Base64Of(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j) {
      three = three << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kDigits[three >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

ExportJson ExpertsJson(const v1::Trajectory& trajectory, const Branch& branch) {
  ExportJson experts = ExportJson::array();
  for (const int t : branch.turns) {
    const v1::Turn& turn = trajectory.turns(t);
    if (!turn.has_experts()) continue;
    experts.push_back({{"turn", t + 1},
                       {"first", turn.experts().first()},
                       {"choices", turn.experts().choices()},
                       {"experts", Base64Of(turn.experts().experts())}});
  }
  return experts;
}

ExportJson MessagesJson(const v1::Trajectory& trajectory, const Branch& branch,
                        const ConversationReader& conversations) {
  std::vector<std::vector<TokenId>> ids;
  std::vector<bool> by_model;
  const auto add = [&](const Ids& part, bool model) {
    ids.emplace_back(part.begin(), part.end());
    by_model.push_back(model);
  };
  add(*branch.prompt, false);
  for (const int t : branch.turns) {
    add(trajectory.turns(t).ids(), true);
    add(trajectory.turns(t).observation_ids(), false);
  }
  std::vector<ConversationPart> parts;
  for (size_t i = 0; i < ids.size(); ++i) parts.push_back({ids[i], by_model[i]});
  return conversations.Read(parts);
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
  json["by_role"] = ExportJson::array();
  for (const v1::RoleReward& own : verdict.by_role()) {
    json["by_role"].push_back({{"role", own.role()}, {"reward", own.reward()}});
  }
  json["turn_rewards"] =
      std::vector<double>(verdict.turn_rewards().begin(), verdict.turn_rewards().end());
  json["cause"] = episode.row.stale_cause.empty() ? verdict.cause() : episode.row.stale_cause;
}

}  // namespace

std::vector<ExportJson> EpisodeRecords(const std::string& run, const EpisodeDetail& episode,
                                       const ConversationReader* conversations) {
  const EpisodeRow& row = episode.row;
  const v1::Trajectory& trajectory = episode.trajectory;
  const std::vector<Branch> branches = BranchesOf(trajectory);
  std::vector<ExportJson> records;
  for (const Branch& branch : branches) {
    const Completion completion(trajectory, branch);
    ExportJson json = {{"run", run},
                       {"task", row.task},
                       {"group", row.group},
                       {"member", row.member},
                       {"attempt", row.attempt},
                       {"branch", records.size() + 1},
                       {"branches", branches.size()},
                       {"turns", ExportJson::array()},
                       {"purpose", row.purpose == v1::PURPOSE_EVAL ? "eval" : "train"},
                       {"eval", row.eval_name},
                       {"eval_step", row.eval_step ? ExportJson(*row.eval_step) : ExportJson()},
                       {"end", EnumName(row.end)},
                       {"started_ms", row.started_ms},
                       {"finished_ms", row.finished_ms},
                       {"worker", row.worker},
                       {"temperature", trajectory.sampling().temperature()},
                       {"time",
                        {{"generating_ms", trajectory.time().generating_ms()},
                         {"tool_ms", trajectory.time().tool_ms()},
                         {"place_ms", trajectory.time().place_ms()}}}};
    for (const int t : branch.turns) json["turns"].push_back(t + 1);
    const v1::Turn none;
    const v1::Turn& turn = branch.turns.empty() ? none : trajectory.turns(branch.turns.front());
    json["role"] = turn.role();
    json["policy"] = turn.policy();
    json["messages"] = conversations != nullptr ? MessagesJson(trajectory, branch, *conversations)
                                                : ExportJson::array();
    json["calls"] = CallsJson(trajectory, branch);
    json["submission"] = trajectory.submission();
    json["prompt_ids"] = std::vector<uint32_t>(branch.prompt->begin(), branch.prompt->end());
    json["completion_ids"] = completion.ids;
    json["completion_mask"] = completion.mask;
    json["logprobs"] = completion.logprobs;
    json["versions"] = completion.versions;
    json["experts"] = ExpertsJson(trajectory, branch);
    AddVerdict(episode, json);
    json["fate"] = row.fate;
    json["fate_reason"] = row.fate_reason;
    json["used_by_steps"] = episode.used_by;
    records.push_back(std::move(json));
  }
  return records;
}

Result<ExportCounts> ExportEpisodes(RunReader& reader, const ExportOptions& options,
                                    const ConversationReader* conversations) {
  TM_ASSIGN_OR_RETURN(const auto writer, NewRecordWriter(options.format, options.out));
  EpisodeFilter filter = options.filter;
  ExportCounts written;
  uint64_t offset = options.offset;
  for (bool more = true; more;) {
    uint64_t wanted = kPageRows;
    if (options.limit > 0) wanted = std::min(wanted, options.limit - written.episodes);
    if (wanted == 0) break;
    TM_ASSIGN_OR_RETURN(const EpisodePage page,
                        reader.Episodes(filter, EpisodeSort::kOldest, {offset, wanted}));
    for (const EpisodeRow& row : page.rows) {
      TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader.Episode(row.group, row.member));
      for (const ExportJson& record : EpisodeRecords(options.run, episode, conversations)) {
        TM_RETURN_IF_ERROR(writer->Write(record));
        ++written.sequences;
      }
      filter.after_seq = row.seq;
      ++written.episodes;
    }
    offset = 0;
    more = page.rows.size() == wanted;
  }
  TM_RETURN_IF_ERROR(writer->Finish());
  return written;
}

}  // namespace tidemill
