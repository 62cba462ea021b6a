// Fleets of jobs of Slurm.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/fleet_backend.h"
#include "core/files.h"
#include "core/secret.h"
#include "scale/launch/fleet_plan.h"
#include "scale/launch/slurm.h"

namespace tidemill {
namespace {

constexpr size_t kJobsBytes = 1u << 20;
constexpr size_t kSmallFileBytes = 4096;

// Of Slurm's states those that a job leaves by itself.
bool GoesOn(const std::string& state) {
  for (const char* over : {"completed", "failed", "cancelled", "timeout", "node_fail",
                           "out_of_memory", "boot_fail", "deadline"}) {
    if (state.rfind(over, 0) == 0) return false;
  }
  return true;
}

class Jobs final : public FleetBackend {
 public:
  explicit Jobs(FleetFile fleet) : fleet_(std::move(fleet)) {}

  Result<std::string> DryRun() override {
    std::string text;
    for (const SlurmJob& job : SlurmJobs(fleet_, FleetProgram(fleet_))) {
      text += "# " + job.words.back() + "\n" + job.script + "\n" + ShellLine(job.words) + "\n\n";
    }
    return text;
  }

  Status Start() override {
    const Result<std::vector<FleetState>> earlier = States();
    if (earlier.ok() && !(*earlier)[0].over) {
      return Exists(fleet_.RunFolder() +
                    ": a fleet runs here; see it with tidemill launch attach, "
                    "end it with tidemill launch down");
    }
    TM_RETURN_IF_ERROR(Prepare());
    std::vector<SubmittedJob> submitted;
    for (const SlurmJob& job : SlurmJobs(fleet_, FleetProgram(fleet_))) {
      Status status = WriteFileAtomically(job.words.back(), job.script);
      if (status.ok()) status = Submit(job, submitted);
      if (!status.ok()) {
        (void)Cancel(submitted);
        return status;
      }
    }
    return Ok();
  }

  Result<std::vector<FleetState>> States() override {
    TM_ASSIGN_OR_RETURN(const std::vector<SubmittedJob> jobs, Submitted());
    FleetState state;
    state.run = fleet_.run;
    // Jobs that are over are forgotten by Slurm after some minutes, and asking for them is an
    // error.
    const Result<std::string> said = RunForOutput(QueueWords(jobs));
    if (said.ok()) {
      TM_ASSIGN_OR_RETURN(state.processes, ReadQueue(*said, jobs));
    } else if (said.status().message().find("Invalid job id") == std::string::npos) {
      return said.status();
    }
    state.kept = std::any_of(state.processes.begin(), state.processes.end(),
                             [](const ProcessState& process) { return GoesOn(process.state); });
    state.over = !state.kept;
    const bool done = access(DoneFile(fleet_).c_str(), F_OK) == 0;
    const bool down = access(DownFile(fleet_).c_str(), F_OK) == 0;
    state.failure = Failure();
    const bool ends = down || !state.failure.empty();
    state.phase = state.over ? "over" : done ? "finishing" : ends ? "stopping" : "running";
    if (state.over && !done && !ends) state.failure = "its jobs ended before the run was done";
    return std::vector<FleetState>{state};
  }

  Result<std::vector<WorkerHealth>> Roster() override {
    const Result<std::string> url = ReadFileBounded(BusFile(fleet_), kSmallFileBytes);
    if (!url.ok()) return Unavailable("the learner's job has not started");
    TM_ASSIGN_OR_RETURN(const std::string text, RosterText(*url, fleet_.run));
    return ReadHealth(text);
  }

  Status Down() override {
    TM_ASSIGN_OR_RETURN(const std::vector<SubmittedJob> jobs, Submitted());
    TM_RETURN_IF_ERROR(WriteFileAtomically(DownFile(fleet_), ""));
    return Cancel(jobs);
  }

  std::string LogOf(const FleetState&, const std::string& process) override {
    const std::string path = fleet_.RunFolder() + "/" + process + ".log";
    const Result<std::string> end = RunForOutput({"tail", "-n", "5", path});
    return path + "\n" + (end.ok() ? *end : end.status().message());
  }

 private:
  // What an earlier fleet of the same run left behind would end this one.
  Status Prepare() const {
    TM_RETURN_IF_ERROR(MakeDirectories(fleet_.RunFolder()));
    if (chmod(fleet_.RunFolder().c_str(), 0700) != 0) {
      return FileFailure(fleet_.RunFolder(), "cannot be closed to others", errno);
    }
    for (const std::string& file :
         {DoneFile(fleet_), DownFile(fleet_), FailedFile(fleet_), BusFile(fleet_)}) {
      unlink(file.c_str());
    }
    std::error_code none;
    std::filesystem::remove_all(HopelessFolder(fleet_), none);
    if (!fleet_.bus_file.empty()) return ReadBusFile(fleet_).status();
    return KeepSecret(RedisFile(fleet_)).status();
  }

  Status Submit(const SlurmJob& job, std::vector<SubmittedJob>& submitted) const {
    TM_ASSIGN_OR_RETURN(const std::string said, RunForOutput(job.words));
    TM_ASSIGN_OR_RETURN(const std::string id, ReadJobId(said));
    submitted.push_back({id, job.name, job.role});
    return WriteFileAtomically(JobsFile(fleet_), JobsText(submitted));
  }

  Result<std::vector<SubmittedJob>> Submitted() const {
    const Result<std::string> text = ReadFileBounded(JobsFile(fleet_), kJobsBytes);
    if (text.status().code() == Code::kNotFound) {
      return NotFound(fleet_.RunFolder() + ": no fleet was started here");
    }
    TM_RETURN_IF_ERROR(text.status());
    return ReadJobs(*text);
  }

  // What a job wrote that ended the fleet; empty: none did.
  std::string Failure() const {
    const Result<std::string> text = ReadFileBounded(FailedFile(fleet_), kSmallFileBytes);
    if (!text.ok()) return "";
    return text->substr(0, text->find('\n'));
  }

  static Status Cancel(const std::vector<SubmittedJob>& jobs) {
    if (jobs.empty()) return Ok();
    std::vector<std::string> words = {"scancel"};
    for (const SubmittedJob& job : jobs) words.push_back(job.id);
    return RunForOutput(words).status();
  }

  const FleetFile fleet_;
};

}  // namespace

std::unique_ptr<FleetBackend> JobsBackend(const FleetFile& fleet) {
  return std::make_unique<Jobs>(fleet);
}

}  // namespace tidemill
