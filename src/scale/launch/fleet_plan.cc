#include "scale/launch/fleet_plan.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace tidemill {
namespace {

// What a worker's share of cores means to its role.
void AddCores(const FleetWorkers& workers, std::vector<std::string>& words) {
  if (workers.cores == 0) return;
  const std::string cores = std::to_string(workers.cores);
  const char* key = workers.role == "learner"   ? "threads.trainer="
                    : workers.role == "rollout" ? "threads.engine="
                    : workers.role == "tools"   ? "tools.slots="
                                                : nullptr;
  if (key != nullptr) words.insert(words.end(), {"--set", key + cores});
}

// The learner is started first, and first is where a reader looks for it.
std::vector<FleetWorkers> LearnerFirst(std::vector<FleetWorkers> groups) {
  std::stable_partition(groups.begin(), groups.end(),
                        [](const FleetWorkers& group) { return group.role == "learner"; });
  return groups;
}

Status CheckRoom(const FleetFile& fleet, const MachineRoom& here) {
  uint64_t gpus = 0, memory_gb = 0;
  for (const FleetWorkers& workers : fleet.workers) {
    gpus += uint64_t{workers.count} * workers.gpus;
    memory_gb += uint64_t{workers.count} * workers.memory_gb;
  }
  if (gpus > here.gpus) {
    return Invalid("workers: they ask for " + std::to_string(gpus) + " GPUs, this machine has " +
                   std::to_string(here.gpus));
  }
  if (here.memory_bytes != 0 && (memory_gb << 30) > here.memory_bytes) {
    return Invalid("workers: they ask for " + std::to_string(memory_gb) +
                   " GB of memory, this machine has " + std::to_string(here.memory_bytes >> 30));
  }
  return Ok();
}

}  // namespace

std::string FleetRedis::Url() const {
  return "redis://:" + password + "@" + address + ":" + std::to_string(port) + "/0";
}

std::string FleetRedis::Config() const {
  return Config(address == "127.0.0.1" ? address : "127.0.0.1 " + address);
}

std::string FleetRedis::Config(const std::string& bind) const {
  return "bind " + bind + "\nport " + std::to_string(port) + "\nrequirepass " + password +
         "\nappendonly yes\nsave \"\"\nmaxmemory-policy noeviction\n" +
         "proto-max-bulk-len 134217728\ndaemonize no\n";
}

std::vector<std::string> WorkerWords(const FleetFile& fleet, const FleetWorkers& workers,
                                     const std::string& program) {
  std::vector<std::string> words = {program, "worker", workers.role};
  if (workers.role == "learner") {
    words.insert(words.end(), {fleet.config, "--resume", "--json"});
    for (const std::string& set : fleet.set) words.insert(words.end(), {"--set", set});
  }
  AddCores(workers, words);
  for (const std::string& set : workers.set) words.insert(words.end(), {"--set", set});
  return words;
}

Result<std::vector<FleetProcess>> PlanFleet(const FleetFile& fleet, const std::string& program,
                                            const MachineRoom& here) {
  if (fleet.backend == "local") TM_RETURN_IF_ERROR(CheckRoom(fleet, here));
  std::vector<FleetProcess> processes;
  std::map<std::string, uint32_t> next_gpu, next_number;
  for (const FleetWorkers& workers : LearnerFirst(fleet.workers)) {
    std::vector<std::string> hosts = workers.hosts.empty() ? fleet.ssh.hosts : workers.hosts;
    if (fleet.backend != "ssh") hosts = {""};
    // Redis is beside the learner, so that a learner without a network has its bus.
    if (workers.role == "learner") hosts.resize(1);
    for (uint32_t i = 0; i < workers.count; ++i) {
      FleetProcess process;
      process.role = workers.role;
      process.name = workers.role + "-" + std::to_string(++next_number[workers.role]);
      process.host = hosts[i % hosts.size()];
      process.words = WorkerWords(fleet, workers, program);
      if (workers.gpus > 0) {
        std::string indices;
        for (uint32_t g = 0; g < workers.gpus; ++g) {
          indices += (g == 0 ? "" : ",") + std::to_string(next_gpu[process.host]++);
        }
        process.environment.emplace_back("CUDA_VISIBLE_DEVICES", indices);
      }
      processes.push_back(std::move(process));
    }
  }
  return processes;
}

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("%+,-./:=@_").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + ShellWord(word);
  return line;
}

}  // namespace tidemill
