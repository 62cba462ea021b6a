#include "scale/launch/slurm.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace tidemill {
namespace {

constexpr uint16_t kRedisPort = 6390;

// What every script begins with. A job that reaches its time limit gets USR1 and queues itself
// again; one that is preempted gets TERM and is queued again by Slurm.
std::string ScriptHead(const FleetFile& fleet, const std::string& role, const std::string& job) {
  std::string text =
      "#!/bin/bash\n# " + role + " workers of the run " + fleet.run + ".\nset -u\numask 077\n";
  text += "folder=" + ShellWord(fleet.RunFolder()) + "\n";
  text += "export TIDEMILL_RUN=" + ShellWord(fleet.run) + "\n";
  text += R"sh(child=
ended=
again=
tell() { ended=1; [ -z "$child" ] || kill -TERM "$child" 2>/dev/null; }
trap tell TERM
trap 'again=1; tell' USR1
# Waits for the child, also where a signal comes in between.
finish() {
  wait "$child"
  status=$?
  while kill -0 "$child" 2>/dev/null; do wait "$child"; status=$?; done
  child=
}
pause() { sleep "$1" & wait "$!" 2>/dev/null; }
# The run cannot go on: says why, and ends the other jobs, also those that wait for a node. One
# that is submitted later finds the file.
give_up() {
  [ -e "$folder/failed" ] || printf '%s\n' "$1" >"$folder/failed"
  [ -z "$child" ] || { kill -TERM "$child" 2>/dev/null; finish; }
  others=$(others)
  [ -z "$others" ] || scancel $others
  exit 2
}
others() { awk -v me="${SLURM_ARRAY_JOB_ID:-}" '$1 != me { print $1 }' "$folder/jobs" 2>/dev/null; }
me=)sh" + ShellWord(job) +
          "-${SLURM_ARRAY_TASK_ID:-1}\n";
  return text;
}

constexpr char kScriptEnd[] =
    R"sh([ -z "$again" ] || [ -e "$folder/down" ] || scontrol requeue "${SLURM_JOB_ID:?}"
exit 143
)sh";

// Of a role one worker may be enough: the run cannot go on when all of them were given up.
std::string HopelessLines(const std::string& role, uint32_t of_role) {
  return "hopeless() {\n  mkdir -p \"$folder/hopeless\"\n  touch \"$folder/hopeless/" + role +
         " $me\"\n  [ \"$(ls \"$folder/hopeless\" | grep -c '^" + role + " ')\" -lt " +
         std::to_string(of_role) + " ] || give_up \"$me exited with status 2\"\n  exit 2\n}\n";
}

std::string WorkerScript(const FleetFile& fleet, const SlurmJob& job, uint32_t of_role,
                         const std::vector<std::string>& words) {
  std::string text = ScriptHead(fleet, job.role, job.name) + HopelessLines(job.role, of_role);
  text += "cd " + ShellWord(fleet.directory) + " || hopeless\n";
  text += "url() { cat \"$folder/bus.url\" 2>/dev/null; }\n";
  text += R"sh(while [ -z "$ended" ]; do
  [ -e "$folder/failed" ] && exit 1
  seen=$(url)
  if [ -z "$seen" ]; then pause 1; continue; fi
)sh";
  text += "  TIDEMILL_BUS=$seen " + ShellLine(words) + " &\n";
  text += R"sh(  child=$!
  # Another URL: the learner's job runs on another node, and Redis with it.
  while [ -z "$ended" ] && kill -0 "$child" 2>/dev/null && [ "$(url)" = "$seen" ] &&
    [ ! -e "$folder/failed" ] && [ ! -e "$folder/done" ]; do pause 1; done
  # It leaves by itself when the run is done, unless the bus went away before it was told.
  kill -TERM "$child" 2>/dev/null
  finish
  [ -n "$ended" ] && break
  [ -e "$folder/done" ] && exit 0
  [ "$status" -eq 2 ] && hopeless
  pause 2
done
)sh";
  return text + kScriptEnd;
}

// Redis as the fleet brings it: beside the learner, its data in the fleet's folder. It is started
// again a few times; a broker that is there already looks after itself.
std::string RedisLines(const FleetFile& fleet) {
  if (!fleet.bus_file.empty()) {
    return "redis=\nserve() { :; }\nserved() { :; }\nurl=$(cat " + ShellWord(fleet.bus_file) +
           ") || give_up \"$me: the file of the bus cannot be read\"\n";
  }
  const std::string port = std::to_string(fleet.redis_port == 0 ? kRedisPort : fleet.redis_port);
  const std::string address =
      fleet.redis_address.empty() ? "$(hostname)" : ShellWord(fleet.redis_address);
  return "redis=\naddress=" + address +
         "\npassword=$(cat \"$folder/redis.password\") || give_up \"$me: the password of Redis "
         "cannot be read\"\n" +
         "mkdir -p \"$folder/redis\"\n" + "printf 'bind %s\\nport " + port +
         "\\nrequirepass %s\\ndir \"%s\"\\nappendonly yes\\nsave \"\"\\nmaxmemory-policy "
         "noeviction\\nproto-max-bulk-len 134217728\\n' \\\n"
         "  \"$address\" \"$password\" \"$folder/redis\" >\"$folder/redis.conf\"\n" +
         "url=redis://:$password@$address:" + port + "/0\nredis_starts=0\nserve() {\n" +
         "  [ \"$redis_starts\" -lt 8 ] || give_up \"redis ended $redis_starts times\"\n" +
         "  redis_starts=$((redis_starts + 1))\n  " + ShellWord(fleet.redis_program) +
         " \"$folder/redis.conf\" >>\"$folder/redis.log\" 2>&1 &\n  redis=$!\n}\n" +
         "served() { kill -0 \"$redis\" 2>/dev/null; }\n";
}

std::string LearnerScript(const FleetFile& fleet, const std::vector<std::string>& words) {
  std::string text = ScriptHead(fleet, "learner", "learner");
  text += "cd " + ShellWord(fleet.directory) + " || give_up \"$me: its folder is missing\"\n";
  text += RedisLines(fleet);
  text += R"sh(trap '[ -z "$redis" ] || kill "$redis" 2>/dev/null' EXIT
# Redis outlives the workers, for a minute at most: they read from it that the run is done.
outlast() {
  [ -n "$redis" ] || return 0
  for _ in $(seq 60); do
    [ -n "$(squeue --noheader --states=running --jobs="$(others | paste -sd,)" 2>/dev/null)" ] || return 0
    pause 1
  done
}
serve
printf '%s' "$url" >"$folder/bus.url.new" && mv "$folder/bus.url.new" "$folder/bus.url"
delay=1
while [ -z "$ended" ]; do
  [ -e "$folder/failed" ] && exit 1
)sh";
  text += "  TIDEMILL_BUS=$url " + ShellLine(words) + " &\n";
  text += R"sh(  child=$!
  while [ -z "$ended" ] && kill -0 "$child" 2>/dev/null; do
    served || serve
    pause 1
  done
  finish
  [ "$status" -eq 0 ] && { touch "$folder/done"; outlast; exit 0; }
  [ -n "$ended" ] && break
  # Redis ends with this job: the others would wait for it.
  [ "$status" -eq 2 ] && give_up "$me exited with status 2"
  pause "$delay"
  delay=$((delay < 60 ? delay * 2 : 60))
done
)sh";
  return text + kScriptEnd;
}

std::vector<std::string> SubmitWords(const FleetFile& fleet, const FleetWorkers& workers,
                                     const std::string& name) {
  const std::string folder = fleet.RunFolder();
  std::vector<std::string> words = {"sbatch",
                                    "--parsable",
                                    "--job-name=" + fleet.run + "-" + name,
                                    "--array=1-" + std::to_string(workers.count),
                                    "--requeue",
                                    "--open-mode=append",
                                    "--output=" + folder + "/" + name + "-%a.log",
                                    "--signal=B:USR1@" + std::to_string(fleet.slurm.signal_s)};
  if (!fleet.slurm.partition.empty()) words.push_back("--partition=" + fleet.slurm.partition);
  if (!fleet.slurm.account.empty()) words.push_back("--account=" + fleet.slurm.account);
  if (!fleet.slurm.time_limit.empty()) words.push_back("--time=" + fleet.slurm.time_limit);
  if (workers.cores > 0) words.push_back("--cpus-per-task=" + std::to_string(workers.cores));
  if (workers.gpus > 0) words.push_back("--gres=gpu:" + std::to_string(workers.gpus));
  if (workers.memory_gb > 0) words.push_back("--mem=" + std::to_string(workers.memory_gb) + "G");
  words.insert(words.end(), fleet.slurm.options.begin(), fleet.slurm.options.end());
  words.push_back(folder + "/" + name + ".sh");
  return words;
}

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Of Slurm's states, in small letters.
bool EndedBadly(const std::string& state) {
  for (const char* bad : {"failed", "timeout", "node_fail", "out_of_memory", "boot_fail"}) {
    if (state.rfind(bad, 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<SlurmJob> SlurmJobs(const FleetFile& fleet, const std::string& program) {
  std::vector<FleetWorkers> groups = fleet.workers;
  std::stable_partition(groups.begin(), groups.end(),
                        [](const FleetWorkers& group) { return group.role == "learner"; });
  std::map<std::string, uint32_t> of_role;
  for (const FleetWorkers& workers : groups) of_role[workers.role] += workers.count;
  std::vector<SlurmJob> jobs;
  std::map<std::string, int> seen;
  for (const FleetWorkers& workers : groups) {
    SlurmJob job;
    const int number = ++seen[workers.role];
    job.role = workers.role;
    job.name = workers.role + (number > 1 ? "." + std::to_string(number) : "");
    job.count = workers.count;
    job.words = SubmitWords(fleet, workers, job.name);
    const std::vector<std::string> words = WorkerWords(fleet, workers, program);
    job.script = workers.role == "learner" ? LearnerScript(fleet, words)
                                           : WorkerScript(fleet, job, of_role[job.role], words);
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<std::string> QueueWords(const std::vector<SubmittedJob>& jobs) {
  std::string ids;
  for (const SubmittedJob& job : jobs) ids += (ids.empty() ? "" : ",") + job.id;
  return {"squeue",       "--noheader",    "--array",
          "--states=all", "--jobs=" + ids, "--format=%F|%K|%T|%N|%r"};
}

Result<std::vector<ProcessState>> ReadQueue(const std::string& text,
                                            const std::vector<SubmittedJob>& jobs) {
  std::vector<ProcessState> processes;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    std::vector<std::string> parts;
    std::istringstream fields(line);
    for (std::string part; std::getline(fields, part, '|');) parts.push_back(part);
    const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const SubmittedJob& one) {
      return !parts.empty() && one.id == parts[0];
    });
    if (parts.size() < 5 || job == jobs.end()) {
      return Corrupt("squeue: unexpected line \"" + line + "\"");
    }
    ProcessState process;
    process.name = job->name + "-" + parts[1];
    process.role = job->role;
    process.state = LowerCase(parts[2]);
    if (!parts[3].empty()) process.state += " on " + parts[3];
    if (parts[4] != "None") process.last_end = parts[4];
    process.died = EndedBadly(process.state);
    processes.push_back(std::move(process));
  }
  return processes;
}

Result<std::string> ReadJobId(const std::string& text) {
  // "123" or "123;cluster".
  const std::string id = text.substr(0, text.find_first_of(";\n"));
  if (id.empty() ||
      !std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isdigit(c); })) {
    return Unavailable("sbatch: " + text);
  }
  return id;
}

std::string JobsFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/jobs";
}
std::string DoneFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/done";
}
std::string DownFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/down";
}
std::string FailedFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/failed";
}
std::string HopelessFolder(const FleetFile& fleet) {
  return fleet.RunFolder() + "/hopeless";
}
std::string BusFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/bus.url";
}
std::string RedisFile(const FleetFile& fleet) {
  return fleet.RunFolder() + "/redis.password";
}

std::string JobsText(const std::vector<SubmittedJob>& jobs) {
  std::string text;
  for (const SubmittedJob& job : jobs) text += job.id + " " + job.name + " " + job.role + "\n";
  return text;
}

Result<std::vector<SubmittedJob>> ReadJobs(const std::string& text) {
  std::vector<SubmittedJob> jobs;
  std::istringstream lines(text);
  for (SubmittedJob job; lines >> job.id >> job.name >> job.role;) {
    TM_RETURN_IF_ERROR(ReadJobId(job.id).status());
    jobs.push_back(job);
  }
  return jobs;
}

}  // namespace tidemill
