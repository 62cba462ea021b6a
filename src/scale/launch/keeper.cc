#include "scale/launch/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "core/child_process.h"
#include "core/fd.h"
#include "core/files.h"
#include "core/log.h"

namespace tidemill {
namespace {

constexpr size_t kSpecBytesMax = 16u << 20;
constexpr Duration kLook = milliseconds(200);  // how often it is asked whether to stop

// Held as long as the keeper lives; has its process id.
Result<Fd> TakeLock(const std::string& folder) {
  const std::string path = LockFile(folder);
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return FileFailure(path, "cannot open", errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Exists(folder +
                  ": a fleet runs here; see it with tidemill launch attach, end it with "
                  "tidemill launch down");
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd.get(), 0) != 0) return FileFailure(path, "cannot write", errno);
  TM_RETURN_IF_ERROR(WriteAll(fd, pid, path));
  return fd;
}

// The process that holds the lock; 0: none does.
pid_t HolderOf(const std::string& folder) {
  Fd fd(open(LockFile(folder).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return 0;
  const Result<std::string> text = ReadFileBounded(LockFile(folder), 32);
  pid_t pid = 0;
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), pid);
  return pid;
}

class Keeper {
 public:
  Keeper(std::string folder, KeeperSpec spec, const KeeperRules& rules)
      : folder_(std::move(folder)), spec_(std::move(spec)), book_(Kept(spec_), rules) {}

  Status Run(const std::function<bool()>& asked_to_stop) {
    Save();
    while (book_.phase() != FleetPhase::kOver) {
      if (asked_to_stop()) book_.Stop("", clock_.Now());
      for (const size_t i : book_.ToStart(clock_.Now())) Start(i);
      for (const KeeperBook::Signal& signal : book_.TakeSignals(clock_.Now())) Send(signal);
      SaveIfChanged();
      WaitForAnEnd();
      Reap();
    }
    SaveIfChanged();
    LogInfo("the fleet is over", {{"run", spec_.run}, {"failure", book_.failure()}});
    return Ok();
  }

 private:
  static std::vector<KeptProcess> Kept(const KeeperSpec& spec) {
    std::vector<KeptProcess> kept;
    for (const FleetProcess& process : spec.processes) {
      KeptProcess one;
      one.name = process.name;
      one.role = process.role;
      kept.push_back(std::move(one));
    }
    return kept;
  }

  void Start(size_t i) {
    const FleetProcess& process = spec_.processes[i];
    ChildOptions options;
    options.environment = process.environment;
    // A URL with a password does not belong on a command line.
    options.environment.emplace_back("TIDEMILL_BUS", spec_.bus_url);
    options.environment.emplace_back("TIDEMILL_RUN", spec_.run);
    options.log = LogFile(folder_, process.name);
    const Result<pid_t> pid = StartChild(process.words, options);
    if (!pid.ok()) {
      LogWarn("could not start a process",
              {{"name", process.name}, {"why", pid.status().message()}});
      return book_.NotStarted(i, pid.status().message(), clock_.Now());
    }
    Fd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
    TM_CHECK(static_cast<bool>(pid_fd), "pidfd_open");
    running_[i] = std::move(pid_fd);
    LogInfo("started", {{"name", process.name}, {"pid", std::to_string(*pid)}});
    book_.Started(i, *pid, clock_.Now());
  }

  void Send(const KeeperBook::Signal& signal) {
    const KeptProcess& process = book_.processes()[signal.process];
    LogInfo(signal.signal == SIGKILL ? "killing" : "asking to end", {{"name", process.name}});
    kill(process.pid, signal.signal);
  }

  void WaitForAnEnd() {
    std::vector<pollfd> fds;
    for (const auto& [i, fd] : running_) fds.push_back({fd.get(), POLLIN, 0});
    const Time next = book_.NextTime(), now = clock_.Now();
    const Duration wait = next <= now ? Duration(0) : std::min<Duration>(next - now, kLook);
    poll(fds.data(), fds.size(), static_cast<int>(std::chrono::ceil<milliseconds>(wait).count()));
  }

  void Reap() {
    for (auto it = running_.begin(); it != running_.end();) {
      int wait_status = 0;
      const KeptProcess& process = book_.processes()[it->first];
      if (waitpid(process.pid, &wait_status, WNOHANG) != process.pid) {
        ++it;
        continue;
      }
      LogInfo("ended", {{"name", process.name}, {"how", HowItEnded(wait_status)}});
      book_.Ended(it->first, wait_status, clock_.Now());
      it = running_.erase(it);
    }
  }

  void Save() {
    saved_ = StateText(StateOf(spec_.run, book_));
    const Status written = WriteFileAtomically(StateFile(folder_), saved_);
    // The fleet goes on: only who looks at it sees an old state.
    if (!written.ok()) LogWarn("the fleet's state was not written", {{"why", written.message()}});
  }

  void SaveIfChanged() {
    if (StateText(StateOf(spec_.run, book_)) != saved_) Save();
  }

  const std::string folder_;
  const KeeperSpec spec_;
  const RealClock clock_;
  KeeperBook book_;
  std::map<size_t, Fd> running_;  // a descriptor of each process that runs
  std::string saved_;
};

}  // namespace

Status RunKeeper(const std::string& named, const KeeperRules& rules,
                 const std::function<bool()>& asked_to_stop) {
  // Processes start elsewhere: a name that is relative, as on a host that ssh reaches, would not be
  // found from there.
  const std::string folder = std::filesystem::absolute(named).lexically_normal();
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(SpecFile(folder), kSpecBytesMax));
  TM_ASSIGN_OR_RETURN(KeeperSpec spec, ReadSpec(text));
  TM_ASSIGN_OR_RETURN(const Fd lock, TakeLock(folder));
  if (chdir(spec.directory.c_str()) != 0) {
    return Invalid(spec.directory + ": processes cannot start in this folder: " +
                   std::strerror(errno) + "; set directory in the fleet file");
  }
  if (!spec.redis_config.empty()) {
    const std::string kept = folder + "/redis";
    TM_RETURN_IF_ERROR(MakeDirectories(kept));
    const std::string config = folder + "/redis.conf";
    TM_RETURN_IF_ERROR(WriteFileAtomically(config, spec.redis_config + "dir \"" + kept + "\"\n"));
    FleetProcess redis;
    redis.name = redis.role = "redis";
    redis.words = {spec.redis_program, config};
    spec.processes.insert(spec.processes.begin(), std::move(redis));
  }
  return Keeper(folder, std::move(spec), rules).Run(asked_to_stop);
}

Status StartKeeper(const std::string& folder, const std::string& spec_text,
                   const std::string& program) {
  TM_RETURN_IF_ERROR(ReadSpec(spec_text).status());
  TM_RETURN_IF_ERROR(MakeDirectories(folder));
  // Secrets are in it: nobody else reads it.
  if (chmod(folder.c_str(), 0700) != 0)
    return FileFailure(folder, "cannot be closed to others", errno);
  if (HolderOf(folder) != 0) {
    return Exists(folder +
                  ": a fleet runs here; see it with tidemill launch attach, end it with "
                  "tidemill launch down");
  }
  TM_RETURN_IF_ERROR(WriteFileAtomically(SpecFile(folder), spec_text));
  unlink(StateFile(folder).c_str());
  ChildOptions options;
  options.log = LogFile(folder, "keeper");
  options.outlives_us = true;
  TM_ASSIGN_OR_RETURN(
      const pid_t pid,
      StartChild({program, "--log-level", "info", "launch", "host", "keep", folder}, options));
  // It has the folder, or it ended and says why in its log.
  for (;;) {
    int wait_status = 0;
    if (waitpid(pid, &wait_status, WNOHANG) == pid) {
      return Internal("the fleet's keeper " + HowItEnded(wait_status) + ", see " +
                      LogFile(folder, "keeper"));
    }
    if (access(StateFile(folder).c_str(), F_OK) == 0) return Ok();
    std::this_thread::sleep_for(milliseconds(20));
  }
}

Result<FleetState> StateIn(const std::string& folder) {
  // First: a keeper that ends meanwhile has written its last state.
  const bool kept = HolderOf(folder) != 0;
  const Result<std::string> text = ReadFileBounded(StateFile(folder), kSpecBytesMax);
  if (text.status().code() == Code::kNotFound) {
    return NotFound(folder + ": no fleet was started here");
  }
  TM_RETURN_IF_ERROR(text.status());
  TM_ASSIGN_OR_RETURN(FleetState state, ReadState(*text));
  state.kept = kept;
  return state;
}

Status StopKeeper(const std::string& folder) {
  const pid_t pid = HolderOf(folder);
  if (pid <= 0) return NotFound(folder + ": no fleet runs here");
  if (kill(pid, SIGTERM) != 0) {
    return Unavailable(folder + ": its keeper (process " + std::to_string(pid) +
                       ") cannot be signalled: " + std::strerror(errno));
  }
  return Ok();
}

}  // namespace tidemill
