// tidemill launch: a fleet on this machine from one file, to the end of its run, through a kill,
// and ended by a person; the same by a program that stands for ssh.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "scale/launch/keeper.h"
#include "tests/program.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr auto kFleetPatience = std::chrono::seconds(150);

class LaunchTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(MakeTinyModel(folder_.path()));
    ASSERT_NO_FATAL_FAILURE(MustRun("tasks generate --family cfunc --count 8 --seed 1 --out " +
                                    folder_ / "train.jsonl"));
  }
  void TearDown() override {
    const Result<FleetState> state = StateIn(Fleet());
    if (state.ok() && state->kept) RunTidemill("launch down demo --folder " + folder_ / "fleets");
  }

  std::string Fleet() const { return folder_ / "fleets/demo"; }
  // `more` is of the fleet file, in front of its tables.
  std::string Write(int steps, const std::string& more = "", const std::string& tools = "") {
    std::ofstream(folder_ / "run.toml")
        << "[run]\nfolder = \"" << folder_ / "runs"
        << "\"\nsteps = " << steps << "\n[model]\npath = \"" << folder_ / "model"
        << "\"\nprotocol = \"compact\"\n[tasks]\ntrain = \"" << folder_ / "train.jsonl"
        << "\"\n[rollout]\ngroup_size = 2\ngroups_per_step = 2\nmax_turn_tokens = 8\nmax_turns = "
           "1\n"
           "cache_mb = 16\n[replay]\ndrop_zero_variance = false\n[bus]\nlease = \"3s\"\n"
           "[threads]\nengine = 1\ntrainer = 1\n[dashboard]\nweb = false\n";
    std::ofstream(folder_ / "fleet.toml")
        << "run = \"demo\"\nconfig = \"" << folder_ / "run.toml"
        << "\"\nfolder = \"" << folder_ / "fleets"
        << "\"\n"
        << more
        << "[[workers]]\nrole = \"learner\"\n[[workers]]\nrole = \"rollout\"\n"
           "[[workers]]\nrole = \"tools\"\n"
        << tools << "[[workers]]\nrole = \"reward\"\n";
    return folder_ / "fleet.toml";
  }
  std::string Logs() const {
    std::string all;
    for (const char* name : {"keeper", "learner-1", "rollout-1"})
      all += TextOf(LogFile(Fleet(), name));
    return all;
  }
  FleetState State() const {
    Result<FleetState> state = StateIn(Fleet());
    return state.ok() ? *state : FleetState();
  }
  ProcessState Of(const std::string& name) const {
    for (const ProcessState& process : State().processes) {
      if (process.name == name) return process;
    }
    return {};
  }
  void ExpectDone() {
    const json summary = json::parse(TextOf(folder_ / "runs/demo/summary.json"), nullptr, false);
    ASSERT_TRUE(summary.is_object()) << Logs();
    EXPECT_EQ(summary["lost"], 0);
    EXPECT_GT(summary["steps"], 0);
  }

  TemporaryDirectory folder_;
};

TEST_F(LaunchTest, AFleetOnThisMachineTrainsToItsEndAndLeavesNothingBehind) {
  const ProcessOutput ran = RunTidemill("launch " + Write(2));
  EXPECT_EQ(ran.exit_code, 0) << ran.output << Logs();
  ExpectDone();
  EXPECT_THAT(ran.output, HasSubstr("learner-1"));
  const FleetState state = State();
  EXPECT_TRUE(state.over);
  EXPECT_FALSE(state.kept);
  for (const ProcessState& process : state.processes) EXPECT_EQ(process.pid, 0) << process.name;
  // Secrets are the owner's.
  EXPECT_EQ(fs::status(Fleet()).permissions() & fs::perms::others_all, fs::perms::none);
  EXPECT_THAT(ran.output, Not(HasSubstr("redis://")));
}

TEST_F(LaunchTest, AKilledWorkerComesBackAndAPersonEndsTheFleet) {
  const std::string file = Write(100000);
  const ProcessOutput started = RunTidemill("launch --detach " + file);
  ASSERT_EQ(started.exit_code, 0) << started.output << Logs();
  EXPECT_THAT(started.output, HasSubstr("rollout workers          1 of 1 here"));
  EXPECT_THAT(started.output, HasSubstr("the fleet is there"));
  EXPECT_NE(Of("tools-1").pid, 0);
  const ProcessOutput again = RunTidemill("launch --detach " + file);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.output, HasSubstr("a fleet runs here"));
  kill(Of("tools-1").pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return Of("tools-1").starts == 2; }, kFleetPatience)) << Logs();
  EXPECT_EQ(Of("tools-1").last_end, "was killed by signal 9");
  // The learner has its config by now, so that it ends in order.
  ASSERT_TRUE(Eventually([&] { return fs::exists(folder_ / "runs/demo/run.db"); }, kFleetPatience))
      << Logs();
  const ProcessOutput down = RunTidemill("launch down demo --folder " + folder_ / "fleets");
  EXPECT_EQ(down.exit_code, 0) << down.output;
  EXPECT_TRUE(State().over) << StateText(State());
  EXPECT_EQ(State().failure, "");
  EXPECT_EQ(RunTidemill("launch down demo --folder " + folder_ / "fleets").exit_code, 2);
}

TEST_F(LaunchTest, AWrongConfigIsRefusedBeforeAnythingStarts) {
  const std::string file = Write(2, "set = [\"rollout.group_sise=2\"]\n");
  const ProcessOutput refused = RunTidemill("launch " + file);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("rollout.group_size"));
  EXPECT_FALSE(fs::exists(Fleet()));
  EXPECT_EQ(RunTidemill("launch " + folder_ / "none.toml").exit_code, 2);
  EXPECT_EQ(RunTidemill("launch attach nobody --folder " + folder_ / "fleets").exit_code, 2);
}

TEST_F(LaunchTest, AWorkerThatCannotWorkEndsTheFleetWithItsReason) {
  const std::string file = Write(100000, "", "set = [\"tools.slots=nonsense\"]\n");
  const ProcessOutput failed = RunTidemill("launch " + file);
  EXPECT_EQ(failed.exit_code, 1) << failed.output;
  EXPECT_THAT(failed.output, HasSubstr("tools-1 exited with status 2"));
  EXPECT_THAT(failed.output, HasSubstr("tools.slots"));
}

TEST_F(LaunchTest, DryRunSaysWhatWouldRunAndRunsNothing) {
  const ProcessOutput dry = RunTidemill("launch --dry-run " + Write(2));
  EXPECT_EQ(dry.exit_code, 0) << dry.output;
  EXPECT_THAT(dry.output, HasSubstr("redis-server"));
  EXPECT_THAT(dry.output, HasSubstr(" worker rollout\n"));
  EXPECT_FALSE(fs::exists(Fleet()));
  const ProcessOutput jobs = RunTidemill("launch --dry-run " + Write(2, "backend = \"slurm\"\n"));
  EXPECT_EQ(jobs.exit_code, 0) << jobs.output;
  EXPECT_THAT(jobs.output, HasSubstr("sbatch --parsable --job-name=demo-learner"));
}

// A host that is reached by a program which runs the line there: here, in another home.
TEST_F(LaunchTest, HostsThatAreReachedByAProgramTrainTogether) {
  const std::string reach = folder_ / "reach";
  std::ofstream(reach) << "#!/bin/sh\n# reach HOST LINE\nhome=" << folder_.path()
                       << "/$1\nmkdir -p $home\ncd $home && exec sh -c \"$2\"\n";
  fs::permissions(reach, fs::perms::owner_all);
  const std::string more = "backend = \"ssh\"\nredis.address = \"127.0.0.1\"\nredis.port = " +
                           std::to_string(FreePort()) +
                           "\nssh.hosts = [\"one\", \"two\"]\nssh.command = [\"" + reach + "\"]\n";
  const ProcessOutput ran = RunTidemill("launch " + Write(2, more));
  EXPECT_EQ(ran.exit_code, 0) << ran.output
                              << TextOf(folder_ / "one/.tidemill/fleets/demo/learner-1.log");
  ExpectDone();
  EXPECT_THAT(ran.output, HasSubstr("learner-1 on one"));
  EXPECT_THAT(ran.output, HasSubstr("demo on two"));
}

// kubectl as these tests need it: it keeps what it is given and says what it was told to say.
constexpr char kKubectl[] = R"(#!/bin/sh
here=$(dirname "$0")
echo "$@" >>"$here/words"
case " $* " in
  *" apply "*)
    for word; do case $word in --filename=*) file=${word#--filename=} ;; esac; done
    cat "$file" >>"$here/applied" ;;
  *" get "*) [ ! -e "$here/applied" ] || cat "$here/pods" ;;
  *" exec "*) cat "$here/roster" ;;
  *" logs "*) echo "the learner's last words" ;;
  *" delete job,"*) : >"$here/pods" ;;
esac
exit 0
)";

class KubernetesLaunchTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    fs::create_directories(There());
    std::ofstream(There() + "/kubectl") << kKubectl;
    fs::permissions(There() + "/kubectl", fs::perms::owner_all);
    json roster = {{"workers", json::array()}};
    for (const char* role : {"learner", "rollout", "tools", "reward"}) {
      roster["workers"].push_back({{"worker", role},
                                   {"role", role},
                                   {"host", "pod"},
                                   {"state", "here"},
                                   {"doing", ""},
                                   {"busy", 0.5},
                                   {"rate", nullptr},
                                   {"rate_of", ""},
                                   {"beat_age_s", 1}});
    }
    std::ofstream(There() + "/roster") << roster;
    Say("Job|demo-learner|||||||||\nPod|demo-learner-x|learner|Running|n1|0||||Ready|\n");
    file_ = Write(2, "backend = \"kubernetes\"\n");
  }
  std::string There() const { return folder_ / "cluster"; }
  void Say(const std::string& pods) { std::ofstream(There() + "/pods") << pods; }
  std::string Told(const char* file) const { return TextOf(There() + "/" + file); }
  ProcessOutput Launch(const std::string& words) {
    return RunProcess(
        {"sh", "-c",
         "PATH=" + There() + ":$PATH exec " + BinaryDir() + "/tidemill launch " + words + " 2>&1"},
        std::chrono::seconds(60), size_t{1} << 20);
  }
  static std::string WithoutComments(const std::string& text) {
    std::istringstream lines(text);
    std::string kept;
    for (std::string line; std::getline(lines, line);) {
      if (line[0] != '#') kept += line + "\n";
    }
    return kept;
  }

  std::string file_;
};

TEST_F(KubernetesLaunchTest, WhatIsAppliedIsWhatTheDryRunPrintsAndSecretsAreInTheSecretAlone) {
  const ProcessOutput dry = Launch("--dry-run " + file_);
  ASSERT_EQ(dry.exit_code, 0) << dry.output;
  EXPECT_EQ(Told("words"), "") << "a dry run asks nobody";
  const ProcessOutput started = Launch("--detach " + file_);
  ASSERT_EQ(started.exit_code, 0) << started.output;
  EXPECT_THAT(started.output, HasSubstr("the fleet is there"));
  std::string applied = Told("applied");
  const size_t at = applied.find("redis://:") + 9;
  const std::string password = applied.substr(at, applied.find('@', at) - at);
  EXPECT_EQ(password.size(), 64u);
  EXPECT_THAT(Told("words"), Not(HasSubstr(password)));
  EXPECT_THAT(TextOf(Fleet() + "/manifests.yaml"), Not(HasSubstr(password)));
  EXPECT_FALSE(fs::exists(Fleet() + "/secret.yaml"));
  // The same but for what is not shown; the two files are separated where both are printed.
  const size_t token = applied.find("metrics-token: ") + 15;
  applied.replace(token, applied.find('\n', token) - token, "not-shown");
  for (size_t found; (found = applied.find(password)) != std::string::npos;)
    applied.replace(found, password.size(), "not-shown");
  applied.insert(applied.find("apiVersion", 1), "---\n");
  EXPECT_EQ(applied, WithoutComments(dry.output));
  // It is there; another is not started beside it.
  EXPECT_THAT(Launch("--detach " + file_).output,
              HasSubstr("a fleet of this run is on the cluster"));
  const ProcessOutput down = Launch("down demo --folder " + folder_ / "fleets");
  EXPECT_EQ(down.exit_code, 0) << down.output;
  EXPECT_THAT(Told("words"), HasSubstr("delete job,deployment,statefulset,service,networkpolicy,"
                                       "configmap,secret --selector=app=tidemill,run=demo"));
}

TEST_F(KubernetesLaunchTest, ARunThatIsDoneLeavesItsJobAndOneThatFailedShowsItsLog) {
  ASSERT_EQ(Launch("--detach " + file_).exit_code, 0);
  Say("Job|demo-learner||||||||SuccessCriteriaMet Complete|\n");
  const ProcessOutput done = Launch("attach demo --folder " + folder_ / "fleets");
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(Told("words"), HasSubstr(" delete deployment,"));
  EXPECT_THAT(Told("words"), Not(HasSubstr(" delete job,")));
  Say("Job|demo-learner||||||||Failed|Container learner failed with exit code 2\n"
      "Pod|demo-learner-x|learner|Failed|n1|0|||2||\n");
  const ProcessOutput failed = Launch("attach demo --folder " + folder_ / "fleets");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, HasSubstr("failed with exit code 2"));
  EXPECT_THAT(failed.output, HasSubstr("the learner's last words"));
  EXPECT_THAT(Told("words"), HasSubstr(" delete job,"));
}

// Slurm as this test needs it: a job runs at once, in the background, and its process id is its
// number; what is left of the queue is asked of the system.
constexpr char kSbatch[] = R"(#!/bin/sh
for script; do :; done
export SLURM_ARRAY_TASK_ID=1
bash -c 'export SLURM_ARRAY_JOB_ID=$$ SLURM_JOB_ID=$$; exec bash "$0"' "$script" \
  >>"${script%.sh}-1.log" 2>&1 </dev/null &
echo $!
)";
constexpr char kSqueue[] = R"(#!/bin/sh
for word; do case $word in --jobs=*) ids=${word#--jobs=} ;; esac; done
for id in $(echo "$ids" | tr , ' '); do
  if kill -0 "$id" 2>/dev/null; then echo "$id|1|RUNNING|here|None"
  else echo "$id|1|FAILED|here|NonZeroExitCode"; fi
done
)";

TEST_F(LaunchTest, ALearnerOnSlurmThatCannotWorkEndsAllJobsAndIsReported) {
  const std::string programs = folder_ / "slurm";
  fs::create_directories(programs);
  const std::vector<std::pair<const char*, std::string>> written = {
      {"sbatch", kSbatch}, {"squeue", kSqueue}, {"scancel", "#!/bin/sh\nkill -TERM \"$@\"\n"}};
  for (const auto& [name, text] : written) {
    std::ofstream(programs + "/" + name) << text;
    fs::permissions(programs + "/" + name, fs::perms::owner_all);
  }
  std::string file = Write(2, "backend = \"slurm\"\nredis.address = \"127.0.0.1\"\nredis.port = " +
                                  std::to_string(FreePort()) + "\n");
  std::string text = TextOf(file);
  const std::string learner = "role = \"learner\"\n";
  text.insert(text.find(learner) + learner.size(), "set = [\"threads.trainer=nonsense\"]\n");
  std::ofstream(file) << text;
  const ProcessOutput ran = RunProcess(
      {"sh", "-c",
       "PATH=" + programs + ":$PATH exec " + BinaryDir() + "/tidemill launch " + file + " 2>&1"},
      std::chrono::seconds(240));
  EXPECT_EQ(ran.exit_code, 1) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("the fleet failed: learner-1 exited with status 2"));
  EXPECT_THAT(ran.output, HasSubstr("threads.trainer")) << "the end of its log";
}

}  // namespace
}  // namespace tidemill
