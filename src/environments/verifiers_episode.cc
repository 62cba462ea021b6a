#include "environments/verifiers_episode.h"

#include <algorithm>
#include <utility>

#include "environments/chat_talk.h"

namespace tidemill {
namespace {

constexpr size_t kTraces = 1024;  // of an episode

const EnvironmentJson& PartOf(const EnvironmentJson& object, const char* name) {
  static const EnvironmentJson kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(name);
  return it == object.end() ? kNothing : *it;
}

std::string TextIn(const EnvironmentJson& object, const char* name) {
  const EnvironmentJson& text = PartOf(object, name);
  return text.is_string() ? text.get<std::string>() : std::string();
}

uint64_t CountIn(const EnvironmentJson& object, const char* name) {
  const EnvironmentJson& count = PartOf(object, name);
  return count.is_number_unsigned() ? count.get<uint64_t>() : 0;
}

// Ids of a message that the model drew; empty: it was not drawn, or nobody counted in tokens.
std::vector<uint32_t> DrawnIds(const EnvironmentJson& node) {
  const EnvironmentJson &ids = PartOf(node, "token_ids"), &mask = PartOf(node, "mask");
  std::vector<uint32_t> drawn;
  if (!ids.is_array() || !mask.is_array() || ids.size() != mask.size()) return drawn;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!mask[i].is_boolean() || !mask[i].get<bool>() || !ids[i].is_number_unsigned()) continue;
    drawn.push_back(ids[i].get<uint32_t>());
  }
  return drawn;
}

std::string ErrorText(const EnvironmentJson& error) {
  return TextIn(error, "type") + ": " + TextIn(error, "message").substr(0, 300);
}

}  // namespace

Status VerifiersEpisode::Apply(const EnvironmentJson& delta) {
  const std::string id = TextIn(delta, "trace");
  if (id.empty()) return Invalid("a delta names no trace");
  if (PartOf(delta, "discard") == true) {
    traces_.erase(id);
    return Ok();
  }
  auto it = traces_.find(id);
  if (it == traces_.end()) {
    if (!PartOf(delta, "open").is_object()) return Invalid("a delta is of a trace nobody opened");
    if (traces_.size() >= kTraces) return Invalid("it has more traces than an episode can have");
    it = traces_.emplace(id, VerifiersTrace()).first;
    it->second.talk.id = id;
  }
  return Grow(it->second, delta);
}

Status VerifiersEpisode::Grow(VerifiersTrace& trace, const EnvironmentJson& delta) const {
  for (const char* name : {"nodes", "calls", "errors"}) {
    const EnvironmentJson& list = PartOf(delta, name);
    if (!list.is_null() && !list.is_array()) return Invalid(std::string(name) + " is no list");
  }
  for (const EnvironmentJson& node : PartOf(delta, "nodes")) {
    ++trace.nodes;
    if (PartOf(node, "sampled") != true) continue;
    std::vector<uint32_t> drawn = DrawnIds(node);
    if (!drawn.empty()) trace.talk.drawn.push_back(std::move(drawn));
  }
  for (const EnvironmentJson& call : PartOf(delta, "calls")) {
    ++trace.calls;
    if (PartOf(call, "error").is_null() && !PartOf(call, "node").is_null()) ++trace.talk.answers;
  }
  for (const EnvironmentJson& error : PartOf(delta, "errors")) trace.error = ErrorText(error);
  const EnvironmentJson& set = PartOf(delta, "set");
  const EnvironmentJson& agent = PartOf(set, "agent");
  if (agent.is_object()) {
    trace.talk.player = TextIn(agent, "name");
    trace.talk.trained = PartOf(agent, "trainable") != false;
  }
  if (PartOf(set, "rewards").is_object()) trace.rewards = PartOf(set, "rewards");
  if (PartOf(set, "ok").is_boolean()) trace.ok = PartOf(set, "ok").get<bool>();
  return Ok();
}

Result<EndEpisode> VerifiersEpisode::Finish(const EnvironmentJson& reply,
                                            const std::string& environment) {
  const EnvironmentJson &summaries = PartOf(reply, "traces"), &head = PartOf(reply, "head");
  if (!summaries.is_array()) return Invalid("the reply to run says nothing of its traces");
  for (const EnvironmentJson& error : PartOf(head, "errors")) {
    if (PartOf(head, "ok") != true) return Unavailable(ErrorText(error));
  }
  if (summaries.empty()) return Invalid("the run has no trace");
  EndEpisode end{.reward = {}, .words = "done"};
  end.reward.set_environment(environment);
  for (const EnvironmentJson& summary : summaries) {
    const auto it = traces_.find(TextIn(summary, "id"));
    const bool whole = it != traces_.end() && it->second.nodes == CountIn(summary, "nodes") &&
                       it->second.calls == CountIn(summary, "calls");
    if (!whole) return Invalid("a trace of the run did not arrive whole");
    VerifiersTrace& trace = it->second;
    if (!trace.ok) {
      return Unavailable(trace.error.empty() ? "a trace of the run is not ok" : trace.error);
    }
    for (const auto& [name, reward] : trace.rewards.items()) {
      const EnvironmentJson &score = PartOf(reward, "score"), &weight = PartOf(reward, "weight");
      if (!score.is_number()) return Unavailable("the reward \"" + name + "\" was not computed");
      AddReward({.name = name,
                 .value = score.get<double>(),
                 .weight = weight.is_number() ? weight.get<double>() : 1,
                 .player = summaries.size() > 1 ? trace.talk.player : ""},
                end.reward);
    }
    if (summaries.size() == 1) trace.talk.player.clear();
    end.talks.push_back(std::move(trace.talk));
  }
  if (end.reward.parts().empty()) return Unavailable("the run has no reward");
  return end;
}

}  // namespace tidemill
