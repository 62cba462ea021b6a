#include "run/torch/make_ranks.h"

#include <ATen/Parallel.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "core/child_process.h"
#include "core/log.h"
#include "core/secret.h"
#include "core/version.h"
#include "learner/torch/rank_follower.h"
#include "model/torch/device.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::milliseconds kLeaveLimit(500);
constexpr std::string_view kMeetingFile = "/meeting", kSecretFile = "/secret";

// Ranks on this machine, children of this process. Belongs to the trainer's thread.
class OwnRanks {
 public:
  static Result<std::shared_ptr<OwnRanks>> Start(uint32_t count) {
    auto ranks = std::make_shared<OwnRanks>();
    std::error_code error;
    std::string folder = (fs::temp_directory_path(error) / "tidemill-ranks-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) return Unavailable(folder + ": " + std::strerror(errno));
    ranks->folder_ = folder;
    TM_ASSIGN_OR_RETURN(ranks->secret_, KeepSecret(folder + std::string(kSecretFile)));
    for (uint32_t i = 0; i < count; ++i) TM_RETURN_IF_ERROR(ranks->Spawn());
    return ranks;
  }

  // They leave when they are told to or the group is gone; those that do not are killed.
  ~OwnRanks() {
    const auto end = std::chrono::steady_clock::now() + kLeaveLimit;
    for (Child& child : children_) {
      while (Running(child) && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      if (!Running(child)) continue;
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  std::string meeting() const { return "file:" + folder_ + std::string(kMeetingFile); }
  const std::string& secret() const { return secret_; }

  std::string Fate(int64_t process) {
    for (Child& child : children_) {
      if (child.pid == process && !Running(child)) return HowItEnded(child.status);
    }
    return "";
  }

  // In the order in which it was noticed.
  std::vector<std::string> Ended() {
    for (Child& child : children_) {
      if (child.told || Running(child)) continue;
      child.told = true;
      ended_.push_back("process " + std::to_string(child.pid) + " " + HowItEnded(child.status));
    }
    return ended_;
  }

 private:
  struct Child {
    pid_t pid = 0;
    int status = 0;
    bool ended = false;
    bool told = false;  // in ended_
  };

  static bool Running(Child& child) {
    if (!child.ended) child.ended = waitpid(child.pid, &child.status, WNOHANG) == child.pid;
    return !child.ended;
  }

  Status Spawn() {
    const std::string level = LogEnabled(LogLevel::kInfo) ? "info" : "warn";
    Result<pid_t> started =
        StartChild({ThisProgram(), "--log-level", level, "rank", "--join", meeting()});
    if (!started.ok()) return started.status().WithContext("starting a rank");
    children_.push_back({.pid = *started});
    return Ok();
  }

  std::string folder_, secret_;
  std::vector<Child> children_;
  std::vector<std::string> ended_;
};

// How to begin, for ranks that may have another working directory.
std::string StartPayload(const RunConfig& config, const TrainerStart& start) {
  RunConfig absolute = config;
  for (std::string* path :
       {&absolute.model.path, &absolute.model.tokenizer, &absolute.model.adapter}) {
    if (!path->empty()) *path = fs::absolute(*path).lexically_normal().string();
  }
  Binder binder;
  BindRunConfig(absolute, binder);
  return json{
      {"program", FullVersion()},
      {"config", binder.ToToml("tidemill " + FullVersion())},
      {"checkpoint", start.checkpoint.empty() ? "" : fs::absolute(start.checkpoint).string()},
      {"version", start.version},
      {"step", start.step},
      {"threads", start.threads}}
      .dump();
}

// The trainer as rank 0 has it.
Result<std::unique_ptr<Trainer>> TrainerFrom(const RankOrder& order, int rank, bool local) {
  if (order.kind != RankOrder::kStart)
    return Corrupt("the first order of rank 0 is not a start order");
  const json start = json::parse(order.payload, nullptr, false);
  if (!start.is_object()) return Corrupt("the start order of rank 0 is not a JSON object");
  if (start.value("program", "") != FullVersion()) {
    return Invalid("rank 0 is tidemill " + start.value("program", "?") + ", this is " +
                   FullVersion() + ": all ranks must run the same program");
  }
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  TM_RETURN_IF_ERROR(binder.LoadText(start.value("config", ""), "rank 0's config"));
  // On one machine each has a GPU of its own.
  if (local && IsGpu(config.model.device)) config.model.device = "cuda:" + std::to_string(rank);
  TrainerStart from;
  from.checkpoint = start.value("checkpoint", "");
  from.version = start.value("version", uint64_t{0});
  from.step = start.value("step", uint64_t{0});
  at::set_num_threads(start.value("threads", 1));
  TM_ASSIGN_OR_RETURN(from.weights, LoadStartWeights(config, from.checkpoint));
  return NewTrainer(config, from);
}

}  // namespace

Result<std::unique_ptr<RankGroup>> StartRanks(const RunConfig& config, const TrainerStart& start) {
  const LearnerConfig& learner = config.learner;
  if (learner.ranks <= 1) return std::unique_ptr<RankGroup>();
  RankGroupOptions options;
  options.meeting = learner.rank_address;
  options.ranks = static_cast<int>(learner.ranks);
  options.join_limit = learner.rank_join;
  options.timeout = learner.rank_timeout;
  if (learner.rank_address.empty()) {
    TM_ASSIGN_OR_RETURN(const std::shared_ptr<OwnRanks> ranks, OwnRanks::Start(learner.ranks - 1));
    options.meeting = ranks->meeting();
    options.secret = ranks->secret();
    // Shared: they must be there as long as somebody asks for their fate, and end with the group.
    options.fate = [ranks](int64_t process) { return ranks->Fate(process); };
    options.ended = [ranks] { return ranks->Ended(); };
  } else {
    if (learner.rank_secret_file.empty()) {
      LogWarn("whoever reaches learner.rank_address can join; set learner.rank_secret_file");
    } else {
      TM_ASSIGN_OR_RETURN(options.secret, KeepSecret(learner.rank_secret_file));
    }
    LogInfo("waiting for ranks", {{"join", "tidemill rank --join " + learner.rank_address},
                                  {"wanted", learner.ranks - 1}});
  }
  Result<std::unique_ptr<RankGroup>> group = RankGroup::Gather(options);
  if (!group.ok()) {
    return group.status().WithContext(learner.rank_address.empty() ? "learner.ranks"
                                                                   : "learner.rank_address");
  }
  if ((*group)->size() < options.ranks) {
    LogWarn("fewer ranks than learner.ranks are present; starting with those",
            {{"ranks", (*group)->size()}, {"wanted", learner.ranks}});
  }
  if ((*group)->size() == 1) return std::unique_ptr<RankGroup>();
  TM_RETURN_IF_ERROR((*group)->Send({RankOrder::kStart, 0, 0, StartPayload(config, start)}));
  LogInfo("the learner runs on several ranks", {{"ranks", (*group)->size()}});
  return group;
}

Status FollowRun(const std::string& meeting, const std::string& secret_file,
                 std::chrono::milliseconds join_limit) {
  RankGroupOptions options;
  options.meeting = meeting;
  // One that the learner started finds the secret beside the meeting's file.
  std::string secret = secret_file;
  if (secret.empty() && meeting.starts_with("file:") && meeting.ends_with(kMeetingFile)) {
    secret = meeting.substr(5, meeting.size() - 5 - kMeetingFile.size()) + std::string(kSecretFile);
  }
  if (!secret.empty()) {
    TM_ASSIGN_OR_RETURN(options.secret, KeepSecret(secret));
  }
  options.join_limit = join_limit;
  TM_ASSIGN_OR_RETURN(std::unique_ptr<RankGroup> group, RankGroup::Join(options));
  const auto follow = [&]() -> Status {
    TM_ASSIGN_OR_RETURN(const RankOrder order, group->Next());
    LogInfo("rank " + std::to_string(group->rank()) + " of " + std::to_string(group->size()));
    Result<std::unique_ptr<Trainer>> trainer =
        TrainerFrom(order, group->rank(), meeting.starts_with("file:"));
    if (trainer.ok()) return FollowOrders(*group, **trainer);
    group->Fail(trainer.status());
    return trainer.status();
  };
  Status status = follow();
  // Its destructor would wait for a sum under way that nobody will finish.
  if (!status.ok()) (void)group.release();
  return status;
}

}  // namespace tidemill
