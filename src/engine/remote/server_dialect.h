// What Tidemill asks of an inference server and what it answers, in the words of each kind of
// server. One file a kind (vllm_dialect.cc, sglang_dialect.cc); nothing else knows their routes.
//
//   TurnAsk -> HttpAsk -> server -> bytes -> ServedReader -> ServedPart
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "engine/engine.h"
#include "http/http_peer.h"

namespace tidemill {

struct TurnAsk {
  std::string id;                // unique among those under way at the server
  std::span<const TokenId> ids;  // all that stands before
  SamplingParams sampling;
  int32_t max_new_tokens = 1;
  std::span<const TokenId> stop_ids;
  uint64_t seed = 0;
  std::string salt;       // cached pages are shared by those who name the same
  bool live = false;      // before others in the server's queue
  bool as_drawn = false;  // somebody waits for each token
};

// Tokens [start, end) of an answer were drawn from the weights that the server calls `version`.
struct VersionSpan {
  std::string version;
  uint32_t start = 0;
  uint32_t end = 0;
};

enum class ServedEnd : uint8_t { kStop, kLength, kAbort };

// What came since the last part.
struct ServedPart {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  std::vector<std::vector<TokenLogprob>> top;  // empty unless asked for
  std::optional<ServedEnd> end;
  std::vector<VersionSpan> versions;  // of the whole answer; with its end
  std::optional<uint32_t> cached_tokens;
};

// Of one answer.
class ServedReader {
 public:
  virtual ~ServedReader() = default;
  // kUnavailable: the server reports a failure, or the bytes are none of such an answer.
  virtual Result<ServedPart> Read(std::string_view bytes) = 0;
  // The connection says that this was all.
  virtual Result<ServedPart> Finish() = 0;
};

// One version in a place the servers read: a safetensors file, and a model directory around it.
struct WeightFiles {
  uint64_t version = 0;
  std::string folder;    // config.json, model.safetensors
  std::string file;      // the latter
  uint64_t bytes = 0;    // of the file
  std::string checksum;  // XXH3, 64 bits, hex
};

// Fixed ids with the log-probability that the trainer's weights give to each but the first.
struct Canary {
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
};

// One call on a server's control routes.
struct ControlCall {
  enum class When : uint8_t {
    kBeside,  // generation goes on meanwhile
    kFrozen,  // generation stands still from the first such call to kResume
    kResume,
  };
  std::string what;  // for people: "prefetching"
  HttpAsk ask;
  When when = When::kBeside;
  bool may_fail = false;  // an answer other than 200 is as good
};

// What came of one: done, or ask the same again after a moment.
enum class ControlOutcome : uint8_t { kDone, kAgain };

struct ServerAbilities {
  int32_t max_context = 0;  // 0: the server did not say
};

class ServerDialect {
 public:
  virtual ~ServerDialect() = default;
  virtual std::string_view name() const = 0;

  // kInvalid: it cannot be drawn this way; names what.
  virtual Status Check(const TurnParams& turn) const = 0;
  // kInvalid: the server cannot keep this promise; names the config key that asks for it.
  virtual Status Check(CacheOnSwap cache) const = 0;

  virtual HttpAsk Generate(const TurnAsk& turn) const = 0;
  virtual std::unique_ptr<ServedReader> NewReader() const = 0;
  // The answer under way ends soon, with its tokens so far and their versions.
  virtual HttpAsk Abort(const std::string& turn_id) const = 0;

  // Asked in order of a server that nothing is known of; each answer is read before the next.
  virtual std::vector<ControlCall> Greeting() const = 0;
  // kUnavailable: not ready yet. kInvalid: it was started in a way that cannot serve; says how to.
  virtual Status ReadGreeting(size_t call, int status, const std::string& body,
                              ServerAbilities& abilities) const = 0;

  // From the weights it has to `files`. `repair`: an earlier update failed half-way.
  virtual std::vector<ControlCall> Update(const WeightFiles& files, CacheOnSwap cache,
                                          bool repair) const = 0;
  virtual Result<ControlOutcome> ReadUpdate(const ControlCall& call, int status,
                                            const std::string& body) const = 0;

  // The log-probabilities of `ids`; not from any cache.
  virtual HttpAsk Score(const std::vector<TokenId>& ids, const std::string& salt) const = 0;
  struct Scores {
    std::vector<float> logprobs;  // of all but the first
    std::string version;
  };
  // kInvalid: as ReadGreeting.
  virtual Result<Scores> ReadScore(int status, const std::string& body) const = 0;

  virtual HttpAsk Load() const = 0;
  // Requests that run or wait there; without: the answer does not say.
  virtual std::optional<uint32_t> ReadLoad(int status, const std::string& body) const = 0;
};

std::unique_ptr<ServerDialect> NewVllmDialect();
std::unique_ptr<ServerDialect> NewSglangDialect();

}  // namespace tidemill
