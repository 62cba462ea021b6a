#include "run/unsigned_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace tidemill {
namespace {

using testing::IsEmpty;

// The names of docs/config.md of keys that by their type or name may say what a machine runs, asks,
// reads, writes or shows.
std::vector<std::string> KeysThatMayAct() {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  std::istringstream table(binder.ToMarkdown());
  std::vector<std::string> names;
  for (std::string row; std::getline(table, row);) {
    if (!row.starts_with("| `") || row.starts_with("| `[[")) continue;
    const size_t end = row.find('`', 3);
    const std::string name = row.substr(3, end - 3);
    const std::string last = name.substr(name.rfind('.') + 1);
    bool may = row.find("list of strings", end) < row.find("|", row.find("|", end) + 1);
    for (const char* word : {"command", "url", "endpoint", "file", "folder", "path", "preset",
                             "root", "host", "address", "env", "key", "user", "mount", "log"}) {
      may |= last.find(word) != std::string::npos;
    }
    if (may) names.push_back(name);
  }
  return names;
}

// Sets only that key, to something that it may not be by default.
std::vector<std::string> ActsIn(const std::string& name, const std::string& role) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  const size_t list = name.find("[].");
  const std::string prefix = list == std::string::npos ? "" : "[[" + name.substr(0, list) + "]]\n";
  const std::string key = list == std::string::npos ? name : name.substr(list + 3);
  for (const char* value : {"[\"x\"]", "\"x\"", "true", "3"}) {
    // What else a table has to have is missing; the key is set all the same.
    (void)binder.LoadText(prefix + key + " = " + value + "\n", "sheet");
    std::vector<std::string> changed = KeysThatAct(role, config);
    if (!changed.empty()) return changed;
  }
  return {};
}

TEST(UnsignedKeys, EveryKeyThatActsOnAWorkersMachineIsKnown) {
  // These act nowhere but in the learner, which has a config of its own, in a box, or are replaced
  // by what the worker was started with.
  const std::set<std::string> harmless = {
      "agent.environment",       // of a program that is named elsewhere
      "agent.last_file",         // of the workspace
      "background.allowed",      // tools that are there
      "background.always",       //
      "team.roles",              // names
      "role.NAME.files",         // whether a prompt shows those of the workspace
      "dashboard.host",          // of the learner
      "dashboard.token_file",    //
      "gateway.access_log",      // replaced
      "gateway.host",            // replaced
      "gateway.keys",            // replaced
      "gateway.cors",            // of the server that --listen opens
      "audit.trust",             // names of scorers
      "live.redact",             // patterns
      "learner.command",         // of the learner
      "learner.group_command",   //
      "learner.options",         //
      "policy.NAME.options",     //
      "skills.curator_ca_file",  //
      "skills.curator_key_env",  //
      "skills.curator_key_file",
      "tinker.host",           //
      "tinker.keys",           //
      "track.to",              //
      "learner.rank_address",  //
      "learner.rank_secret_file",
      "model.path",              // a model that is read
      "memory.key_layers",       // of the learner
      "run.folder",              // of the learner
      "teacher.endpoint",        // of the learner
      "teacher.endpoint_model",  //
      "teacher.key_env",         //
      "teacher.key_file",        //
      "teacher.ca_file",         //
      "reward.command_version",  // of a command that is named elsewhere
      "reward.command_timeout",
      "reward.command_output_kb",
      "reward.command_slots",
      "reward.command_stays",
      "tools.command[].files",             // of the workspace
      "tools.mcp[].environment",           // of a program that is named elsewhere
      "tools.mcp[].tools",                 // of a server that is named elsewhere
      "tools.command[].background_files",  //
  };
  std::set<std::string> seen;
  for (const std::string& name : KeysThatMayAct()) {
    std::set<std::string> roles;
    for (const char* role : {"rollout", "tools", "reward"}) {
      const std::vector<std::string> changed = ActsIn(name, role);
      if (changed.empty()) continue;
      EXPECT_THAT(changed, testing::Contains(name));
      roles.insert(role);
    }
    if (harmless.contains(name)) seen.insert(name);
    EXPECT_NE(roles.empty(), !harmless.contains(name))
        << name
        << ": say in unsigned_sheet.cc in which workers it acts, or here why it does in none";
  }
  EXPECT_EQ(seen, harmless) << "a key that is no more";
}

TEST(UnsignedKeys, OnlyWhatIsSetActsAndOnlyInItsRole) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  EXPECT_THAT(KeysThatAct("rollout", config), IsEmpty());
  // A sheet has every key, most of them with their defaults.
  RunConfig other;
  Binder from;
  BindRunConfig(other, from);
  ASSERT_TRUE(from.LoadText("[[environment]]\nname = \"e\"\ncommand = [\"/bin/true\"]\n"
                            "[[environment]]\nname = \"f\"\nurls = [\"http://a:1\"]\n",
                            "run.toml")
                  .ok());
  ASSERT_TRUE(binder.LoadText(from.ToToml("a sheet"), "sheet").ok());
  EXPECT_EQ(KeysThatAct("rollout", config),
            (std::vector<std::string>{"environment[].command", "environment[].urls"}));
  EXPECT_THAT(KeysThatAct("tools", config), IsEmpty());
}

}  // namespace
}  // namespace tidemill
