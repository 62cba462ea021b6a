// Fleets of objects of Kubernetes, by kubectl.
#include <sys/stat.h>
#include <unistd.h>

#include "cli/fleet_backend.h"
#include "core/files.h"
#include "core/secret.h"
#include "scale/launch/fleet_plan.h"
#include "scale/launch/kubernetes.h"

namespace tidemill {
namespace {

constexpr size_t kConfigBytes = 1u << 20;  // what a ConfigMap may hold

class Pods final : public FleetBackend {
 public:
  explicit Pods(FleetFile fleet) : fleet_(std::move(fleet)) {}

  Result<std::string> DryRun() override {
    TM_ASSIGN_OR_RETURN(const std::string config, Config());
    std::string text;
    if (fleet_.kubernetes.secret.empty()) {
      KubernetesSecrets secrets = SecretsWithRedis(fleet_, kNotShown);
      if (!fleet_.bus_file.empty()) secrets = {kNotShown, "", ""};
      secrets.metrics_token = kNotShown;
      text += "# " + ShellLine(Kubectl(ApplyWords(SecretFile()))) +
              "\n# What is not shown is made at the start, or read from bus_file.\n" +
              KubernetesSecret(fleet_, secrets) + "---\n";
    }
    return text + "# " + ShellLine(Kubectl(ApplyWords(ManifestFile()))) + "\n" +
           KubernetesManifests(fleet_, config);
  }

  Status Start() override {
    TM_ASSIGN_OR_RETURN(const std::string config, Config());
    TM_ASSIGN_OR_RETURN(const ClusterState earlier, Look());
    if (!earlier.fleet.over) {
      return Exists(fleet_.run +
                    ": a fleet of this run is on the cluster; see it with tidemill launch attach, "
                    "end it with tidemill launch down");
    }
    TM_RETURN_IF_ERROR(MakeDirectories(fleet_.RunFolder()));
    if (chmod(fleet_.RunFolder().c_str(), 0700) != 0) {
      return FileFailure(fleet_.RunFolder(), "cannot be closed to others", errno);
    }
    unlink(EndedFile().c_str());
    // A Job that is done cannot be changed; its successor has the same name.
    TM_RETURN_IF_ERROR(Run({"delete", "job", LearnerJob(fleet_), "--ignore-not-found"}));
    Status applied = ApplySecret();
    if (applied.ok()) {
      applied = WriteFileAtomically(ManifestFile(), KubernetesManifests(fleet_, config));
    }
    if (applied.ok()) applied = Run(ApplyWords(ManifestFile()));
    if (!applied.ok()) (void)Run(DeleteWords("job,"));
    return applied;
  }

  Result<std::vector<FleetState>> States() override {
    TM_ASSIGN_OR_RETURN(ClusterState cluster, Look());
    FleetState& state = cluster.fleet;
    const bool ended = access(EndedFile().c_str(), F_OK) == 0;
    if (!cluster.job && !ended && state.failure.empty()) {
      if (access(ManifestFile().c_str(), F_OK) != 0) {
        return NotFound(fleet_.RunFolder() + ": no fleet was started here");
      }
      state.failure = "its objects were deleted before the run was done";
      state.over = true;
    }
    return std::vector<FleetState>{state};
  }

  Result<std::vector<WorkerHealth>> Roster() override {
    const std::string program = fleet_.program.empty() ? "tidemill" : fleet_.program;
    TM_ASSIGN_OR_RETURN(
        const std::string text,
        RunForOutput(Kubectl({"exec", "job/" + LearnerJob(fleet_), "--container=learner", "--",
                              program, "status", "--json"})));
    return ReadHealth(text);
  }

  Status Down() override {
    TM_RETURN_IF_ERROR(States().status());
    TM_RETURN_IF_ERROR(WriteFileAtomically(EndedFile(), ""));
    return Run(DeleteWords("job,"));
  }

  // The learner's Job stays, with its log, until the run is started again or ended by `down`.
  Status Leave(const std::string& failure) override {
    if (failure.empty()) TM_RETURN_IF_ERROR(WriteFileAtomically(EndedFile(), ""));
    return Run(DeleteWords(failure.empty() ? "" : "job,"));
  }

  std::string LogOf(const FleetState& state, const std::string& process) override {
    std::vector<std::string> words = {"logs", "--tail=5", process};
    for (const ProcessState& pod : state.processes) {
      // The container that died is the one before.
      if (pod.name == process && pod.starts > 1) words.insert(words.end(), "--previous");
    }
    const Result<std::string> end = RunForOutput(Kubectl(words));
    return ShellLine(Kubectl({"logs", process})) + "\n" +
           (end.ok() ? *end : end.status().message());
  }

 private:
  static constexpr char kNotShown[] = "not-shown";

  std::string ManifestFile() const { return fleet_.RunFolder() + "/manifests.yaml"; }
  std::string SecretFile() const { return fleet_.RunFolder() + "/secret.yaml"; }
  // There when a person ended the fleet, or the run is done.
  std::string EndedFile() const { return fleet_.RunFolder() + "/ended"; }

  std::vector<std::string> Kubectl(const std::vector<std::string>& words) const {
    std::vector<std::string> all = fleet_.kubernetes.command;
    all.push_back("--namespace=" + fleet_.kubernetes.name_space);
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  static std::vector<std::string> ApplyWords(const std::string& file) {
    return {"apply", "--filename=" + file};
  }
  // Claims, and what is in them, stay.
  std::vector<std::string> DeleteWords(const std::string& more) const {
    return {"delete", more + "deployment,statefulset,service,networkpolicy,configmap,secret",
            "--selector=" + KubernetesSelector(fleet_), "--ignore-not-found", "--wait=false"};
  }
  Status Run(const std::vector<std::string>& words) const {
    return RunForOutput(Kubectl(words)).status();
  }
  Result<std::string> Config() const { return ReadFileBounded(fleet_.config, kConfigBytes); }
  Result<ClusterState> Look() const {
    TM_ASSIGN_OR_RETURN(const std::string text, RunForOutput(Kubectl(PodWords(fleet_))));
    return ReadPods(fleet_, text);
  }

  // The file is there for as long as kubectl reads it.
  Status ApplySecret() const {
    if (!fleet_.kubernetes.secret.empty()) return Ok();
    KubernetesSecrets secrets;
    if (fleet_.bus_file.empty()) {
      secrets = SecretsWithRedis(fleet_, NewSecret());
    } else {
      TM_ASSIGN_OR_RETURN(secrets.bus_url, ReadBusFile(fleet_));
    }
    secrets.metrics_token = NewSecret();
    const std::string file = SecretFile();
    Status status = WriteFileAtomically(file, KubernetesSecret(fleet_, secrets));
    if (status.ok()) status = Run(ApplyWords(file));
    unlink(file.c_str());
    return status;
  }

  const FleetFile fleet_;
};

}  // namespace

std::unique_ptr<FleetBackend> KubernetesBackend(const FleetFile& fleet) {
  return std::make_unique<Pods>(fleet);
}

}  // namespace tidemill
