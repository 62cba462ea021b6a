// For tests, the simulator and benchmarks: an inference server that computes nothing. It answers as
// vLLM 0.32 and SGLang 0.5.23 do, draws what testing/ledger_backend.h says follows from its weights,
// and fails on command. It does no I/O and knows no time: somebody carries requests to it and steps
// it.
//
//   Ask(request, reply) -> reply: a head, pieces, an end        Step() draws a token for everybody
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/decode_backend.h"
#include "engine/remote/server_dialect.h"

namespace tidemill {

enum class ScriptedKind : uint8_t { kVllm, kSglang };

// Where the answer to one request goes.
class ScriptedReply {
 public:
  virtual ~ScriptedReply() = default;
  virtual void Send(int status, const std::string& type, const std::string& body) = 0;
  virtual void Begin() = 0;  // of a stream of events, status 200
  virtual void Write(const std::string& bytes) = 0;
  virtual void End() = 0;
  virtual void Cut() = 0;         // the connection breaks
  virtual bool gone() const = 0;  // the client closed it
};

struct ScriptedFaults {
  bool deaf = false;               // draws nothing
  bool label_only = false;         // an update changes the version it reports and nothing else
  bool half_update = false;        // an update loads half of the weights and says it is done
  int failing_updates = 0;         // so many answer 500 half-way
  int cut_after = 0;               // > 0: the next answers break off after so many tokens
  std::string false_version = {};  // reported for all tokens
  uint64_t span_shift = 0;         // reported versions are so much higher
};

// What a scripted server draws from instead of the ledger: a real policy, say.
class ScriptedModel {
 public:
  virtual ~ScriptedModel() = default;
  // From a safetensors file (vLLM) or a model directory (SGLang). False: it is none.
  virtual bool Load(const std::string& path) = 0;
  virtual Drawn Draw(std::span<const TokenId> before, double temperature, uint64_t seed) = 0;
  // Of all tokens but the first.
  virtual std::vector<float> Score(const std::vector<TokenId>& ids) = 0;
};

class ScriptedInference {
 public:
  struct Options {
    ScriptedKind kind = ScriptedKind::kVllm;
    int32_t vocabulary = 50;
    int32_t max_context = 4096;
    std::shared_ptr<ScriptedModel> model = nullptr;  // null: the ledger; shared with the test
  };
  explicit ScriptedInference(Options options);
  ~ScriptedInference();

  void Ask(const std::string& method, const std::string& target, const std::string& body,
           std::unique_ptr<ScriptedReply> reply);
  // A token for every request that runs. False: there is nothing to draw.
  bool Step();
  // The process dies: every connection breaks. Afterwards it is another one, with the weights and
  // the version it started with.
  void Restart();

  ScriptedFaults faults;
  size_t running() const { return requests_.size(); }
  uint64_t weights() const { return weights_; }
  bool paused() const { return paused_; }
  uint64_t drawn() const { return drawn_; }
  uint64_t torn_draws() const { return torn_draws_; }  // tokens drawn from half-loaded weights
  uint64_t loads() const { return loads_; }            // updates that were taken

  // What it draws and scores with weights number `weights`.
  static float ScoreOf(std::span<const TokenId> before, TokenId id, uint64_t weights);
  static Canary CanaryOf(std::vector<TokenId> ids, uint64_t weights);

 private:
  struct Request;
  using Json = nlohmann::json;

  void Generate(const Json& body, std::unique_ptr<ScriptedReply> reply);
  void Score(const Json& body, ScriptedReply& reply) const;
  bool ControlVllm(const std::string& target, const Json& body, ScriptedReply& reply);
  bool ControlSglang(const std::string& target, const Json& body, ScriptedReply& reply);
  bool Load(const std::string& path, ScriptedReply& reply);
  void Abort(const std::string& id);
  bool Draw(Request& request);
  void Tell(Request& request, size_t from, const std::string& end);
  uint32_t Cached(const std::string& salt, const std::vector<TokenId>& ids) const;
  void Keep(const Request& request);
  std::string VersionOf(uint64_t number) const;

  const Options options_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::map<std::string, std::vector<std::vector<TokenId>>> cache_;  // by salt
  uint64_t weights_ = 0;                                            // 0: those it started with
  std::string version_ = "default";
  bool paused_ = false, updating_ = false, torn_ = false;
  uint64_t drawn_ = 0, torn_draws_ = 0, loads_ = 0;
};

}  // namespace tidemill
