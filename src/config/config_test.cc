#include "config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

struct Command {
  std::string name;
  std::vector<std::string> run;
  double weight = 1.0;
};

struct Sample {
  std::string name = "first";
  bool whole_groups = true;
  int64_t max_steps = 2;
  uint64_t seed = 7;
  double temperature = 1.0;
  std::string mode = "async";
  milliseconds patience{30'000};
  std::vector<std::string> tools = {"compile"};
  std::map<std::string, double> weights = {{"tests", 1.0}};
  std::vector<Command> commands;

  Binder Bind() {
    Binder b;
    b.Add("name", &name, {.doc = "What the run is called"});
    b.Add("rollout.whole_groups", &whole_groups, {.doc = "Wait for every member"});
    b.Add("staleness.max_steps", &max_steps, {.doc = "Most steps behind", .min = 0, .max = 1000});
    b.Add("seed", &seed, {.doc = "Of everything random"});
    b.Add("rollout.temperature", &temperature, {.doc = "Of sampling", .min = 0, .max = 10});
    b.Add("mode", &mode, {.doc = "a | b", .choices = {"async", "one-step", "sync"}});
    b.Add("tools.patience", &patience, {.doc = "Wait", .min = 1, .max = 3'600'000});
    b.Add("tools.allowed", &tools, {.doc = "Tools", .choices = {"compile", "lint", "run_tests"}});
    b.Add("reward.weights", &weights, {.doc = "Of each scorer", .min = -10, .max = 10});
    b.AddTables("tools.command", &commands,
                [](Binder& t, Command& c) {
                  t.Add("name", &c.name, {.doc = "What the agent calls it", .required = true});
                  t.Add("run", &c.run, {.doc = "The argument vector"});
                  t.Add("weight", &c.weight, {.doc = "Its share", .min = 0});
                },
                {.doc = "Tools of your own", .max = 3});
    return b;
  }
};

std::string LoadError(std::string_view toml) {
  Sample sample;
  const Status status = sample.Bind().LoadText(toml, "run.toml");
  EXPECT_TRUE(status.ok() || status.code() == Code::kInvalid);
  return status.message();
}

std::string SetError(std::string_view assignment) {
  Sample sample;
  return sample.Bind().Set(assignment).message();
}

TEST(Config, EveryTypeIsReadFromNestedTables) {
  Sample s;
  Binder binder = s.Bind();
  const Status status = binder.LoadText(R"(
name = "second"
seed = 99
mode = "sync"
rollout.whole_groups = false
rollout.temperature = 1
[staleness]
max_steps = 0
[tools]
patience = "2m"
allowed = ["lint", "compile"]
[reward.weights]
tests = 0.5
lint = -1
)",
                                        "run.toml");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(s.name, "second");
  EXPECT_EQ(s.seed, 99u);
  EXPECT_EQ(s.mode, "sync");
  EXPECT_FALSE(s.whole_groups);
  EXPECT_EQ(s.temperature, 1.0);
  EXPECT_EQ(s.max_steps, 0);
  EXPECT_EQ(s.patience, milliseconds(120'000));
  EXPECT_EQ(s.tools, (std::vector<std::string>{"lint", "compile"}));
  EXPECT_EQ(s.weights, (std::map<std::string, double>{{"tests", 0.5}, {"lint", -1.0}}));
}

TEST(Config, ListsOfTablesAreReadElementByElement) {
  Sample s;
  s.commands = {{"old", {}, 5.0}};
  const Status status = s.Bind().LoadText(R"(
[[tools.command]]
name = "fuzz"
run = ["fuzz", "--fast"]
[[tools.command]]
name = "style"
weight = 0.25
)",
                                          "run.toml");
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(s.commands.size(), 2u);
  EXPECT_EQ(s.commands[0].name, "fuzz");
  EXPECT_EQ(s.commands[0].run, (std::vector<std::string>{"fuzz", "--fast"}));
  EXPECT_EQ(s.commands[0].weight, 1.0) << "the old list's element must not shine through";
  EXPECT_EQ(s.commands[1].weight, 0.25);
}

TEST(Config, AnUnknownKeyIsRefusedWithItsLineAndTheNearestKey) {
  EXPECT_EQ(LoadError("\n[staleness]\nmax_stps = 3\n"),
            "run.toml:3: staleness.max_stps: unknown key. Did you mean \"staleness.max_steps\"?");
  EXPECT_THAT(LoadError("max_steps = 3\n"), HasSubstr("Did you mean \"staleness.max_steps\"?"));
  EXPECT_EQ(LoadError("[zzz]\nqqqqqqqqqq = 1\n"), "run.toml:1: zzz: unknown table.");
  EXPECT_EQ(LoadError("[stalenes]\nmax_steps = 1\n"),
            "run.toml:1: stalenes: unknown table. Did you mean [staleness]?");
}

TEST(Config, AWrongTypeIsRefusedWithWhatIsExpected) {
  EXPECT_EQ(LoadError("staleness.max_steps = 'ten'"),
            "run.toml:1: staleness.max_steps: got 'ten', expected a whole number, 0 to 1000.");
  EXPECT_THAT(LoadError("staleness.max_steps = 1.5"), HasSubstr("expected a whole number"));
  EXPECT_THAT(LoadError("rollout.whole_groups = 1"), HasSubstr("expected true or false"));
  EXPECT_THAT(LoadError("name = 3"), HasSubstr("expected a string"));
  EXPECT_THAT(LoadError("tools.allowed = [1]"), HasSubstr("expected a list of strings"));
  EXPECT_THAT(LoadError("reward.weights = {tests = 'x'}"),
              HasSubstr("expected a table of numbers"));
  EXPECT_THAT(LoadError("tools.patience = '3 weeks'"), HasSubstr("expected a duration"));
  EXPECT_THAT(LoadError("staleness = 3"), HasSubstr("staleness: is a section"));
  EXPECT_THAT(LoadError("tools.command = 3"), HasSubstr("each under [[tools.command]]"));
}

TEST(Config, OutOfRangeValuesAreRefused) {
  EXPECT_THAT(LoadError("staleness.max_steps = 1001"), HasSubstr("0 to 1000"));
  EXPECT_THAT(LoadError("seed = -1"), HasSubstr("at least 0"));
  EXPECT_THAT(LoadError("rollout.temperature = nan"), HasSubstr("expected a number, 0 to 10"));
  EXPECT_THAT(LoadError("reward.weights = {tests = 11}"), HasSubstr("-10 to 10"));
  EXPECT_THAT(LoadError("tools.patience = 0"), HasSubstr("1ms to 1h"));
  EXPECT_THAT(LoadError("mode = 'snyc'"), HasSubstr("Did you mean \"sync\"?"));
  EXPECT_THAT(LoadError("tools.allowed = ['lnt']"), HasSubstr("Did you mean \"lint\"?"));
}

TEST(Config, AWrongTableOfAListIsNamedByItsNumber) {
  EXPECT_EQ(LoadError("[[tools.command]]\nname = 'a'\n[[tools.command]]\nweight = 1\n"),
            "run.toml:3: tools.command[1].name: missing, expected a string.");
  EXPECT_THAT(
      LoadError("[[tools.command]]\nname = 'a'\nwieght = 1\n"),
      HasSubstr("run.toml:3: tools.command[0].wieght: unknown key. Did you mean \"weight\"?"));
  EXPECT_THAT(LoadError("tools.command = [{name='a'},{name='a'},{name='a'},{name='a'}]"),
              HasSubstr("4"));
}

TEST(Config, EveryWrongKeyIsReportedAtOnce) {
  const std::string errors = LoadError("name = 1\nnmae = 2\n");
  EXPECT_THAT(errors, HasSubstr("run.toml:1: name: "));
  EXPECT_THAT(errors, HasSubstr("run.toml:2: nmae: "));
}

TEST(Config, BrokenTomlIsRefusedWithItsLine) {
  EXPECT_THAT(LoadError("name = 'a'\nseed = = 3\n"), HasSubstr("run.toml:2: not valid TOML: "));
  EXPECT_THAT(LoadError("name = 'a'\nname = 'b'\n"), HasSubstr("run.toml:2: not valid TOML: "));
}

TEST(Config, AFileThatIsNotThereIsNamed) {
  Sample s;
  EXPECT_EQ(s.Bind().LoadFile("/no/such/run.toml").message(),
            "/no/such/run.toml: cannot open: No such file or directory");
}

TEST(Config, AFifoIsRefusedAndNotWaitedFor) {
  const TemporaryDirectory folder;
  ASSERT_EQ(mkfifo((folder / "fifo.toml").c_str(), 0600), 0);
  Sample s;
  const Status status = s.Bind().LoadFile(folder / "fifo.toml");
  EXPECT_EQ(status.code(), Code::kInvalid);
  EXPECT_THAT(status.message(), HasSubstr("not a regular file"));
}

TEST(Config, AFileIsRead) {
  const TemporaryDirectory dir;
  const std::string path = dir / "run.toml";
  std::ofstream(path) << "name = \"from a file\"\n";
  Sample s;
  ASSERT_TRUE(s.Bind().LoadFile(path).ok());
  EXPECT_EQ(s.name, "from a file");
}

TEST(ConfigSet, EveryTypeCanBeSet) {
  Sample s;
  Binder binder = s.Bind();
  for (const char* assignment :
       {"name=with spaces and = signs", "rollout.whole_groups=false", "staleness.max_steps=5",
        "seed=18446744073709551615", "rollout.temperature=0.5", "mode=one-step",
        "tools.patience=90s", "tools.allowed=lint,run_tests", "reward.weights=a=1,b=2.5",
        "reward.weights.c=-3"}) {
    const Status status = binder.Set(assignment);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(s.name, "with spaces and = signs");
  EXPECT_FALSE(s.whole_groups);
  EXPECT_EQ(s.max_steps, 5);
  EXPECT_EQ(s.seed, UINT64_MAX);
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.mode, "one-step");
  EXPECT_EQ(s.patience, milliseconds(90'000));
  EXPECT_EQ(s.tools, (std::vector<std::string>{"lint", "run_tests"}));
  EXPECT_EQ(s.weights, (std::map<std::string, double>{{"a", 1.0}, {"b", 2.5}, {"c", -3.0}}));
}

TEST(ConfigSet, TomlSpellingsWorkAsWell) {
  Sample s;
  Binder binder = s.Bind();
  ASSERT_TRUE(binder.Set(R"(name="quoted\tname")").ok());
  ASSERT_TRUE(binder.Set(R"(tools.allowed=["lint"])").ok());
  ASSERT_TRUE(binder.Set(R"(reward.weights={x = 2})").ok());
  ASSERT_TRUE(binder.Set("tools.patience=250").ok());
  EXPECT_EQ(s.name, "quoted\tname");
  EXPECT_EQ(s.tools, std::vector<std::string>{"lint"});
  EXPECT_EQ(s.weights, (std::map<std::string, double>{{"x", 2.0}}));
  EXPECT_EQ(s.patience, milliseconds(250));
}

TEST(ConfigSet, ErrorsShowTheAssignment) {
  EXPECT_EQ(SetError("staleness.max_steps=ten"),
            "--set staleness.max_steps=ten: staleness.max_steps: got 'ten', expected a whole "
            "number, 0 to 1000.");
  EXPECT_THAT(SetError("stalenes.max_steps=1"), HasSubstr("Did you mean \"staleness.max_steps\"?"));
  EXPECT_EQ(SetError("mode"), "--set mode: expected --set key=value");
  EXPECT_THAT(SetError("staleness=1"), HasSubstr("is a section"));
  EXPECT_THAT(SetError("tools.command=x"), HasSubstr("[[tools.command]]"));
  EXPECT_THAT(SetError("reward.weights.c=x"), HasSubstr("expected a number"));
  EXPECT_THAT(SetError("staleness.max_steps=1\nmode='sync'"), HasSubstr("expected a whole number"));
  EXPECT_THAT(SetError("name=\xff"), HasSubstr("not valid UTF-8"));
}

TEST(ConfigSave, WhatIsSavedReadsBackTheSame) {
  Sample s;
  Binder binder = s.Bind();
  ASSERT_TRUE(binder.Set("name=tab\there, \"quotes\", back\\slash, \x01").ok());
  ASSERT_TRUE(binder.Set("seed=18446744073709551615").ok());
  ASSERT_TRUE(binder.Set("rollout.temperature=0.1").ok());
  s.commands = {{"fuzz", {"a b", "c"}, 0.5}, {"style", {}, 1}};
  const std::string saved = binder.ToToml("tidemill 0.1.0\nresolved config");
  EXPECT_THAT(saved, testing::StartsWith("# tidemill 0.1.0\n# resolved config\n"));
  Sample again;
  Binder second = again.Bind();
  const Status status = second.LoadText(saved, "saved.toml");
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << saved;
  EXPECT_EQ(second.ToToml("tidemill 0.1.0\nresolved config"), saved);
  EXPECT_EQ(again.name, s.name);
  EXPECT_EQ(again.commands[0].run, s.commands[0].run);
}

TEST(ConfigSave, AnEmptyListOfTablesStaysEmpty) {
  Sample s;
  const std::string saved = s.Bind().ToToml("");
  Sample again;
  again.commands = {{"default", {}, 1}};
  const Status status = again.Bind().LoadText(saved, "saved.toml");
  ASSERT_TRUE(status.ok()) << status.message() << "\n" << saved;
  EXPECT_TRUE(again.commands.empty());
}

TEST(ConfigDocs, TheTableHasEveryKeyWithItsLimits) {
  Sample s;
  Binder binder = s.Bind();
  ASSERT_TRUE(binder.Set("staleness.max_steps=9").ok());
  const std::string table = binder.ToMarkdown();
  EXPECT_THAT(table, HasSubstr("| `staleness.max_steps` | whole number | `2` | 0 to 1000 | Most "
                               "steps behind |\n"));
  EXPECT_THAT(table, HasSubstr("| `mode` | string | `\"async\"` | \"async\", \"one-step\", "
                               "\"sync\" | a \\| b |\n"));
  EXPECT_THAT(table, HasSubstr("| `tools.command[].name` | string | required |"));
}

TEST(Config, AnErrorAcrossKeysSaysWhereTheValueCameFrom) {
  Sample s;
  Binder binder = s.Bind();
  ASSERT_TRUE(binder.LoadText("\nseed = 3\n", "run.toml").ok());
  ASSERT_TRUE(binder.Set("mode=sync").ok());
  EXPECT_EQ(binder.Error("seed", "is odd").message(), "run.toml:2: seed: is odd");
  EXPECT_EQ(binder.Error("mode", "is slow").message(), "--set mode=sync: mode: is slow");
  EXPECT_EQ(binder.Error("name", "is short").message(), "config: name: is short");
}

TEST(ConfigDeathTest, AKeyDeclaredTwiceIsAMistakeInTheProgram) {
  Binder binder;
  int64_t x = 0;
  binder.Add("a.b", &x, {.doc = ""});
  EXPECT_DEATH(binder.Add("a.b", &x, {.doc = ""}), "declared beside");
  EXPECT_DEATH(binder.Add("a", &x, {.doc = ""}), "declared beside");
  EXPECT_DEATH(binder.Add("c", &x, {.doc = "", .min = 1}), "default is out of range");
}

TEST(Durations, AreReadAndWrittenInTheirLargestWholeUnit) {
  for (const char* text : {"0ms", "250ms", "30s", "5m", "2h", "-1s", "61s"}) {
    EXPECT_EQ(FormatDuration(ParseDuration(text).value()), text);
  }
  EXPECT_EQ(ParseDuration("1500").value(), milliseconds(1500));
  for (const char* text :
       {"", "s", "1.5s", "3 s", "5d", "99999999999999999999s", "9223372036854775807h"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tidemill
