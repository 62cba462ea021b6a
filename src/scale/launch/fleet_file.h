// A fleet file: one TOML file that says how many workers of which role run where, on which
// backend.
//
//   fleet.toml -> ReadFleetFile -> FleetFile -> PlanFleet (fleet_plan.h) -> processes, or jobs of
//   Slurm (slurm.h), or objects of Kubernetes (kubernetes.h)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

// Workers of one role that are alike: a [[workers]] table.
struct FleetWorkers {
  std::string role = {};
  uint32_t count = 1;
  std::vector<std::string> hosts =
      {};                  // ssh: the hosts they are spread over; empty: all of the fleet
  uint32_t gpus = 0;       // for each worker
  uint32_t cores = 0;      // for each worker; 0: the program decides
  uint32_t memory_gb = 0;  // for each worker; 0: not said
  std::vector<std::string> set = {};  // config keys of these workers alone, a.b=c
};

// How hosts are reached.
struct FleetSsh {
  std::vector<std::string> command = {"ssh", "-o", "BatchMode=yes"};
  std::vector<std::string> hosts;           // the learner, and Redis with it, run on the first
  std::string folder = ".tidemill/fleets";  // on each host, below the user's home
};

struct FleetSlurm {
  std::string partition, account, time_limit;
  std::vector<std::string> options;  // further ones of sbatch
  uint32_t signal_s = 60;            // this long before the limit a job is told to end
};

struct FleetKubernetes {
  std::vector<std::string> command = {"kubectl"};
  std::string name_space = "default";
  std::string image = "tidemill:latest";
  std::string redis_image = "redis:7";
  std::string secret;         // of deploy/secrets.sh; empty: one is made with the fleet
  std::string claim;          // a volume claim for the runs; empty: one is made
  std::string storage_class;  // of the claims that are made; empty: the cluster's
  uint32_t storage_gb = 50;   // of the runs' claim
  std::string gpu_resource = "nvidia.com/gpu";
};

struct FleetFile {
  std::string run;
  std::string config;  // absolute
  std::vector<std::string> set;
  std::string backend = "local";
  std::string program;            // empty: the program that runs
  std::string directory;          // in which the processes start; absolute after ReadFleetFile
  std::string folder = "fleets";  // of the fleets' folders; absolute after ReadFleetFile
  std::string bus_file;           // holds the URL of a bus that is there; empty: Redis is started
  std::string redis_program = "redis-server";
  std::string redis_address;  // where a Redis that is started listens; empty: by the backend
  uint32_t redis_port = 0;    // 0: any free one where the fleet is local, else 6390
  std::vector<FleetWorkers> workers;

  FleetSsh ssh;
  FleetSlurm slurm;
  FleetKubernetes kubernetes;

  // Where this run's fleet keeps its state, logs and what Redis wrote.
  std::string RunFolder() const { return folder + "/" + run; }
};

// Paths in it become absolute. kInvalid names the file, the line and the key, and what would be
// right.
Result<FleetFile> ReadFleetFile(const std::string& path);

// Every key, as ReadFleetFile reads it.
std::string FleetFileText(FleetFile fleet);

// A name that a folder, a Slurm job and a key on Redis can have.
bool IsFleetName(const std::string& name);

}  // namespace tidemill
