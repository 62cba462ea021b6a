// A conversation as the simulated client that leads it knows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/random.h"
#include "gateway/chat_request.h"
#include "gateway/tenant.h"

namespace tidemill::sim {

// How often clients do what is not expected of them.
struct ClientHabits {
  double loss = 0;    // an answer does not arrive
  double leave = 0;   // before the end
  double twice = 0;   // a question is sent twice
  double edit = 0;    // the conversation is altered
  double again = 0;   // the same is asked once more on purpose
  double react = 0;   // they say what they think of an answer
  double regret = 0;  // and have the session deleted

  void Draw(Random& random) {
    loss = random.Chance(0.5) ? 0 : 0.1 * random.Uniform();
    leave = random.Chance(0.5) ? 0 : 0.3 * random.Uniform();
    twice = random.Chance(0.5) ? 0 : 0.3 * random.Uniform();
    edit = random.Chance(0.5) ? 0 : 0.4 * random.Uniform();
    again = random.Chance(0.5) ? 0 : 0.2 * random.Uniform();
    react = random.Chance(0.2) ? 0 : random.Uniform();
    regret = random.Chance(0.5) ? 0 : random.Uniform();
  }
};

// One line of a conversation. A client with two of them goes on from two places of one session.
struct ClientThread {
  std::string session;  // the header's; empty: the client names none
  std::string tenant;
  std::string speaker;  // makes its messages its own
  WireJson history = WireJson::array();
  int questions_left = 0;
  // The question that is open.
  uint64_t question = 0;
  bool answered = true;
  bool end = false;   // the session ends with it
  bool lost = false;  // an answer did not arrive: the client knows that it sends again
  int arriving = 0;   // answers that the server is done with and the client has not seen
  int open_requests = 0;
  bool haunted = false;  // it repeats answers that were deleted; they may be taken for others
  int asked_in = 0;      // which incarnation of the server
  // The next prompt must go on from this answer; empty: anything goes.
  std::string exact;
  uint64_t edits = 0;

  Tenant Owner() const { return {.name = tenant, .consent = Consent::kTrain}; }
  // A message in the middle is altered, or the end is cut off. 0: there is too little to edit.
  uint64_t Edit(Random& random) {
    if (history.size() < 3) return 0;
    const size_t at = 1 + random.Below(history.size() - 1);
    if (random.Chance(0.5)) {
      history[at]["content"] = speaker + " edited " + std::to_string(++edits);
    } else {
      while (history.size() > at) history.erase(history.size() - 1);
    }
    exact.clear();
    return 1;
  }
};

// One or two lines of a client's conversation.
inline void AddThreads(uint64_t client, Random& random, std::vector<ClientThread>& threads) {
  const uint64_t lines = random.Chance(0.6) ? 1 : 2;
  const bool named = lines > 1 || random.Chance(0.5);
  for (uint64_t line = 0; line < lines; ++line) {
    ClientThread& thread = threads.emplace_back();
    if (named) thread.session = "client-" + std::to_string(client);
    thread.tenant = "tenant" + std::to_string(client % 2);
    thread.speaker = "c" + std::to_string(client) + "." + std::to_string(line);
    thread.questions_left = static_cast<int>(1 + random.Below(6));
    // Two lines of one client begin alike.
    const std::string first = "system of " + std::to_string(client);
    thread.history.push_back({{"role", "system"}, {"content", first}});
  }
}

}  // namespace tidemill::sim
