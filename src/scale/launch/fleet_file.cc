#include "scale/launch/fleet_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "config/config.h"

namespace tidemill {
namespace {

constexpr double kWorkersMax = 4096;

void BindWorkers(Binder& b, FleetWorkers& w) {
  b.Add("role", &w.role,
        {.doc = "Role of these workers",
         .choices = {"learner", "rollout", "tools", "reward"},
         .required = true});
  b.Add("count", &w.count, {.doc = "Number of workers", .min = 1, .max = kWorkersMax});
  b.Add("hosts", &w.hosts, {.doc = "ssh: hosts they are spread over; empty: ssh.hosts"});
  b.Add("gpus", &w.gpus, {.doc = "GPUs of each worker", .max = 64});
  b.Add("cores", &w.cores,
        {.doc = "Cores of each worker: its threads, a tool worker's slots, and what Slurm is asked "
                "for; 0: the program decides",
         .max = 4096});
  b.Add("memory_gb", &w.memory_gb,
        {.doc = "Memory of each worker: what Slurm is asked for, and what a local fleet may not "
                "exceed; 0: not given",
         .max = 65536});
  b.Add("set", &w.set, {.doc = "Config keys of these workers alone, a.b=c"});
}

void BindKubernetes(FleetKubernetes& k, Binder& b) {
  b.Add("kubernetes.command", &k.command, {.doc = "kubectl and its options", .min = 1});
  b.Add("kubernetes.namespace", &k.name_space, {.doc = "Namespace, which is there"});
  b.Add("kubernetes.image", &k.image, {.doc = "Image of the workers (deploy/Dockerfile)"});
  b.Add("kubernetes.redis_image", &k.redis_image, {.doc = "Image of a Redis that is started"});
  b.Add("kubernetes.secret", &k.secret,
        {.doc = "Secret with a URL for each role, keys and certificate, as deploy/secrets.sh makes "
                "it; empty: one is made with the fleet"});
  b.Add("kubernetes.claim", &k.claim,
        {.doc = "Volume claim of the learner for /runs; empty: one is made"});
  b.Add("kubernetes.storage_class", &k.storage_class,
        {.doc = "Storage class of the claims that are made; empty: the cluster's default"});
  b.Add("kubernetes.storage_gb", &k.storage_gb,
        {.doc = "Size of the claim for /runs", .min = 1, .max = 1048576});
  b.Add("kubernetes.gpu_resource", &k.gpu_resource, {.doc = "What the cluster calls a GPU"});
}

void BindFleet(FleetFile& f, Binder& b) {
  b.Add("run", &f.run, {.doc = "Name of the run"});
  b.Add("config", &f.config, {.doc = "The learner's config, a TOML file"});
  b.Add("set", &f.set, {.doc = "Config keys of the run, a.b=c"});
  b.Add("backend", &f.backend,
        {.doc = "local: processes of this machine; ssh: of the hosts in ssh.hosts; slurm: jobs; "
                "kubernetes: pods",
         .choices = {"local", "ssh", "slurm", "kubernetes"}});
  b.Add("program", &f.program, {.doc = "Path of tidemill on every machine; empty: this program"});
  b.Add("directory", &f.directory,
        {.doc = "Folder in which the processes start, on every machine; empty: the one of this "
                "command, in a pod /runs"});
  b.Add("folder", &f.folder, {.doc = "Folder that holds the fleets' state and logs"});
  b.Add("bus_file", &f.bus_file,
        {.doc = "File with the URL of a bus that is there, readable by its owner alone; empty: "
                "Redis is started with the fleet"});
  b.Add("redis.program", &f.redis_program, {.doc = "Program of Redis, where it is started"});
  b.Add("redis.address", &f.redis_address,
        {.doc = "Address it listens on; empty: local: 127.0.0.1, ssh: the first host, slurm: the "
                "learner's node"});
  b.Add("redis.port", &f.redis_port,
        {.doc = "Port it listens on; 0: any free one in a local fleet, else 6390", .max = 65535});
  b.AddTables("workers", &f.workers, BindWorkers, {.doc = "Workers of one role"});
  b.Add("ssh.command", &f.ssh.command, {.doc = "Program and options that reach a host", .min = 1});
  b.Add("ssh.hosts", &f.ssh.hosts, {.doc = "Hosts; the learner and Redis run on the first"});
  b.Add("ssh.folder", &f.ssh.folder,
        {.doc = "Folder of the fleets' state and logs on each host, below the user's home"});
  b.Add("slurm.partition", &f.slurm.partition, {.doc = "Partition; empty: the default"});
  b.Add("slurm.account", &f.slurm.account, {.doc = "Account; empty: the default"});
  b.Add("slurm.time_limit", &f.slurm.time_limit,
        {.doc = "Time limit of a job as sbatch takes it; a job that reaches it is queued again"});
  b.Add("slurm.options", &f.slurm.options, {.doc = "Further options of sbatch"});
  b.Add("slurm.signal_s", &f.slurm.signal_s,
        {.doc = "Seconds before its time limit at which a job is told to end",
         .min = 1,
         .max = 3600});
  BindKubernetes(f.kubernetes, b);
}

// A name that objects of Kubernetes begin with: it is part of names of at most 63 characters.
bool IsObjectName(const std::string& name) {
  const bool letters = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '-';
  });
  return letters && name.size() <= 40 && std::islower(static_cast<unsigned char>(name[0])) &&
         name.back() != '-';
}

Status CheckKubernetes(const FleetFile& fleet, const Binder& binder) {
  if (fleet.backend != "kubernetes") return Ok();
  if (!IsObjectName(fleet.run)) {
    return binder.Error("run",
                        "must be small letters, digits and '-', at most 40, for objects of "
                        "Kubernetes, got \"" +
                            fleet.run + "\"");
  }
  if (!fleet.kubernetes.secret.empty() && !fleet.bus_file.empty()) {
    return binder.Error("kubernetes.secret", "has the URL of the bus; bus_file must be empty");
  }
  if (!fleet.directory.empty() && fleet.directory[0] != '/') {
    return binder.Error("directory", "must be absolute in a pod, got \"" + fleet.directory + "\"");
  }
  return Ok();
}

Status CheckHosts(const FleetFile& fleet, const Binder& binder) {
  if (fleet.backend == "ssh" && fleet.ssh.hosts.empty()) {
    return binder.Error("ssh.hosts", "is empty; the backend ssh needs at least one host");
  }
  for (const FleetWorkers& workers : fleet.workers) {
    for (const std::string& host : workers.hosts) {
      if (fleet.backend != "ssh") {
        return binder.Error("workers",
                            "hosts is for the backend ssh; this fleet's is " + fleet.backend);
      }
      const auto& all = fleet.ssh.hosts;
      if (std::find(all.begin(), all.end(), host) == all.end()) {
        return binder.Error("workers", "the host \"" + host + "\" is not one of ssh.hosts");
      }
    }
  }
  for (const std::string& host : fleet.ssh.hosts) {
    // ssh would take it for an option.
    if (host.empty() || host[0] == '-') {
      return binder.Error("ssh.hosts", "\"" + host + "\" is no name of a host");
    }
  }
  return Ok();
}

Status CheckFleet(const FleetFile& fleet, const Binder& binder) {
  if (!IsFleetName(fleet.run)) {
    return binder.Error("run",
                        "must be a name of letters, digits, '.', '-' and '_', at most 64, got \"" +
                            fleet.run + "\"");
  }
  if (fleet.config.empty()) return binder.Error("config", "is missing; the learner needs a config");
  if (fleet.workers.empty()) {
    return binder.Error("workers", "is empty; expected a [[workers]] table for each role");
  }
  std::set<std::string> roles;
  uint32_t learners = 0;
  for (const FleetWorkers& workers : fleet.workers) {
    roles.insert(workers.role);
    if (workers.role == "learner") learners += workers.count;
  }
  for (const char* role : {"learner", "rollout", "tools", "reward"}) {
    if (roles.count(role) != 0) continue;
    return binder.Error("workers",
                        std::string("there is no ") + role +
                            " worker; a run needs each of learner, rollout, tools and reward");
  }
  if (learners != 1) {
    return binder.Error("workers", "there are " + std::to_string(learners) +
                                       " learners; a run has one (learner.ranks spreads its work)");
  }
  TM_RETURN_IF_ERROR(CheckKubernetes(fleet, binder));
  return CheckHosts(fleet, binder);
}

}  // namespace

bool IsFleetName(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '-' || c == '_';
         });
}

Result<FleetFile> ReadFleetFile(const std::string& path) {
  FleetFile fleet;
  Binder binder;
  BindFleet(fleet, binder);
  TM_RETURN_IF_ERROR(binder.LoadFile(path));
  TM_RETURN_IF_ERROR(CheckFleet(fleet, binder));
  // Workers run elsewhere: in other folders, on other hosts that share this one.
  fleet.config = std::filesystem::absolute(fleet.config);
  if (fleet.backend == "kubernetes" && fleet.directory.empty()) fleet.directory = "/runs";
  fleet.directory =
      std::filesystem::absolute(fleet.directory.empty() ? "." : fleet.directory).lexically_normal();
  fleet.folder = std::filesystem::absolute(fleet.folder);
  if (!fleet.bus_file.empty()) fleet.bus_file = std::filesystem::absolute(fleet.bus_file);
  return fleet;
}

std::string FleetFileText(FleetFile fleet) {
  Binder binder;
  BindFleet(fleet, binder);
  return binder.ToToml("A fleet as it was started.");
}

}  // namespace tidemill
