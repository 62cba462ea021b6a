#include "scale/launch/fleet_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "testing/test_kit.h"

namespace tidemill {
namespace {

constexpr char kRoles[] =
    "[[workers]]\nrole = \"rollout\"\n[[workers]]\nrole = \"tools\"\n[[workers]]\nrole = "
    "\"reward\"\n";

Result<FleetFile> Read(const std::string& text) {
  TemporaryDirectory folder;
  const std::string path = folder.path() + "/fleet.toml";
  std::ofstream(path) << text;
  return ReadFleetFile(path);
}

std::string Whole(const std::string& more) {
  return "run = \"demo\"\nconfig = \"run.toml\"\n" + more + "[[workers]]\nrole = \"learner\"\n" +
         kRoles;
}

void ExpectRefused(const std::string& text, const std::string& why) {
  const Result<FleetFile> fleet = Read(text);
  ASSERT_FALSE(fleet.ok()) << text;
  EXPECT_EQ(fleet.status().code(), Code::kInvalid);
  EXPECT_THAT(fleet.status().message(), testing::HasSubstr(why));
}

TEST(FleetFile, WhatIsWrongIsNamed) {
  ExpectRefused("run = \"a b\"\nconfig = \"run.toml\"\n", "run");
  ExpectRefused("run = \"demo\"\n", "config");
  ExpectRefused("run = \"demo\"\nconfig = \"run.toml\"\n", "[[workers]]");
  ExpectRefused(std::string("run = \"demo\"\nconfig = \"run.toml\"\n") + kRoles, "no learner");
  ExpectRefused(Whole("") + "[[workers]]\nrole = \"learner\"\n", "2 learners");
  ExpectRefused(Whole("backend = \"ssh\"\n"), "ssh.hosts");
  ExpectRefused(Whole("backend = \"ssh\"\nssh.hosts = [\"-oProxyCommand=x\"]\n"),
                "no name of a host");
  ExpectRefused(Whole("") + "[[workers]]\nrole = \"tools\"\nhosts = [\"a\"]\n",
                "for the backend ssh");
  ExpectRefused(Whole("backend = \"ssh\"\nssh.hosts = [\"a\"]\n") +
                    "[[workers]]\nrole = \"tools\"\nhosts = [\"b\"]\n",
                "\"b\" is not one of ssh.hosts");
  ExpectRefused(Whole("backend = \"cloud\"\n"), "backend");
  ExpectRefused("run = \"Demo_1\"\nconfig = \"run.toml\"\nbackend = \"kubernetes\"\n" +
                    std::string("[[workers]]\nrole = \"learner\"\n") + kRoles,
                "small letters");
  ExpectRefused(Whole("backend = \"kubernetes\"\nbus_file = \"b\"\nkubernetes.secret = \"s\"\n"),
                "bus_file must be empty");
  ExpectRefused(Whole("") + "[[workers]]\nrole = \"tools\"\ncuont = 2\n", "cuont");
}

TEST(FleetFile, PathsBecomeAbsoluteAndWhatIsSavedIsReadAgain) {
  Result<FleetFile> fleet =
      Read(Whole("set = [\"run.steps=3\"]\nslurm.time_limit = \"1:00:00\"\n"));
  ASSERT_TRUE(fleet.ok()) << fleet.status().ToString();
  EXPECT_EQ(fleet->config.front(), '/');
  EXPECT_EQ(fleet->folder.front(), '/');
  fleet->workers[1].count = 7;
  const Result<FleetFile> again = Read(FleetFileText(*fleet));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->config, fleet->config);
  EXPECT_EQ(again->set, fleet->set);
  EXPECT_EQ(again->workers[1].count, 7u);
  EXPECT_EQ(again->slurm.time_limit, "1:00:00");
}

TEST(FleetFile, ANameOfARunIsNoPathAndNoOption) {
  for (const char* good : {"demo", "a.b-c_1", "7"}) EXPECT_TRUE(IsFleetName(good)) << good;
  for (const char* bad : {"", ".", "..", "-x", "a/b", "a b", "a\n"})
    EXPECT_FALSE(IsFleetName(bad)) << bad;
}

}  // namespace
}  // namespace tidemill
