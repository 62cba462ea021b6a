// Environments that others wrote, as episodes. A driver knows one standard and does no I/O: what
// arrives goes in, what to do next comes out. The runner (environment_runner.h) does it.
//
//   Begin -> CallEnvironment | Await (bytes to send in TakeOutput) | AskModel | EndEpisode
//   OnAnswer, OnBytes, OnModel -> the next of these
//
// A new standard is a file with its class and its row in environment_driver.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/fate.h"
#include "core/random.h"
#include "core/status.h"
#include "environments/environment_json.h"
#include "http/http_peer.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

// What an episode begins with.
struct EpisodeSheet {
  const v1::Task& task;
  HttpUrl server;    // the environment's
  std::string name;  // of the environment, in rewards
  std::string mode;  // what of the standard it speaks (StandardRow::modes)
  uint32_t max_turns = 1;
  uint32_t max_turn_tokens = 512;
  double temperature = 1;
  uint64_t seed = 0;
  std::string model_url{};  // the gateway's, for an environment that asks the model itself
  std::string model_key{};  // of this episode
};

// What to do next; one thing at a time.
struct CallEnvironment {
  HttpAsk ask;
  bool whole_episode = false;  // it answers at the episode's end
};
struct AskModel {
  std::string path;  // of the gateway
  EnvironmentJson body;
};
struct Await {};  // bytes from the environment
// One conversation with the model that the environment led itself, as it says. Held against what
// the gateway recorded: an episode where they differ is not trained on.
struct ClaimedTalk {
  std::string id;      // what its requests named it, in the header x-session-id
  std::string player;  // who led it
  bool trained = true;
  uint32_t answers = 0;                           // of the model
  std::vector<std::vector<uint32_t>> drawn = {};  // ids of each; empty: it did not see any
};
struct EndEpisode {
  v1::EnvironmentReward reward;
  std::string words;                 // how it ended, for people
  std::vector<ClaimedTalk> talks{};  // empty: the driver led the only one
};
struct FailEpisode {
  Failure failure = Failure::kEnvironment;
  std::string why;
};
using DriverStep = std::variant<CallEnvironment, AskModel, Await, EndEpisode, FailEpisode>;

struct EnvironmentAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // of the head, names in lower case
  std::string body;
};

// Belongs to one thread. Nothing is called after an EndEpisode or a FailEpisode.
class EpisodeDriver {
 public:
  virtual ~EpisodeDriver() = default;
  // Whether it needs a connection that stays; then Begin is called once there is one.
  virtual bool UsesStream() const { return false; }
  virtual DriverStep Begin() = 0;
  // To a CallEnvironment.
  virtual DriverStep OnAnswer(const EnvironmentAnswer& answer) = 0;
  // To an AskModel. A status other than 200: the gateway refused; the episode is over its limits,
  // or its turn was lost, which the session knows.
  virtual DriverStep OnModel(const EnvironmentAnswer& answer) = 0;
  // Whether the environment asks the model itself; then its waiting for an answer is no silence,
  // and what it asks beyond the episode's limits is refused, which may be its end.
  virtual bool AsksModelItself() const { return false; }
  // Nothing: what is under way goes on.
  virtual std::optional<DriverStep> OnBytes(std::string_view) { return std::nullopt; }
  // What is to be sent on the stream, since the last call.
  virtual std::string TakeOutput() { return {}; }
  // The episode is given up: what tells the environment so, on the stream.
  virtual std::string Farewell() { return {}; }
  // The agent's own mistakes since the last call; they are results, and counted.
  virtual uint32_t TakeBadActions() { return 0; }
};

// Of a server: http://HOST:PORT[/PATH], or tcp://HOST:PORT where it speaks ZeroMQ. kInvalid says
// what is wrong.
Result<HttpUrl> ParseEnvironmentUrl(std::string_view text);

struct StandardRow {
  std::string_view name;                // in the config
  std::vector<std::string_view> modes;  // the first is the default; empty: it has one
  std::unique_ptr<EpisodeDriver> (*make)(EpisodeSheet sheet);
};
// kInvalid: the standard has no such mode. An empty one is the first.
Status CheckMode(const StandardRow& standard, std::string_view mode);
// nullptr: none has this name.
const StandardRow* StandardNamed(std::string_view name);

std::unique_ptr<EpisodeDriver> NewOpenEnvDriver(EpisodeSheet sheet);
std::unique_ptr<EpisodeDriver> NewNemoGymDriver(EpisodeSheet sheet);
std::unique_ptr<EpisodeDriver> NewVerifiersDriver(EpisodeSheet sheet);

}  // namespace tidemill
