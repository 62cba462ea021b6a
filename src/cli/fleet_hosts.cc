// Fleets of processes with a keeper on each machine: this one, or those that ssh reaches.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/fleet_backend.h"
#include "cli/machine.h"
#include "core/child_process.h"
#include "core/fd.h"
#include "core/files.h"
#include "core/memory.h"
#include "core/secret.h"
#include "scale/launch/keeper.h"

namespace tidemill {
namespace {

constexpr uint16_t kRedisPort = 6390;
constexpr size_t kBusFileBytes = 4096;
constexpr size_t kOutputBytes = 16u << 20;  // the roster of some thousand workers
constexpr auto kCommandLimit = std::chrono::seconds(60);

uint32_t GpusHere() {
  uint32_t count = 0;
  while (access(("/dev/nvidia" + std::to_string(count)).c_str(), F_OK) == 0) ++count;
  return count;
}

Result<uint16_t> FreePort() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!fd || bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Unavailable("no port of this machine is free");
  }
  return ntohs(address.sin_port);
}

// "host" of "user@host".
std::string AddressOf(const std::string& host) {
  const size_t at = host.rfind('@');
  return at == std::string::npos ? host : host.substr(at + 1);
}

class Hosts final : public FleetBackend {
 public:
  explicit Hosts(FleetFile fleet) : fleet_(std::move(fleet)) {}

  Result<std::string> DryRun() override {
    TM_ASSIGN_OR_RETURN(const auto processes, Plan());
    std::string text;
    if (fleet_.bus_file.empty()) {
      text += Place(FirstHost()) +
              ShellLine({fleet_.redis_program, FolderOn(FirstHost()) + "/redis.conf"}) + "\n";
    }
    for (const FleetProcess& process : processes) {
      text += Place(process.host);
      for (const auto& [name, value] : process.environment)
        text += name + "=" + ShellWord(value) + " ";
      text += ShellLine(process.words) + "\n";
    }
    return text;
  }

  Status Start() override {
    TM_ASSIGN_OR_RETURN(const auto processes, Plan());
    TM_ASSIGN_OR_RETURN(auto specs, Specs(processes));
    std::vector<std::string> started;
    for (const auto& [host, spec] : specs) {
      Status status = StartOn(host, SpecText(spec));
      if (status.ok()) {
        started.push_back(host);
        continue;
      }
      for (const std::string& other : started) (void)StopOn(other);
      return host.empty() ? status : status.WithContext(host);
    }
    return Ok();
  }

  Result<std::vector<FleetState>> States() override {
    std::vector<FleetState> states;
    for (const std::string& host : AllHosts()) {
      Result<FleetState> state = StateOn(host);
      if (state.status().code() == Code::kNotFound) return state.status();
      if (!state.ok()) {
        // A host that does not answer may come back, with its processes.
        FleetState away;
        away.run = fleet_.run;
        away.host = host;
        away.phase = "not reached: " + state.status().message();
        away.kept = true;
        states.push_back(std::move(away));
        continue;
      }
      if (!host.empty()) state->host = host;
      states.push_back(std::move(*state));
    }
    return states;
  }

  // Of the first host: a Redis of ours is there, and another bus is reached from everywhere.
  Result<std::vector<WorkerHealth>> Roster() override {
    const std::string host = FirstHost(), folder = FolderOn(host);
    if (host.empty()) {
      TM_ASSIGN_OR_RETURN(const std::string text, RosterIn(folder));
      return ReadHealth(text);
    }
    TM_ASSIGN_OR_RETURN(const std::string text,
                        RunForOutput(Reach(host, ShellLine({FleetProgram(fleet_), "launch", "host",
                                                            "roster", folder}))));
    return ReadHealth(text);
  }

  Status Down() override {
    Status first = Ok();
    bool stopped = false;
    for (const std::string& host : AllHosts()) {
      const Status status = StopOn(host);
      stopped = stopped || status.ok();
      if (first.ok() && !status.ok()) first = host.empty() ? status : status.WithContext(host);
    }
    // On some hosts it may be over already.
    return stopped && first.code() == Code::kNotFound ? Ok() : first;
  }

  std::string LogOf(const FleetState& state, const std::string& process) override {
    const std::string host = fleet_.backend == "ssh" ? state.host : "";
    const std::string path = LogFile(FolderOn(host), process);
    const std::vector<std::string> words = {"tail", "-n", "5", path};
    const Result<std::string> end =
        host.empty() ? RunForOutput(words) : RunForOutput(Reach(host, ShellLine(words)));
    return (host.empty() ? "" : host + ":") + path + "\n" +
           (end.ok() ? *end : end.status().message());
  }

 private:
  std::string FirstHost() const { return fleet_.backend == "ssh" ? fleet_.ssh.hosts[0] : ""; }
  std::vector<std::string> AllHosts() const {
    if (fleet_.backend != "ssh") return {""};
    return fleet_.ssh.hosts;
  }
  std::string FolderOn(const std::string& host) const {
    return host.empty() ? fleet_.RunFolder() : fleet_.ssh.folder + "/" + fleet_.run;
  }
  static std::string Place(const std::string& host) { return host.empty() ? "" : host + ": "; }

  std::vector<std::string> Reach(const std::string& host, const std::string& line) const {
    std::vector<std::string> words = fleet_.ssh.command;
    words.push_back(host);
    words.push_back(line);
    return words;
  }

  Result<std::vector<FleetProcess>> Plan() const {
    return PlanFleet(fleet_, FleetProgram(fleet_),
                     {.gpus = GpusHere(), .memory_bytes = AvailableMemoryBytes()});
  }

  Result<FleetRedis> NewRedis() const {
    FleetRedis redis;
    redis.password = NewSecret();
    redis.port = static_cast<uint16_t>(fleet_.redis_port);
    redis.address = fleet_.redis_address;
    if (redis.address.empty()) {
      redis.address = fleet_.backend == "ssh" ? AddressOf(FirstHost()) : "127.0.0.1";
    }
    if (redis.port == 0 && fleet_.backend == "ssh") redis.port = kRedisPort;
    if (redis.port == 0) {
      TM_ASSIGN_OR_RETURN(redis.port, FreePort());
    }
    return redis;
  }

  // By host. All of them have a keeper, also one without processes: `down` asks them all.
  Result<std::map<std::string, KeeperSpec>> Specs(
      const std::vector<FleetProcess>& processes) const {
    std::string url, redis_config;
    if (fleet_.bus_file.empty()) {
      TM_ASSIGN_OR_RETURN(const FleetRedis redis, NewRedis());
      url = redis.Url();
      redis_config = redis.Config();
    } else {
      TM_ASSIGN_OR_RETURN(url, ReadBusFile(fleet_));
    }
    std::map<std::string, KeeperSpec> specs;
    for (const std::string& host : AllHosts()) {
      KeeperSpec& spec = specs[host];
      spec.run = fleet_.run;
      spec.bus_url = url;
      spec.directory = fleet_.directory;
      spec.redis_program = fleet_.redis_program;
      if (host == FirstHost()) spec.redis_config = redis_config;
    }
    for (const FleetProcess& process : processes) specs[process.host].processes.push_back(process);
    return specs;
  }

  Status StartOn(const std::string& host, const std::string& spec) const {
    const std::string folder = FolderOn(host);
    if (host.empty()) return StartKeeper(folder, spec, FleetProgram(fleet_));
    // The spec goes by standard input: it has a password.
    TM_RETURN_IF_ERROR(MakeDirectories(fleet_.RunFolder()));
    if (chmod(fleet_.RunFolder().c_str(), 0700) != 0) {
      return FileFailure(fleet_.RunFolder(), "cannot be closed to others", errno);
    }
    const std::string file = fleet_.RunFolder() + "/spec-of-a-host.json";
    TM_RETURN_IF_ERROR(WriteFileAtomically(file, spec));
    const std::string line = ShellLine({FleetProgram(fleet_), "launch", "host", "start", folder});
    const Result<std::string> said =
        RunForOutput({"sh", "-c", ShellLine(Reach(host, line)) + " <" + ShellWord(file)});
    unlink(file.c_str());
    return said.status();
  }

  Result<FleetState> StateOn(const std::string& host) const {
    if (host.empty()) return StateIn(FolderOn(host));
    TM_ASSIGN_OR_RETURN(const std::string text,
                        RunForOutput(Reach(host, ShellLine({FleetProgram(fleet_), "launch", "host",
                                                            "state", FolderOn(host)}))));
    return ReadState(text);
  }

  Status StopOn(const std::string& host) const {
    if (host.empty()) return StopKeeper(FolderOn(host));
    return RunForOutput(Reach(host, ShellLine({FleetProgram(fleet_), "launch", "host", "stop",
                                               FolderOn(host)})))
        .status();
  }

  const FleetFile fleet_;
};

}  // namespace

std::unique_ptr<FleetBackend> HostsBackend(const FleetFile& fleet) {
  return std::make_unique<Hosts>(fleet);
}

std::unique_ptr<FleetBackend> BackendFor(const FleetFile& fleet) {
  if (fleet.backend == "kubernetes") return KubernetesBackend(fleet);
  return fleet.backend == "slurm" ? JobsBackend(fleet) : HostsBackend(fleet);
}

std::string FleetProgram(const FleetFile& fleet) {
  return fleet.program.empty() ? ThisProgram() : fleet.program;
}

Result<std::string> ReadBusFile(const FleetFile& fleet) {
  struct stat about = {};
  if (stat(fleet.bus_file.c_str(), &about) != 0)
    return FileFailure(fleet.bus_file, "cannot open", errno);
  if ((about.st_mode & 077) != 0) {
    return Invalid(fleet.bus_file +
                   ": others may read this file, which has a password; chmod 600 " +
                   fleet.bus_file);
  }
  TM_ASSIGN_OR_RETURN(std::string url, ReadFileBounded(fleet.bus_file, kBusFileBytes));
  while (!url.empty() && std::isspace(static_cast<unsigned char>(url.back()))) url.pop_back();
  if (url.empty()) return Invalid(fleet.bus_file + ": is empty; expected the URL of a bus");
  return url;
}

Result<std::string> RunForOutput(const std::vector<std::string>& words) {
  ProcessOutput ran = RunProcess(words, kCommandLimit, kOutputBytes);
  if (!ran.started) return Unavailable(words[0] + " cannot be started; is it installed?");
  if (ran.timed_out) return Timeout(words[0] + " did not answer within a minute");
  if (ran.exit_code != 0) {
    return Unavailable(words[0] + " exited with status " + std::to_string(ran.exit_code) + ": " +
                       ran.output);
  }
  return std::move(ran.output);
}

}  // namespace tidemill
