// How a fleet on Kubernetes stands: what kubectl is asked, and what its answer means.
#include <algorithm>
#include <map>
#include <sstream>

#include "scale/launch/kubernetes.h"

namespace tidemill {
namespace {

// Fields of a line, in the order in which PodWords asks for them.
enum PodField {
  kKind,
  kPod,
  kRole,
  kPhase,
  kNode,
  kRestarts,
  kWaits,       // why a container does not run: "CrashLoopBackOff"
  kLastExit,    // exit code of the container before this one
  kExit,        // of this one
  kConditions,  // those that are true, with blanks between
  kMessage,     // of a Job that failed
  kPodFields
};

std::vector<std::string> FieldsOf(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    // The message, the last one, may have any character.
    if (c == '|' && fields.size() < kPodFields) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

bool Has(const std::string& words, const std::string& word) {
  std::istringstream list(words);
  for (std::string one; list >> one;) {
    if (one == word) return true;
  }
  return false;
}

uint32_t CountOf(const std::string& digits) {
  return static_cast<uint32_t>(std::strtoul(digits.c_str(), nullptr, 10));
}

bool CannotRun(const std::string& waits) {
  for (const char* why : {"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull",
                          "InvalidImageName", "CreateContainerConfigError"}) {
    if (waits == why) return true;
  }
  return false;
}

ProcessState PodState(const std::vector<std::string>& fields) {
  ProcessState pod;
  pod.name = fields[kPod];
  pod.role = fields[kRole];
  pod.state = fields[kPhase];
  std::transform(pod.state.begin(), pod.state.end(), pod.state.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (!fields[kWaits].empty()) pod.state += " (" + fields[kWaits] + ")";
  if (!fields[kNode].empty()) pod.state += " on " + fields[kNode];
  pod.starts = CountOf(fields[kRestarts]) + 1;
  const std::string& code = fields[kExit].empty() ? fields[kLastExit] : fields[kExit];
  if (!code.empty()) pod.last_end = "exited with status " + code;
  pod.died = (!code.empty() && code != "0") || CannotRun(fields[kWaits]);
  return pod;
}

bool IsWrong(const std::vector<std::string>& fields) {
  return fields[kExit] == "2" || (fields[kExit].empty() && fields[kLastExit] == "2");
}

}  // namespace

std::vector<std::string> PodWords(const FleetFile& fleet) {
  return {"get", "jobs,pods", "--selector=" + KubernetesSelector(fleet),
          "--output=jsonpath={range .items[*]}{.kind}|{.metadata.name}|{.metadata.labels.role}|"
          "{.status.phase}|{.spec.nodeName}|{.status.containerStatuses[*].restartCount}|"
          "{.status.containerStatuses[*].state.waiting.reason}|"
          "{.status.containerStatuses[*].lastState.terminated.exitCode}|"
          "{.status.containerStatuses[*].state.terminated.exitCode}|"
          "{.status.conditions[?(@.status==\"True\")].type}|"
          "{.status.conditions[?(@.type==\"Failed\")].message}{\"\\n\"}{end}"};
}

Result<ClusterState> ReadPods(const FleetFile& fleet, const std::string& text) {
  ClusterState cluster;
  FleetState& state = cluster.fleet;
  state.run = fleet.run;
  bool done = false, failed = false;
  std::map<std::string, std::pair<size_t, size_t>> wrong;  // of a role: those that are, and all
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    const std::vector<std::string> fields = FieldsOf(line);
    if (fields.size() != kPodFields || (fields[kKind] != "Job" && fields[kKind] != "Pod")) {
      return Corrupt("kubectl: unexpected line \"" + line + "\"");
    }
    if (fields[kKind] == "Job") {
      cluster.job = true;
      done = Has(fields[kConditions], "Complete");
      failed = Has(fields[kConditions], "Failed");
      if (failed) state.failure = "the learner's job failed: " + fields[kMessage];
      continue;
    }
    auto& [wrong_ones, all] = wrong[fields[kRole]];
    wrong_ones += IsWrong(fields) ? 1 : 0;
    ++all;
    state.processes.push_back(PodState(fields));
  }
  for (const auto& [role, counts] : wrong) {
    if (role == "learner" || done || failed || counts.first < counts.second) continue;
    state.failure = "every " + role + " worker exited with status 2";
  }
  state.over = done || !state.failure.empty() || (!cluster.job && state.processes.empty());
  state.kept = !state.over;
  state.phase = state.over ? "over" : cluster.job ? "running" : "stopping";
  return cluster;
}

}  // namespace tidemill
