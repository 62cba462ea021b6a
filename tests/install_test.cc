// What `cmake --install` and the Debian package contain: a program that finds its files wherever
// its prefix is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Install, TheProgramFindsItsFilesBesideItselfAndHasManualPages) {
  const TemporaryDirectory folder;
  const std::string prefix = folder / "opt/mill";
  const auto sh = [&](const std::string& command) {
    return RunProcess({"sh", "-c", "cd " + folder.path() + " && " + command + " 2>&1"},
                      std::chrono::seconds(100));
  };
  const ProcessOutput installed =
      sh("cmake --install " + BinaryDir() + " --prefix " + prefix + " > log || cat log");
  ASSERT_EQ(installed.output, "");

  const std::string program = prefix + "/bin/tidemill";
  const ProcessOutput plan = sh(program + " plan --model 0.5b --memory 80GB");
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_THAT(plan.output, HasSubstr("0.49B parameters"));
  const ProcessOutput unknown = sh(program + " plan --model 0.6b --memory 80GB");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("0.6b"));
  const ProcessOutput demo = sh(program + " init --demo");
  EXPECT_EQ(demo.exit_code, 0);
  const std::string script = prefix + "/share/tidemill/examples/demo.sh";
  EXPECT_THAT(demo.output, HasSubstr(script + " makes it"));
  EXPECT_EQ(access(script.c_str(), X_OK), 0);
  EXPECT_TRUE(fs::exists(prefix + "/share/tidemill/agents/codex.toml"));
  const bool built = fs::exists(BinaryDir() + "/web/index.html");
  EXPECT_EQ(fs::exists(prefix + "/share/tidemill/web/index.html"), built);

  const ProcessOutput simulated = sh(program + " sim --seed 7");
  EXPECT_EQ(simulated.exit_code, 0) << simulated.output;
  EXPECT_TRUE(fs::exists(prefix + "/libexec/tidemill/tidemill-bench"));

  const std::string pages = prefix + "/share/man/man1/";
  const std::string train = TextOf(pages + "tidemill-train.1");
  EXPECT_THAT(train, HasSubstr(".TH TIDEMILL\\-TRAIN 1"));
  EXPECT_THAT(train, HasSubstr("\\-\\-resume"));
  for (const char* page : {"tidemill.1", "tidemill-runs.1", "tidemill-runs-export.1"}) {
    EXPECT_TRUE(fs::exists(pages + page)) << page;
  }
  EXPECT_THAT(TextOf(prefix + "/share/bash-completion/completions/tidemill"),
              HasSubstr("complete -o default -F _tidemill tidemill"));
}

}  // namespace
}  // namespace tidemill
