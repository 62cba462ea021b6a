// An EnginePort over inference servers: `engine.backend = "vllm"` or `"sglang"`.
//
//   commands --> wire thread: RemoteTurns over HttpPool --> events(), feed()
//   WeightChannel --> weights thread: `prepare` (files, canary) --> RemoteServer, one for each
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/metrics.h"
#include "engine/engine_port.h"
#include "engine/remote/remote_options.h"
#include "engine/remote/remote_turns.h"
#include "engine/remote/server_processes.h"
#include "weights/weight_channel.h"

namespace tidemill {

class RemoteEngine final : public EnginePort {
 public:
  // Writes a version for servers and scores its canary; slow, on the weights thread.
  using Prepare = std::function<Result<VersionPointer>(const PublishedWeights&)>;

  struct Servers {
    std::unique_ptr<ServerDialect> dialect;
    std::vector<HttpUrl> urls{};                 // of servers that run already
    std::optional<ServerProcesses> processes{};  // or those of this engine
    Duration start_patience = std::chrono::minutes(10);
  };

  // Returns when a server serves `first`. kInvalid: a server was started in a way that cannot
  // serve. kUnavailable: none serves in time. Both say which and why.
  static Result<std::unique_ptr<RemoteEngine>> Start(Servers servers, RemoteOptions options,
                                                     PublishedWeights first, Prepare prepare,
                                                     WeightChannel& channel, const Clock& clock);
  ~RemoteEngine() override;

  void Start(SequenceStart start) override;
  void Continue(SequenceId id, std::vector<TokenId> append, TurnParams turn) override;
  void Release(SequenceId id) override;
  void ForgetTenant(uint64_t tenant) override;
  Mailbox<EngineEvent>& events() override;
  TurnFeed& feed() override;
  uint64_t version() const override;
  EngineStats Stats() const override;

  int32_t max_context() const;
  // Of the wire thread.
  const BusyMeter& busy() const;
  Duration cpu() const;

 private:
  class Impl;
  explicit RemoteEngine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tidemill
