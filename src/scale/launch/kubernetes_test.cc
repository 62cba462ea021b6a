// The objects of a fleet have what the API server asks for: names, selectors that choose their own
// pods, volumes that are there, keys that their Secret has.
#include "scale/launch/kubernetes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "scale/launch/yaml_text.h"

namespace tidemill {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

FleetFile ClusterFleet() {
  FleetFile fleet;
  fleet.run = "demo";
  fleet.config = "/c/run.toml";
  fleet.folder = "/f";
  fleet.directory = "/runs";
  fleet.backend = "kubernetes";
  fleet.set = {"run.steps=3"};
  fleet.kubernetes.name_space = "lab";
  fleet.workers = {{.role = "rollout", .count = 3, .gpus = 2, .cores = 4, .memory_gb = 8},
                   {.role = "learner", .gpus = 1},
                   {.role = "tools", .cores = 2, .set = {"tools.cache=false"}},
                   {.role = "tools", .count = 2},
                   {.role = "reward"}};
  return fleet;
}

std::vector<YAML::Node> Objects(const FleetFile& fleet) {
  return YAML::LoadAll(KubernetesManifests(fleet, "[run]\nsteps = 3\n"));
}

YAML::Node ObjectOf(const std::vector<YAML::Node>& objects, const std::string& kind,
                    const std::string& name) {
  for (const YAML::Node& object : objects) {
    if (object["kind"].as<std::string>() == kind &&
        object["metadata"]["name"].as<std::string>() == name) {
      return object;
    }
  }
  ADD_FAILURE() << "there is no " << kind << " " << name;
  return YAML::Load("{}");
}

using LabelMap = std::map<std::string, std::string>;

bool Chooses(const LabelMap& selector, const LabelMap& labels) {
  return std::all_of(selector.begin(), selector.end(), [&](const auto& one) {
    const auto found = labels.find(one.first);
    return found != labels.end() && found->second == one.second;
  });
}

// What is below the keys; an empty list where one of them is not there.
YAML::Node Below(const YAML::Node& from, const std::vector<std::string>& keys) {
  YAML::Node node = YAML::Clone(from);
  for (const std::string& key : keys) {
    if (!node.IsMap() || !node[key]) return YAML::Load("[]");
    node.reset(node[key]);
  }
  return node;
}

// The pods that an object makes; none where it makes none.
YAML::Node PodOf(const YAML::Node& object) {
  return object["spec"] && object["spec"]["template"] ? object["spec"]["template"] : YAML::Node();
}

void CheckNames(const YAML::Node& object) {
  static const std::regex kName("[a-z]([-a-z0-9]{0,61}[a-z0-9])?");
  static const std::regex kValue("([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?");
  EXPECT_TRUE(object["apiVersion"] && object["kind"]);
  const auto name = object["metadata"]["name"].as<std::string>();
  EXPECT_TRUE(std::regex_match(name, kName)) << name;
  EXPECT_EQ(object["metadata"]["namespace"].as<std::string>(), "lab") << name;
  for (const auto& label : object["metadata"]["labels"].as<LabelMap>()) {
    EXPECT_TRUE(std::regex_match(label.second, kValue)) << label.second;
  }
}

void CheckVolumes(const YAML::Node& spec, const std::set<std::string>& claimed,
                  const std::set<std::string>& claims) {
  std::set<std::string> volumes = claimed;
  for (const YAML::Node& volume : Below(spec, {"volumes"})) {
    volumes.insert(volume["name"].as<std::string>());
    if (!volume["persistentVolumeClaim"]) continue;
    EXPECT_THAT(claims, Contains(volume["persistentVolumeClaim"]["claimName"].as<std::string>()));
  }
  for (const YAML::Node& container : spec["containers"]) {
    for (const YAML::Node& mount : container["volumeMounts"]) {
      EXPECT_THAT(volumes, Contains(mount["name"].as<std::string>()));
      EXPECT_EQ(mount["mountPath"].as<std::string>()[0], '/');
    }
  }
}

void CheckContainers(const YAML::Node& spec) {
  static const std::regex kQuantity("[0-9]+(Gi|m)?");
  ASSERT_EQ(spec["containers"].size(), 1u);
  for (const YAML::Node& container : spec["containers"]) {
    EXPECT_TRUE(container["name"] && container["image"]);
    std::set<std::string> ports;
    for (const YAML::Node& port : container["ports"]) ports.insert(port["name"].as<std::string>());
    for (const char* probe : {"startupProbe", "livenessProbe", "readinessProbe"}) {
      if (!container[probe]) continue;
      const YAML::Node at =
          container[probe]["httpGet"] ? container[probe]["httpGet"] : container[probe]["tcpSocket"];
      EXPECT_THAT(ports, Contains(at["port"].as<std::string>())) << probe;
    }
    for (const char* kind : {"requests", "limits"}) {
      for (const auto& one : Below(container, {"resources", kind})) {
        EXPECT_TRUE(std::regex_match(one.second.as<std::string>(), kQuantity));
      }
    }
  }
}

void CheckSelector(const YAML::Node& object) {
  const std::string kind = object["kind"].as<std::string>();
  const YAML::Node pod = PodOf(object);
  if (kind == "Job") {
    // A policy on failures is allowed with this restart policy alone; the Job chooses its pods
    // itself.
    EXPECT_EQ(pod["spec"]["restartPolicy"].as<std::string>(), "Never");
    EXPECT_FALSE(object["spec"]["selector"]);
    EXPECT_EQ(object["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["containerName"]
                  .as<std::string>(),
              pod["spec"]["containers"][0]["name"].as<std::string>());
    return;
  }
  EXPECT_FALSE(pod["spec"]["restartPolicy"]) << "only Always is allowed";
  EXPECT_TRUE(Chooses(object["spec"]["selector"]["matchLabels"].as<LabelMap>(),
                      pod["metadata"]["labels"].as<LabelMap>()));
}

void CheckFleet(const FleetFile& fleet) {
  const std::vector<YAML::Node> objects = Objects(fleet);
  std::set<std::string> claims = {fleet.kubernetes.claim}, seen;
  for (const YAML::Node& object : objects) {
    const std::string kind = object["kind"].as<std::string>();
    const std::string name = object["metadata"]["name"].as<std::string>();
    EXPECT_TRUE(seen.insert(kind + "/" + name).second) << kind << "/" << name << " is there twice";
    if (kind == "PersistentVolumeClaim") claims.insert(name);
  }
  for (const YAML::Node& object : objects) {
    SCOPED_TRACE(YAML::Dump(object["metadata"]["name"]));
    CheckNames(object);
    const YAML::Node pod = PodOf(object);
    if (!pod.IsMap()) continue;
    CheckSelector(object);
    CheckContainers(pod["spec"]);
    std::set<std::string> claimed;
    for (const YAML::Node& claim : Below(object, {"spec", "volumeClaimTemplates"}))
      claimed.insert(claim["metadata"]["name"].as<std::string>());
    CheckVolumes(pod["spec"], claimed, claims);
  }
}

TEST(Kubernetes, ObjectsHaveWhatTheServerAsksFor) {
  FleetFile fleet = ClusterFleet();
  CheckFleet(fleet);
  fleet.kubernetes.claim = "models";
  fleet.kubernetes.secret = "tidemill-bus";
  CheckFleet(fleet);
}

TEST(Kubernetes, EachTableIsADeploymentThatAsksForWhatItsWorkersNeed) {
  const auto objects = Objects(ClusterFleet());
  const YAML::Node rollout = ObjectOf(objects, "Deployment", "demo-rollout");
  EXPECT_EQ(rollout["spec"]["replicas"].as<int>(), 3);
  const YAML::Node resources = rollout["spec"]["template"]["spec"]["containers"][0]["resources"];
  EXPECT_EQ(resources["limits"]["nvidia.com/gpu"].as<std::string>(), "2");
  EXPECT_EQ(resources["limits"]["memory"].as<std::string>(), "8Gi");
  EXPECT_EQ(resources["requests"]["cpu"].as<std::string>(), "4");
  const YAML::Node tools = ObjectOf(objects, "Deployment", "demo-tools");
  EXPECT_EQ(
      tools["spec"]["template"]["spec"]["containers"][0]["args"].as<std::vector<std::string>>().at(
          3),
      "tools.slots=2");
  // Two tables of a role do not share pods.
  const YAML::Node more = ObjectOf(objects, "Deployment", "demo-tools-2");
  EXPECT_FALSE(Chooses(tools["spec"]["selector"]["matchLabels"].as<LabelMap>(),
                       more["spec"]["template"]["metadata"]["labels"].as<LabelMap>()));
  const YAML::Node learner = ObjectOf(objects, "Job", "demo-learner");
  EXPECT_THAT(
      learner["spec"]["template"]["spec"]["containers"][0]["args"].as<std::vector<std::string>>(),
      testing::IsSupersetOf(
          {"worker", "learner", "/etc/tidemill/run.toml", "--resume", "run.steps=3"}));
  EXPECT_EQ(ObjectOf(objects, "ConfigMap", "demo-config")["data"]["run.toml"].as<std::string>(),
            "[run]\nsteps = 3\n");
}

TEST(Kubernetes, RedisIsReachedByItsServiceAndByNobodyElse) {
  const auto objects = Objects(ClusterFleet());
  const YAML::Node set = ObjectOf(objects, "StatefulSet", "demo-redis");
  const YAML::Node service = ObjectOf(objects, "Service", "demo-redis");
  EXPECT_EQ(set["spec"]["serviceName"].as<std::string>(), "demo-redis");
  const auto pod = set["spec"]["template"]["metadata"]["labels"].as<LabelMap>();
  EXPECT_TRUE(Chooses(service["spec"]["selector"].as<LabelMap>(), pod));
  const YAML::Node policy = ObjectOf(objects, "NetworkPolicy", "demo-redis");
  EXPECT_TRUE(Chooses(policy["spec"]["podSelector"]["matchLabels"].as<LabelMap>(), pod));
  const KubernetesSecrets secrets = SecretsWithRedis(ClusterFleet(), "hidden");
  EXPECT_EQ(secrets.bus_url, "redis://:hidden@demo-redis:6379/0");
  EXPECT_THAT(secrets.redis_config, HasSubstr("requirepass hidden\n"));
  EXPECT_THAT(secrets.redis_config, HasSubstr("bind * -::*\nport 6379\n"));
}

TEST(Kubernetes, SecretsAreInTheSecretAloneAndEachKeyThatIsReadIsThere) {
  const FleetFile fleet = ClusterFleet();
  KubernetesSecrets secrets = SecretsWithRedis(fleet, "hidden");
  secrets.metrics_token = "token";
  const YAML::Node secret = YAML::Load(KubernetesSecret(fleet, secrets));
  const auto data = secret["stringData"].as<LabelMap>();
  EXPECT_EQ(data.at("redis.conf"), secrets.redis_config);
  size_t read = 0;
  for (const YAML::Node& object : Objects(fleet)) {
    const YAML::Node pod = PodOf(object);
    if (!pod.IsMap()) continue;
    for (const YAML::Node& volume : pod["spec"]["volumes"]) {
      for (const YAML::Node& item : Below(volume, {"secret", "items"})) {
        EXPECT_EQ(data.count(item["key"].as<std::string>()), 1u);
        ++read;
      }
    }
    for (const YAML::Node& variable : pod["spec"]["containers"][0]["env"]) {
      if (!variable["valueFrom"]) continue;
      const YAML::Node key = variable["valueFrom"]["secretKeyRef"];
      EXPECT_EQ(key["name"].as<std::string>(), secret["metadata"]["name"].as<std::string>());
      EXPECT_EQ(data.count(key["key"].as<std::string>()), 1u);
      ++read;
    }
  }
  EXPECT_EQ(read, 11u) << "two of each of five tables, and the config of Redis";
}

TEST(Kubernetes, AnswersOfKubectlAreReadAndAnythingElseIsCorrupt) {
  const FleetFile fleet = ClusterFleet();
  const auto running = ReadPods(fleet,
                                "Job|demo-learner||||||||SuccessCriteriaMet|\n"
                                "Pod|demo-rollout-a|rollout|Running|n1|1||137||Ready|\n"
                                "Pod|demo-tools-a|tools|Pending||0|ErrImagePull||||\n");
  ASSERT_TRUE(running.ok()) << running.status().ToString();
  EXPECT_TRUE(running->fleet.kept);
  EXPECT_EQ(running->fleet.processes[0].starts, 2u);
  EXPECT_TRUE(running->fleet.processes[0].died);
  EXPECT_EQ(running->fleet.processes[1].state, "pending (ErrImagePull)");
  const auto done = ReadPods(fleet, "Job|demo-learner||||||||SuccessCriteriaMet Complete|\n");
  EXPECT_TRUE(done->fleet.over);
  EXPECT_TRUE(done->job);
  EXPECT_EQ(done->fleet.failure, "");
  const auto failed = ReadPods(fleet,
                               "Job|demo-learner||||||||FailureTarget Failed|Container a|b failed\n"
                               "Pod|demo-learner-x|learner|Failed|n1|0|||2||\n");
  EXPECT_TRUE(failed->fleet.over);
  EXPECT_EQ(failed->fleet.failure, "the learner's job failed: Container a|b failed");
  const auto wrong = ReadPods(fleet,
                              "Job|demo-learner|||||||||\n"
                              "Pod|demo-tools-a|tools|Running|n1|3|CrashLoopBackOff|2|||\n");
  EXPECT_EQ(wrong->fleet.failure, "every tools worker exited with status 2");
  EXPECT_TRUE(ReadPods(fleet, "")->fleet.over);
  EXPECT_EQ(ReadPods(fleet, "Error from server\n").status().code(), Code::kCorrupt);
}

TEST(YamlText, IsReadBackAsWhatWasWritten) {
  const nlohmann::ordered_json json = {
      {"word", "a-b.c/d"},
      {"truth", "true"},
      {"number", "9100"},
      {"date", "2026-01-01"},
      {"empty", ""},
      {"colon", "a: b # c"},
      {"lines", "[run]\n  x = \"1\"\n\n# end\n"},
      {"no end", "a\nb"},
      {"ends", "a\n\n"},
      {"blank", " a\nb\n"},
      {"list", {1, 2.5, true, nullptr}},
      {"deep", {{{"a", {{"b", nlohmann::ordered_json::array()}}}, {"c", "x\ny\n"}}, {{"d", 1}}}}};
  const YAML::Node read = YAML::Load(YamlText(json));
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) continue;
    EXPECT_EQ(read[key].as<std::string>(), value.get<std::string>()) << key;
    // A quoted or a plain word is a string, not a number or a truth value.
    EXPECT_NE(read[key].Tag(), "tag:yaml.org,2002:bool") << key;
  }
  EXPECT_EQ(read["list"][1].as<double>(), 2.5);
  EXPECT_TRUE(read["list"][3].IsNull());
  EXPECT_EQ(read["deep"][0]["c"].as<std::string>(), "x\ny\n");
  EXPECT_EQ(read["deep"][1]["d"].as<int>(), 1);
  EXPECT_EQ(read["deep"][0]["a"]["b"].size(), 0u);
  EXPECT_THAT(YamlText(json), HasSubstr("truth: \"true\"\n"));
  EXPECT_THAT(YamlText(json), HasSubstr("number: \"9100\"\n"));
  EXPECT_THAT(YamlText(json), Not(HasSubstr("\"a-b.c/d\"")));
}

}  // namespace
}  // namespace tidemill
