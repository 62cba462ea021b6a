// LoRA adapters that are served beside the model, each under a name that requests give as their
// "model". They come and go while the server runs.
//
//   POST /v1/load_lora_adapter -> file -> EnginePort::Publish -> a request's "model" -> its policy
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "engine/engine_port.h"
#include "gateway/api_error.h"
#include "http/http_message.h"

namespace tidemill {

// As vLLM has them.
inline constexpr const char* kLoadAdapterPath = "/v1/load_lora_adapter";
inline constexpr const char* kUnloadAdapterPath = "/v1/unload_lora_adapter";

struct ServedAdapterOptions {
  std::string model{};  // the name of the model itself
  uint32_t most = 0;    // adapters at once
  // They may load files of this machine. Else only its operator does, or the run whose they are.
  bool by_clients = true;
};

// Thread-safe.
class ServedAdapters {
 public:
  // The model with the adapter of a PEFT directory. Any thread.
  using Load = std::function<Result<std::shared_ptr<const Weights>>(const std::string& path)>;
  // `engine` must outlive it.
  ServedAdapters(EnginePort& engine, Load load, ServedAdapterOptions options);

  // One that the engine has already, whoever publishes its versions.
  void AddKnown(const std::string& name, PolicyId policy);
  // Returns when requests may name it. kExists: the name is taken. kFull: there are as many as may
  // be. Else as `load` and EnginePort::Publish fail.
  Status Add(const std::string& name, const std::string& path);
  // As Add, in the place of the one that has the name. What `load` refuses changes nothing.
  Status Replace(const std::string& name, const std::string& path);
  // Answers under way go on with it. kNotFound: there is none.
  Status Remove(const std::string& name);

  // The adapter's policy; nothing: no adapter has the name.
  std::optional<PolicyId> Find(const std::string& name) const;
  std::vector<std::string> names() const;
  // A request named what nobody serves, and the model answers: the log has each name once.
  void NoteUnknown(const std::string& model);

  // A POST to one of the two paths. The line of text that answers it; nothing: `error` says why.
  std::optional<std::string> Answer(const HttpRequest& request, ApiError& error);

 private:
  struct Adapter {
    PolicyId policy{};
    bool ready = false;  // else it is on its way
  };

  Status Publish(const std::string& name,
                 const std::function<Result<std::shared_ptr<const Weights>>()>& load);
  Status Change(const HttpRequest& request, std::string& done);

  EnginePort& engine_;
  const Load load_;
  const ServedAdapterOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Adapter> adapters_ TM_GUARDED_BY(mutex_);
  uint32_t last_policy_ TM_GUARDED_BY(mutex_) = 0;  // numbers are not used again
  std::set<std::string> unknown_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
