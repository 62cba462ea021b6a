// A fleet as objects of Kubernetes: the learner as a Job with a volume, the other roles as
// Deployments, Redis as a StatefulSet where the fleet brings its own. Text alone; kubectl is run by
// the command (cli/fleet_kubernetes.cc).
//
// No secret is in a manifest or on a command line: workers get the URL of the bus from a Secret,
// which is either made with the fleet (KubernetesSecret) or named in the file, as deploy/secrets.sh
// makes it.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "scale/launch/fleet_file.h"
#include "scale/launch/fleet_state.h"

namespace tidemill {

// What a Secret of ours holds.
struct KubernetesSecrets {
  std::string bus_url;
  std::string metrics_token;
  std::string redis_config = {};  // empty: the bus is elsewhere
};

// The URL of a Redis of ours and its config, with this password.
KubernetesSecrets SecretsWithRedis(const FleetFile& fleet, const std::string& password);

// The Secret as YAML. Only where the file names none.
std::string KubernetesSecret(const FleetFile& fleet, const KubernetesSecrets& secrets);

// Every other object as YAML documents. `config` is the text of the learner's config.
std::string KubernetesManifests(const FleetFile& fleet, const std::string& config);

// "app=tidemill,run=demo": of every object of the fleet.
std::string KubernetesSelector(const FleetFile& fleet);
// "demo-learner": of the Job.
std::string LearnerJob(const FleetFile& fleet);

// The words behind kubectl that ask how jobs and pods stand, a line each.
std::vector<std::string> PodWords(const FleetFile& fleet);

struct ClusterState {
  FleetState fleet;
  bool job = false;  // the learner's is there
};

// The answer. The fleet is over where the learner's Job is complete or failed, or where nothing is
// left; it failed where the Job did, or where every pod of a role exited with wrong words or a
// wrong config. kCorrupt: a line is none of ours.
Result<ClusterState> ReadPods(const FleetFile& fleet, const std::string& text);

}  // namespace tidemill
