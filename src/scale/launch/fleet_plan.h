// From a fleet file to processes: which words each is started with, on which host and GPUs. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_file.h"

namespace tidemill {

// A process that a keeper starts and starts again (keeper_book.h).
struct FleetProcess {
  std::string name;  // "rollout-2": of its log, and in what people are shown
  std::string role;  // "redis", or a worker's
  std::string host;  // empty: this machine
  std::vector<std::string> words;
  // Beside the bus and the run, which all have.
  std::vector<std::pair<std::string, std::string>> environment;
};

// The Redis of a fleet that brings its own.
struct FleetRedis {
  std::string address;
  uint16_t port = 0;
  std::string password;
  std::string Url() const;
  // The text of its config file, without the folder of its data: that is the keeper's.
  std::string Config() const;
  // The same, with the addresses it listens on.
  std::string Config(const std::string& bind) const;
};

struct MachineRoom {
  uint32_t gpus = 0;
  uint64_t memory_bytes = 0;  // 0: not known
};

// Workers of a local or ssh fleet, the learner first. GPUs are handed out by index, on each host
// from 0. kInvalid: `here` has less than a local fleet asks for; what other hosts have is not
// known here.
Result<std::vector<FleetProcess>> PlanFleet(const FleetFile& fleet, const std::string& program,
                                            const MachineRoom& here);

// The words of one worker.
std::vector<std::string> WorkerWords(const FleetFile& fleet, const FleetWorkers& workers,
                                     const std::string& program);

// As a shell reads it again: 'a b' for a b.
std::string ShellWord(const std::string& word);
std::string ShellLine(const std::vector<std::string>& words);

}  // namespace tidemill
