#include "scale/launch/fleet_state.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/child_process.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

const std::string kEndInOrder = HowItEnded(0);

const char* PhaseName(FleetPhase phase) {
  switch (phase) {
    case FleetPhase::kRunning:
      return "running";
    case FleetPhase::kFinishing:
      return "finishing";
    case FleetPhase::kStopping:
      return "stopping";
    case FleetPhase::kOver:
      return "over";
  }
  return "";
}

const char* StateName(KeptState state) {
  switch (state) {
    case KeptState::kWaiting:
      return "waiting";
    case KeptState::kRunning:
      return "running";
    case KeptState::kEnded:
      return "ended";
    case KeptState::kFailed:
      return "failed";
  }
  return "";
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

std::string SpecText(const KeeperSpec& spec) {
  Json json = {{"run", spec.run},
               {"bus_url", spec.bus_url},
               {"directory", spec.directory},
               {"redis_config", spec.redis_config},
               {"redis_program", spec.redis_program}};
  json["processes"] = Json::array();
  for (const FleetProcess& process : spec.processes) {
    json["processes"].push_back({{"name", process.name},
                                 {"role", process.role},
                                 {"words", process.words},
                                 {"environment", process.environment}});
  }
  return json.dump(1) + "\n";
}

Result<KeeperSpec> ReadSpec(const std::string& text) try {
  const Json json = Json::parse(text);
  KeeperSpec spec;
  json.at("run").get_to(spec.run);
  json.at("bus_url").get_to(spec.bus_url);
  json.at("directory").get_to(spec.directory);
  json.at("redis_config").get_to(spec.redis_config);
  json.at("redis_program").get_to(spec.redis_program);
  for (const Json& one : json.at("processes")) {
    FleetProcess process;
    one.at("name").get_to(process.name);
    one.at("role").get_to(process.role);
    one.at("words").get_to(process.words);
    one.at("environment").get_to(process.environment);
    if (process.words.empty() || !IsFleetName(process.name)) {
      return Invalid("the fleet's spec: a process without a name or words");
    }
    spec.processes.push_back(std::move(process));
  }
  return spec;
} catch (const nlohmann::json::exception& error) {
  return Invalid(std::string("the fleet's spec: ") + error.what());
}

FleetState StateOf(const std::string& run, const KeeperBook& book) {
  FleetState state;
  state.run = run;
  state.host = HostName();
  state.phase = PhaseName(book.phase());
  state.over = book.phase() == FleetPhase::kOver;
  state.failure = book.failure();
  for (const KeptProcess& process : book.processes()) {
    const bool ended_badly = !process.last_end.empty() && process.last_end != kEndInOrder;
    const bool died = process.state == KeptState::kFailed ||
                      (book.phase() == FleetPhase::kRunning && ended_badly);
    state.processes.push_back({process.name, process.role, StateName(process.state), process.pid,
                               process.starts, process.last_end, died});
  }
  return state;
}

std::string StateText(const FleetState& state) {
  Json json = {{"run", state.run},   {"host", state.host},       {"phase", state.phase},
               {"over", state.over}, {"failure", state.failure}, {"kept", state.kept}};
  json["processes"] = Json::array();
  for (const ProcessState& process : state.processes) {
    json["processes"].push_back({{"name", process.name},
                                 {"role", process.role},
                                 {"state", process.state},
                                 {"pid", process.pid},
                                 {"starts", process.starts},
                                 {"last_end", process.last_end},
                                 {"died", process.died}});
  }
  return json.dump() + "\n";
}

Result<FleetState> ReadState(const std::string& text) try {
  const Json json = Json::parse(text);
  FleetState state;
  json.at("run").get_to(state.run);
  json.at("host").get_to(state.host);
  json.at("phase").get_to(state.phase);
  json.at("over").get_to(state.over);
  json.at("failure").get_to(state.failure);
  json.at("kept").get_to(state.kept);
  for (const Json& one : json.at("processes")) {
    ProcessState process;
    one.at("name").get_to(process.name);
    one.at("role").get_to(process.role);
    one.at("state").get_to(process.state);
    one.at("pid").get_to(process.pid);
    one.at("starts").get_to(process.starts);
    one.at("last_end").get_to(process.last_end);
    one.at("died").get_to(process.died);
    state.processes.push_back(std::move(process));
  }
  return state;
} catch (const nlohmann::json::exception& error) {
  return Corrupt(std::string("the fleet's state: ") + error.what());
}

std::string SpecFile(const std::string& folder) {
  return folder + "/spec.json";
}
std::string StateFile(const std::string& folder) {
  return folder + "/state.json";
}
std::string LockFile(const std::string& folder) {
  return folder + "/keeper.lock";
}
std::string LogFile(const std::string& folder, const std::string& process) {
  return folder + "/" + process + ".log";
}

}  // namespace tidemill
