// The clients' knowledge of their own questions, and what must be true of the store at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/token_id.h"
#include "sim/sim_store.h"
#include "sim/world.h"

namespace tidemill::sim {

// One request as its client and the engine know it.
struct ClientRequest {
  uint64_t question = 0;  // what the client means: a retry has that of the request it repeats
  std::string session;    // the client's name for it; empty: none
  std::vector<TokenId> prompt;
  std::vector<TokenId> ids;     // drawn; empty: nothing yet
  std::vector<float> logprobs;  // no two tokens of a run share one
  bool seen = false;            // the client saw its end
  bool cut = false;             // it left before
  uint64_t number = 0;          // of the session it went to
  size_t thread = 0;            // of its client
  bool deleted = false;         // with that session
  uint64_t pin = 0;             // the version it is to be answered from
  bool alike = false;           // its answer says what others say, too

  // Whether the prompt begins with the other's prompt and what was drawn behind it.
  bool GoesOnFrom(const ClientRequest& seen) const {
    std::vector<TokenId> all = seen.prompt;
    all.insert(all.end(), seen.ids.begin(), seen.ids.end());
    return prompt.size() >= all.size() && std::equal(all.begin(), all.end(), prompt.begin());
  }
};

struct ClientLedger {
  std::map<std::string, ClientRequest> requests;  // by request id
  // Questions asked again on purpose when a crash came, and the ones they repeat: which of them a
  // request after the crash means, nobody can tell. And those behind answers that were deleted.
  std::set<uint64_t> ambiguous;
  // With an answer that another one, which was deleted, may be taken for: what its client went on
  // from, nobody can tell.
  std::set<uint64_t> mistaken;

  // The request repeats answers that were deleted.
  void Haunt(const ClientRequest& asked) {
    ambiguous.insert(asked.question);
    for (const auto& [id, request] : requests) {
      const bool mistakable = request.alike && !request.cut && request.number == asked.number;
      if (mistakable) mistaken.insert(request.question);
    }
  }
};

// Nothing of a session that was deleted is left. The answers' tokens: each trained once, or never,
// behind what it was drawn behind; every turn that a client saw is there; every question counts
// once.
void CheckSessions(const SimStore& store, const ClientLedger& ledger, World& world);

}  // namespace tidemill::sim
