// The turns of a remote engine: whole histories, which server works on which, and what came back.
//
//   Start, Continue -> queue -> a server -> parts of its answer -> events(), or feed()
//
// The history of every sequence is here, so a lost server costs a turn's time: it is asked of
// another one with the same seed. A streamed turn of which tokens were told already fails instead.
// Versions come from the spans of an answer; one that the server cannot have is an answer that
// counts for nothing.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/mailbox.h"
#include "engine/engine_port.h"
#include "engine/remote/remote_server.h"
#include "engine/remote/server_dialect.h"
#include "engine/sequence.h"
#include "engine/turn_feed.h"

namespace tidemill {

// Belongs to one thread, but for events and feed. Time comes only from the caller.
class RemoteTurns final : public HttpCallUser, public ServerWatch {
 public:
  // `beyond_repair` is told the index of a server that should be replaced; may be empty. What is
  // given by reference must outlive it.
  RemoteTurns(std::vector<HttpUrl> servers, const ServerDialect& dialect, HttpCalls& calls,
              RemoteOptions options, std::function<void(size_t)> beyond_repair = {});
  ~RemoteTurns() override;

  void Start(SequenceStart start);
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn);
  void Release(SequenceId id);
  void ForgetTenant(uint64_t tenant) { ++forgotten_[tenant]; }

  // Does what is due and tells what came; returns when to be called again at the latest. `newest`:
  // the newest version that is ready for servers; `published`: the newest there is.
  Time Step(Time now, const VersionPointer& newest, uint64_t published);

  Mailbox<EngineEvent>& events() { return events_; }
  TurnFeed& feed() { return feed_; }
  EngineStats Stats() const;
  // The newest version that serves.
  uint64_t version() const;
  size_t size() const { return servers_.size(); }
  RemoteServer& server(size_t i) { return *servers_[i].server; }
  const RemoteServer& server(size_t i) const { return *servers_[i].server; }
  // Of all servers and the options: the least; 0: not known yet.
  int32_t max_context() const;

  void OnPiece(HttpCallId call, int status, std::string_view bytes) override;
  void OnEnd(HttpCallId call, const Result<int>& status) override;
  void OnTrial(size_t server) override;
  void OnPassed(size_t server) override;
  void OnLost(size_t server, const Status& why) override;
  void OnBeyondRepair(size_t server) override;

 private:
  struct Turn;
  struct Place {
    std::unique_ptr<RemoteServer> server;
    std::set<SequenceId> asked{};  // turns under way there
  };

  Status CheckStart(const SequenceStart& start) const;
  void Enqueue(Turn& turn);
  std::deque<SequenceId>& QueueOf(const Turn& turn);
  void Dispatch(Time now);
  std::optional<size_t> Choose(const Turn& turn) const;
  bool MayStartAt(size_t server) const;
  void AskServer(Turn& turn, size_t server);
  std::string SaltOf(const Turn& turn, uint64_t version) const;
  void GiveUpWaiting(Time now);

  // remote_answers.cc
  // kUnavailable: the answer has what cannot be.
  Status Apply(Turn& turn, ServedPart part);
  void EndCall(Turn& turn, const Result<int>& status);
  void Conclude(Turn& turn);
  // The runs of the turn's tokens; a failure says what cannot be.
  Result<std::vector<TokenVersionRun>> RunsOf(const Turn& turn) const;
  void LeaveServer(Turn& turn);
  void Again(Turn& turn, const Status& why);
  void Tell(Turn& turn, bool done);
  void Fail(SequenceId id, const Status& status);
  void Answer(SequenceId id, bool stream, const Status& status);

  const ServerDialect& dialect_;
  HttpCalls& calls_;
  const RemoteOptions options_;
  const std::function<void(size_t)> beyond_repair_;
  std::vector<Place> servers_;
  std::unordered_map<SequenceId, std::unique_ptr<Turn>> turns_;
  std::unordered_map<HttpCallId, SequenceId> call_of_;
  std::deque<SequenceId> waiting_live_, waiting_training_;
  std::unordered_map<uint64_t, uint64_t> forgotten_;  // times, by tenant
  VersionPointer newest_;
  uint64_t published_ = 0;
  Time now_ = Time::min();
  Time served_at_ = Time::min();  // a server last served
  std::vector<TurnDelta> deltas_;
  Mailbox<EngineEvent> events_;
  TurnFeed feed_;
  EngineStats stats_;
  uint64_t asks_ = 0;
};

}  // namespace tidemill
