#include "sim/session_checks.h"

#include <set>

namespace tidemill::sim {
namespace {

using QuestionKey = std::pair<uint64_t, uint32_t>;  // session, question

// Every stored turn belongs to a request of a client; one question of a client is one question of
// the store and the other way round.
void CheckQuestions(const SimStore& store, const ClientLedger& ledger, World& world) {
  std::map<uint64_t, QuestionKey> asked;
  std::map<QuestionKey, uint64_t> counted;
  std::map<std::string, uint32_t> stored;
  for (const auto& [number, session] : store.durable().sessions) {
    for (const v1::SessionTurn& turn : session.turns) {
      const auto it = ledger.requests.find(turn.request_id());
      if (it == ledger.requests.end()) return world.verdict().Fail("a turn that nobody asked for");
      const ClientRequest& request = it->second;
      if (++stored[turn.request_id()] > 1) {
        return world.verdict().Fail("an answer was stored twice");
      }
      for (const v1::VersionRun& run : turn.answer().versions()) {
        if (run.version() != request.pin) {
          return world.verdict().Fail("a pinned version was swapped");
        }
      }
      if (!request.session.empty() && session.session.name() != request.session) {
        return world.verdict().Fail("a turn is in another session than its client's");
      }
      const uint64_t question = request.question;
      if (ledger.ambiguous.contains(question)) continue;
      const QuestionKey key{number, turn.question()};
      if (asked.emplace(question, key).first->second != key) {
        return world.verdict().Fail("a retry was counted as a new question: " + turn.request_id());
      }
      const uint64_t other = counted.emplace(key, question).first->second;
      if (other != question)
        return world.verdict().Fail("two questions were taken for one: " + turn.request_id());
    }
  }
  for (const auto& [id, request] : ledger.requests) {
    if (request.seen && !request.deleted && !stored.contains(id)) {
      return world.verdict().Fail("a turn whose end the client saw was lost");
    }
  }
}

}  // namespace

void CheckSessions(const SimStore& store, const ClientLedger& ledger, World& world) {
  for (const v1::Trajectory& trajectory : store.durable().live) {
    if (store.durable().erased.contains(trajectory.id().group())) {
      return world.verdict().Fail("deleted data came back");
    }
  }
  CheckQuestions(store, ledger, world);
  std::map<float, const ClientRequest*> first_token;
  for (const auto& [id, request] : ledger.requests) {
    if (!request.ids.empty()) first_token[request.logprobs[0]] = &request;
  }
  std::set<float> trained;
  std::map<uint64_t, int> trained_answers;  // by question
  for (const v1::Trajectory& trajectory : store.durable().live) {
    std::vector<TokenId> before(trajectory.prompt_ids().begin(), trajectory.prompt_ids().end());
    for (const v1::Turn& turn : trajectory.turns()) {
      for (const float logprob : turn.logprobs()) {
        if (!trained.insert(logprob).second) {
          return world.verdict().Fail("a sampled token was trained twice");
        }
      }
      const auto it = first_token.find(turn.logprobs(0));
      if (it == first_token.end()) return world.verdict().Fail("a trained turn was never drawn");
      const ClientRequest& request = *it->second;
      const std::vector<TokenId> ids(turn.ids().begin(), turn.ids().end());
      if (before != request.prompt || ids != request.ids) {
        return world.verdict().Fail(
            "a trained token stands behind others than it was drawn behind");
      }
      if (request.cut) return world.verdict().Fail("a turn was trained that its client cut");
      ++trained_answers[request.question];
      before.insert(before.end(), ids.begin(), ids.end());
      before.insert(before.end(), turn.observation_ids().begin(), turn.observation_ids().end());
    }
  }
  for (const auto& [id, request] : ledger.requests) {
    const bool ambiguous =
        ledger.ambiguous.contains(request.question) || ledger.mistaken.contains(request.question);
    if (request.seen && !request.deleted && !ambiguous && trained_answers[request.question] == 0) {
      return world.verdict().Fail("an answer that the client saw was not trained: " + id);
    }
  }
}

}  // namespace tidemill::sim
