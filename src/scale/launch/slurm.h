// A fleet as jobs of Slurm: an array for each [[workers]] table, with a task for each worker. Text
// alone; what it says is run by the command (cli/fleet_jobs.cc).
//
// The fleet's folder is seen by every node. The learner's job starts Redis on its node and writes
// its URL into the folder (`bus.url`, for the owner alone); the others wait for it, and start their
// worker again when it changes: the learner's job was queued again and runs elsewhere. A worker
// with wrong words or a wrong config is given up; where it was the learner, or the last of its
// role, its job says so in the folder (`failed`) and ends the others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_file.h"
#include "scale/launch/fleet_state.h"

namespace tidemill {

struct SlurmJob {
  std::string name;  // "rollout": of its script and logs
  std::string role;
  uint32_t count = 1;
  std::vector<std::string> words;  // sbatch and its options; they end with the script's path
  std::string script;              // its text
};

// The learner's first.
std::vector<SlurmJob> SlurmJobs(const FleetFile& fleet, const std::string& program);

struct SubmittedJob {
  std::string id;    // of Slurm
  std::string name;  // SlurmJob::name
  std::string role;
};

// What asks for them: squeue and its options.
std::vector<std::string> QueueWords(const std::vector<SubmittedJob>& jobs);

// The answer of `QueueWords` as processes. kCorrupt: a line is none of squeue's.
Result<std::vector<ProcessState>> ReadQueue(const std::string& text,
                                            const std::vector<SubmittedJob>& jobs);

// The job's id in what `sbatch --parsable` prints.
Result<std::string> ReadJobId(const std::string& text);

// Files of the fleet's folder.
std::string JobsFile(const FleetFile& fleet);    // a line for each job: id, name, role
std::string DoneFile(const FleetFile& fleet);    // the learner ended well
std::string DownFile(const FleetFile& fleet);    // a person ended the fleet
std::string FailedFile(const FleetFile& fleet);  // one line: which worker ended the fleet, and how
std::string HopelessFolder(const FleetFile& fleet);  // a file for each worker that was given up
std::string BusFile(const FleetFile& fleet);         // the URL, for the owner alone
std::string RedisFile(const FleetFile& fleet);       // the password, for the owner alone

std::string JobsText(const std::vector<SubmittedJob>& jobs);
Result<std::vector<SubmittedJob>> ReadJobs(const std::string& text);

}  // namespace tidemill
