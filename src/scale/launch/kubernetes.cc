#include "scale/launch/kubernetes.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "scale/launch/fleet_plan.h"
#include "scale/launch/yaml_text.h"

namespace tidemill {
namespace {

using Manifest = nlohmann::ordered_json;

constexpr uint16_t kRedisPort = 6379;
constexpr uint16_t kMetricsPort = 9100;
constexpr int kWorkerUser = 10001;  // of deploy/Dockerfile
constexpr int kRedisUser = 999;     // of Redis' own image
constexpr char kBusFolder[] = "/etc/tidemill/bus";
constexpr char kConfigFile[] = "/etc/tidemill/run.toml";
constexpr char kRunsFolder[] = "/runs";

bool BringsSecret(const FleetFile& fleet) {
  return fleet.kubernetes.secret.empty();
}
bool BringsRedis(const FleetFile& fleet) {
  return BringsSecret(fleet) && fleet.bus_file.empty();
}

std::string Named(const FleetFile& fleet, const std::string& part) {
  return fleet.run + "-" + part;
}
std::string SecretName(const FleetFile& fleet) {
  return BringsSecret(fleet) ? Named(fleet, "bus") : fleet.kubernetes.secret;
}
std::string ClaimName(const FleetFile& fleet) {
  return fleet.kubernetes.claim.empty() ? Named(fleet, "runs") : fleet.kubernetes.claim;
}

Manifest Labels(const FleetFile& fleet) {
  return {{"app", "tidemill"}, {"run", fleet.run}};
}
// Of the pods of one [[workers]] table: two tables of a role must not share pods.
Manifest Labels(const FleetFile& fleet, const std::string& role, const std::string& name) {
  Manifest labels = Labels(fleet);
  labels["role"] = role;
  labels["workers"] = name;
  return labels;
}

Manifest Object(const FleetFile& fleet, const char* version, const char* kind,
                const std::string& name) {
  return {
      {"apiVersion", version},
      {"kind", kind},
      {"metadata",
       {{"name", name}, {"namespace", fleet.kubernetes.name_space}, {"labels", Labels(fleet)}}}};
}

Manifest FromSecret(const FleetFile& fleet, const std::string& role) {
  return {
      {"name", "TIDEMILL_BUS"},
      {"valueFrom",
       {{"secretKeyRef",
         {{"name", SecretName(fleet)}, {"key", BringsSecret(fleet) ? "url" : role + ".url"}}}}}};
}

Manifest Environment(const FleetFile& fleet, const std::string& role) {
  Manifest environment = Manifest::array();
  environment.push_back(FromSecret(fleet, role));
  environment.push_back({{"name", "TIDEMILL_RUN"}, {"value", fleet.run}});
  if (BringsSecret(fleet)) return environment;
  const std::string folder = kBusFolder;
  environment.push_back(
      role == "learner"
          ? Manifest({{"name", "TIDEMILL_SIGN_KEY"}, {"value", folder + "/sign.key"}})
          : Manifest({{"name", "TIDEMILL_VERIFY_KEY"}, {"value", folder + "/sign.key.pub"}}));
  return environment;
}

Manifest Probe(const char* path, int period_s) {
  return {{"httpGet", {{"path", path}, {"port", "metrics"}}}, {"periodSeconds", period_s}};
}

Manifest Resources(const FleetFile& fleet, const FleetWorkers& workers) {
  Manifest requests = Manifest::object(), limits = Manifest::object();
  if (workers.cores > 0) requests["cpu"] = std::to_string(workers.cores);
  if (workers.memory_gb > 0) {
    requests["memory"] = limits["memory"] = std::to_string(workers.memory_gb) + "Gi";
  }
  // GPUs are given out whole: request and limit are one.
  if (workers.gpus > 0) limits[fleet.kubernetes.gpu_resource] = std::to_string(workers.gpus);
  Manifest resources = Manifest::object();
  if (!requests.empty()) resources["requests"] = requests;
  if (!limits.empty()) resources["limits"] = limits;
  return resources;
}

// The words behind the program, which is the image's entry point.
std::vector<std::string> Arguments(const FleetFile& fleet, const FleetWorkers& workers) {
  FleetFile inside = fleet;
  inside.config = kConfigFile;
  std::vector<std::string> words = WorkerWords(inside, workers, "");
  words.erase(words.begin());
  for (const std::string& word :
       {std::string("--metrics-address"), std::string("0.0.0.0"), std::string("--metrics-port"),
        std::to_string(kMetricsPort), std::string("--metrics-token-file"),
        std::string(kBusFolder) + "/metrics-token"}) {
    words.push_back(word);
  }
  return words;
}

// Tools make boxes: user namespaces and mounts in them, which the default filter forbids. The box's
// own filter confines the agent's programs.
Manifest ContainerSecurity(const std::string& role) {
  if (role == "tools") return {{"seccompProfile", {{"type", "Unconfined"}}}};
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", Manifest::array({"ALL"})}}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

Manifest Container(const FleetFile& fleet, const FleetWorkers& workers) {
  Manifest container = {{"name", workers.role}, {"image", fleet.kubernetes.image}};
  if (!fleet.program.empty()) container["command"] = Manifest::array({fleet.program});
  container["args"] = Arguments(fleet, workers);
  if (workers.role == "learner") container["workingDir"] = fleet.directory;
  container["env"] = Environment(fleet, workers.role);
  container["ports"] = Manifest::array({{{"name", "metrics"}, {"containerPort", kMetricsPort}}});
  // A worker waits for the learner before it serves: for an hour.
  container["startupProbe"] = Probe("/healthz", 5);
  container["startupProbe"]["failureThreshold"] = 720;
  container["livenessProbe"] = Probe("/healthz", 10);
  container["readinessProbe"] = Probe("/readyz", 5);
  container["securityContext"] = ContainerSecurity(workers.role);
  const Manifest resources = Resources(fleet, workers);
  if (!resources.empty()) container["resources"] = resources;
  Manifest mounts =
      Manifest::array({{{"name", "bus"}, {"mountPath", kBusFolder}, {"readOnly", true}}});
  if (workers.role == "learner") {
    mounts.push_back({{"name", "config"},
                      {"mountPath", kConfigFile},
                      {"subPath", "run.toml"},
                      {"readOnly", true}});
    mounts.push_back({{"name", "runs"}, {"mountPath", kRunsFolder}});
  }
  container["volumeMounts"] = mounts;
  return container;
}

// The files of the Secret that this role may see.
Manifest BusVolume(const FleetFile& fleet, const std::string& role) {
  Manifest items = Manifest::array({{{"key", "metrics-token"}, {"path", "metrics-token"}}});
  if (!BringsSecret(fleet)) {
    const std::string key = role == "learner" ? "sign.key" : "sign.key.pub";
    items.push_back({{"key", "tls.pem"}, {"path", "tls.pem"}});
    items.push_back({{"key", key}, {"path", key}});
  }
  // The group of the pod reads them, others do not: 0440.
  return {{"name", "bus"},
          {"secret", {{"secretName", SecretName(fleet)}, {"defaultMode", 0440}, {"items", items}}}};
}

Manifest PodTemplate(const FleetFile& fleet, const FleetWorkers& workers, const std::string& name) {
  Manifest spec = Manifest::object();
  if (workers.role == "learner") spec["restartPolicy"] = "Never";
  // A worker that is told to end finishes what it holds; a tool may take long.
  spec["terminationGracePeriodSeconds"] = workers.role == "tools" ? 600 : 120;
  spec["automountServiceAccountToken"] = false;
  spec["securityContext"] = {{"runAsNonRoot", true},
                             {"runAsUser", kWorkerUser},
                             {"runAsGroup", kWorkerUser},
                             {"fsGroup", kWorkerUser}};
  spec["containers"] = Manifest::array({Container(fleet, workers)});
  spec["volumes"] = Manifest::array({BusVolume(fleet, workers.role)});
  if (workers.role == "learner") {
    spec["volumes"].push_back(
        {{"name", "config"}, {"configMap", {{"name", Named(fleet, "config")}}}});
    spec["volumes"].push_back(
        {{"name", "runs"}, {"persistentVolumeClaim", {{"claimName", ClaimName(fleet)}}}});
  }
  return {{"metadata",
           {{"labels", Labels(fleet, workers.role, name)},
            {"annotations",
             {{"prometheus.io/scrape", "true"},
              {"prometheus.io/port", std::to_string(kMetricsPort)}}}}},
          {"spec", spec}};
}

// One pod at a time, another when it fails; a wrong config (exit status 2) is final, and a pod that
// the cluster evicted is no failure.
Manifest Learner(const FleetFile& fleet, const FleetWorkers& workers) {
  Manifest job = Object(fleet, "batch/v1", "Job", LearnerJob(fleet));
  const Manifest wrong = {
      {"action", "FailJob"},
      {"onExitCodes",
       {{"containerName", "learner"}, {"operator", "In"}, {"values", Manifest::array({2})}}}};
  const Manifest evicted = {
      {"action", "Ignore"},
      {"onPodConditions", Manifest::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}};
  job["spec"] = {{"backoffLimit", 1000},
                 {"podFailurePolicy", {{"rules", Manifest::array({wrong, evicted})}}},
                 {"template", PodTemplate(fleet, workers, "learner")}};
  return job;
}

Manifest Workers(const FleetFile& fleet, const FleetWorkers& workers, const std::string& name) {
  Manifest deployment = Object(fleet, "apps/v1", "Deployment", Named(fleet, name));
  deployment["spec"] = {{"replicas", workers.count},
                        {"selector", {{"matchLabels", Labels(fleet, workers.role, name)}}},
                        {"template", PodTemplate(fleet, workers, name)}};
  return deployment;
}

Manifest Claim(const FleetFile& fleet) {
  Manifest claim = Object(fleet, "v1", "PersistentVolumeClaim", ClaimName(fleet));
  claim["spec"] = {
      {"accessModes", Manifest::array({"ReadWriteOnce"})},
      {"resources",
       {{"requests", {{"storage", std::to_string(fleet.kubernetes.storage_gb) + "Gi"}}}}}};
  if (!fleet.kubernetes.storage_class.empty()) {
    claim["spec"]["storageClassName"] = fleet.kubernetes.storage_class;
  }
  return claim;
}

Manifest ConfigOf(const FleetFile& fleet, const std::string& config) {
  Manifest map = Object(fleet, "v1", "ConfigMap", Named(fleet, "config"));
  map["data"] = {{"run.toml", config}};
  return map;
}

Manifest RedisService(const FleetFile& fleet) {
  Manifest service = Object(fleet, "v1", "Service", Named(fleet, "redis"));
  service["spec"] = {{"selector", Labels(fleet, "redis", "redis")},
                     {"ports", Manifest::array({{{"name", "redis"}, {"port", kRedisPort}}})}};
  return service;
}

Manifest RedisSet(const FleetFile& fleet) {
  const std::string name = Named(fleet, "redis");
  Manifest set = Object(fleet, "apps/v1", "StatefulSet", name);
  const Manifest labels = Labels(fleet, "redis", "redis");
  Manifest container = {
      {"name", "redis"},
      {"image", fleet.kubernetes.redis_image},
      {"command", Manifest::array({fleet.redis_program, "/etc/redis/redis.conf"})},
      {"ports", Manifest::array({{{"name", "redis"}, {"containerPort", kRedisPort}}})},
      {"readinessProbe", {{"tcpSocket", {{"port", "redis"}}}, {"periodSeconds", 5}}},
      {"securityContext", ContainerSecurity("redis")},
      {"volumeMounts",
       Manifest::array({{{"name", "data"}, {"mountPath", "/data"}},
                        {{"name", "config"}, {"mountPath", "/etc/redis"}, {"readOnly", true}}})}};
  Manifest items = Manifest::array({{{"key", "redis.conf"}, {"path", "redis.conf"}}});
  Manifest spec = {
      {"automountServiceAccountToken", false},
      {"securityContext",
       {{"runAsNonRoot", true},
        {"runAsUser", kRedisUser},
        {"runAsGroup", kRedisUser},
        {"fsGroup", kRedisUser}}},
      {"containers", Manifest::array({container})},
      {"volumes",
       Manifest::array(
           {{{"name", "config"},
             {"secret",
              {{"secretName", SecretName(fleet)}, {"defaultMode", 0440}, {"items", items}}}}})}};
  Manifest data = {{"metadata", {{"name", "data"}}},
                   {"spec",
                    {{"accessModes", Manifest::array({"ReadWriteOnce"})},
                     {"resources", {{"requests", {{"storage", "10Gi"}}}}}}}};
  if (!fleet.kubernetes.storage_class.empty()) {
    data["spec"]["storageClassName"] = fleet.kubernetes.storage_class;
  }
  set["spec"] = {{"serviceName", name},
                 {"replicas", 1},
                 {"selector", {{"matchLabels", labels}}},
                 {"template", {{"metadata", {{"labels", labels}}}, {"spec", spec}}},
                 {"volumeClaimTemplates", Manifest::array({data})}};
  return set;
}

// Redis answers this run's pods alone, and tool workers reach nothing but Redis and names: the
// agent's programs run on their nodes.
std::vector<Manifest> Policies(const FleetFile& fleet) {
  const Manifest redis = {{"podSelector", {{"matchLabels", Labels(fleet, "redis", "redis")}}}};
  Manifest ingress = Object(fleet, "networking.k8s.io/v1", "NetworkPolicy", Named(fleet, "redis"));
  ingress["spec"] = redis;
  ingress["spec"]["policyTypes"] = Manifest::array({"Ingress"});
  ingress["spec"]["ingress"] = Manifest::array(
      {{{"from", Manifest::array({{{"podSelector", {{"matchLabels", Labels(fleet)}}}}})},
        {"ports", Manifest::array({{{"port", kRedisPort}}})}}});
  Manifest egress = Object(fleet, "networking.k8s.io/v1", "NetworkPolicy", Named(fleet, "tools"));
  Manifest tools = Labels(fleet);
  tools["role"] = "tools";
  const Manifest names = {{"ports", Manifest::array({{{"port", 53}, {"protocol", "UDP"}},
                                                     {{"port", 53}, {"protocol", "TCP"}}})}};
  egress["spec"] = {
      {"podSelector", {{"matchLabels", tools}}},
      {"policyTypes", Manifest::array({"Egress"})},
      {"egress", Manifest::array({{{"to", Manifest::array({redis})},
                                   {"ports", Manifest::array({{{"port", kRedisPort}}})}},
                                  names})}};
  return {ingress, egress};
}

}  // namespace

KubernetesSecrets SecretsWithRedis(const FleetFile& fleet, const std::string& password) {
  const FleetRedis redis = {Named(fleet, "redis"), kRedisPort, password};
  KubernetesSecrets secrets;
  secrets.bus_url = redis.Url();
  secrets.redis_config = redis.Config("* -::*") + "dir /data\n";
  return secrets;
}

std::string KubernetesSecret(const FleetFile& fleet, const KubernetesSecrets& secrets) {
  Manifest secret = Object(fleet, "v1", "Secret", SecretName(fleet));
  secret["stringData"] = {{"url", secrets.bus_url}, {"metrics-token", secrets.metrics_token}};
  if (!secrets.redis_config.empty()) secret["stringData"]["redis.conf"] = secrets.redis_config;
  return YamlText(secret);
}

std::string KubernetesManifests(const FleetFile& fleet, const std::string& config) {
  std::vector<Manifest> manifests;
  manifests.push_back(ConfigOf(fleet, config));
  if (fleet.kubernetes.claim.empty()) manifests.push_back(Claim(fleet));
  if (BringsRedis(fleet)) {
    manifests.push_back(RedisService(fleet));
    manifests.push_back(RedisSet(fleet));
    for (Manifest& policy : Policies(fleet)) manifests.push_back(std::move(policy));
  }
  std::map<std::string, int> seen;
  std::vector<Manifest> workers;
  for (const FleetWorkers& table : fleet.workers) {
    if (table.role == "learner") {
      manifests.push_back(Learner(fleet, table));
      continue;
    }
    const int number = ++seen[table.role];
    const std::string name = table.role + (number > 1 ? "-" + std::to_string(number) : "");
    workers.push_back(Workers(fleet, table, name));
  }
  manifests.insert(manifests.end(), workers.begin(), workers.end());
  std::string text;
  for (const Manifest& manifest : manifests) {
    text += (text.empty() ? "" : "---\n") + YamlText(manifest);
  }
  return text;
}

std::string KubernetesSelector(const FleetFile& fleet) {
  return "app=tidemill,run=" + fleet.run;
}
std::string LearnerJob(const FleetFile& fleet) {
  return Named(fleet, "learner");
}

}  // namespace tidemill
