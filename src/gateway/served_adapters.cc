#include "gateway/served_adapters.h"

#include <algorithm>
#include <future>
#include <utility>

#include "core/log.h"
#include "core/text.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kUnknownMax = 1000;  // names are from outside
constexpr size_t kShownBytes = 100;
constexpr size_t kAdapterNameMax = 256;

Result<std::string> TextField(const WireJson& body, const char* name) {
  const auto field = body.find(name);
  if (field == body.end() || !field->is_string() || field->get<std::string>().empty()) {
    return Invalid(std::string("\"") + name + "\" must be a text");
  }
  return field->get<std::string>();
}

int StatusOfChange(const Status& status) {
  switch (status.code()) {
    case Code::kNotFound:
      return 404;
    case Code::kInvalid:
    case Code::kExists:
    case Code::kCorrupt:
      return 400;
    default:
      return 503;
  }
}

// The engine answers from its own threads, or inside of the call.
Status Await(const std::function<void(std::function<void(Status)>)>& ask) {
  auto promise = std::make_shared<std::promise<Status>>();  // shared with the answer
  std::future<Status> answered = promise->get_future();
  ask([promise](Status status) { promise->set_value(std::move(status)); });
  return answered.get();
}

}  // namespace

ServedAdapters::ServedAdapters(EnginePort& engine, Load load, ServedAdapterOptions options)
    : engine_(engine), load_(std::move(load)), options_(std::move(options)) {}

void ServedAdapters::AddKnown(const std::string& name, PolicyId policy) {
  MutexLock lock(mutex_);
  adapters_[name] = {.policy = policy, .ready = true};
  last_policy_ = std::max(last_policy_, static_cast<uint32_t>(policy));
}

Status ServedAdapters::Add(const std::string& name, const std::string& path) {
  return Publish(name, [&] { return load_(path); });
}

Status ServedAdapters::Replace(const std::string& name, const std::string& path) {
  // What cannot be read leaves the old one where it is.
  TM_ASSIGN_OR_RETURN(const std::shared_ptr<const Weights> weights, load_(path));
  const Status removed = Remove(name);
  if (!removed.ok() && removed.code() != Code::kNotFound) return removed;
  return Publish(name, [&] { return weights; });
}

Status ServedAdapters::Publish(
    const std::string& name,
    const std::function<Result<std::shared_ptr<const Weights>>()>& load) {
  if (name.size() > kAdapterNameMax) return Invalid("\"lora_name\" is too long");
  PolicyVersion version{.version = 1};
  {
    MutexLock lock(mutex_);
    if (name == options_.model || adapters_.contains(name)) {
      return Exists("The name \"" + name + "\" is taken; unload it first");
    }
    if (adapters_.size() >= options_.most) {
      return Full("There are " + std::to_string(adapters_.size()) +
                  " adapters, as many as the server was started for (--max-loras)");
    }
    version.policy = PolicyId{++last_policy_};
    adapters_[name].policy = version.policy;
  }
  Result<std::shared_ptr<const Weights>> weights = load();
  Status added = weights.status();
  if (added.ok()) {
    added = Await([&](std::function<void(Status)> done) {
      engine_.Publish(version, std::move(*weights), std::move(done));
    });
  }
  MutexLock lock(mutex_);
  if (added.ok()) {
    adapters_[name].ready = true;
  } else {
    adapters_.erase(name);
  }
  return added;
}

Status ServedAdapters::Remove(const std::string& name) {
  PolicyId policy{};
  {
    MutexLock lock(mutex_);
    const auto it = adapters_.find(name);
    if (it == adapters_.end() || !it->second.ready) {
      return NotFound("There is no adapter \"" + name + "\"");
    }
    policy = it->second.policy;
    adapters_.erase(it);
  }
  return Await(
      [&](std::function<void(Status)> done) { engine_.DropPolicy(policy, std::move(done)); });
}

std::optional<PolicyId> ServedAdapters::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  const auto it = adapters_.find(name);
  if (it == adapters_.end() || !it->second.ready) return std::nullopt;
  return it->second.policy;
}

std::vector<std::string> ServedAdapters::names() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, adapter] : adapters_) {
    if (adapter.ready) names.push_back(name);
  }
  return names;
}

void ServedAdapters::NoteUnknown(const std::string& model) {
  MutexLock lock(mutex_);
  if (unknown_.size() >= kUnknownMax || !unknown_.insert(model).second) return;
  LogWarn("a request names a model that is not served; the server's own answers",
          {{"model", Beginning(model, kShownBytes)}});
}

Status ServedAdapters::Change(const HttpRequest& request, std::string& done) {
  TM_ASSIGN_OR_RETURN(const WireJson body, ParseWire(request.body, {}));
  if (!body.is_object()) return Invalid("The body must be an object");
  TM_ASSIGN_OR_RETURN(const std::string name, TextField(body, "lora_name"));
  if (request.path == kUnloadAdapterPath) {
    done = "Success: LoRA adapter '" + name + "' removed successfully.";
    return Remove(name);
  }
  TM_ASSIGN_OR_RETURN(const std::string path, TextField(body, "lora_path"));
  const auto in_place = body.find("load_inplace");
  done = "Success: LoRA adapter '" + name + "' added successfully.";
  return in_place != body.end() && *in_place == true ? Replace(name, path) : Add(name, path);
}

std::optional<std::string> ServedAdapters::Answer(const HttpRequest& request, ApiError& error) {
  if (!options_.by_clients) {
    error = {.status = 403,
             .message = "The adapters of this server are those that it was started with"};
    return std::nullopt;
  }
  std::string done;
  const Status changed = Change(request, done);
  if (changed.ok()) return done;
  error = {.status = StatusOfChange(changed), .message = changed.message()};
  return std::nullopt;
}

}  // namespace tidemill
