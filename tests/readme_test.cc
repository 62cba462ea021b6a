// What README.md tells a new user to type, typed literally and in order, in a folder like a clean
// clone after `make demo` (whose model and tasks are tiny here).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "testing/test_folders.h"
#include "tests/program.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The fenced blocks without a language: those are commands. make's own targets are left out.
std::vector<std::string> Commands(const std::string& markdown) {
  std::vector<std::string> blocks;
  std::istringstream lines(markdown);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("```", 0) == 0) {
      inside = !inside;
      if (inside && line == "```") blocks.emplace_back();
      continue;
    }
    if (!inside || blocks.empty() || line.rfind("make ", 0) == 0) continue;
    blocks.back() += line + "\n";
  }
  std::vector<std::string> commands;
  for (std::string& block : blocks) {
    const bool typed = block.rfind("tidemill ", 0) == 0 || block.rfind("export ", 0) == 0 ||
                       block.rfind("redis-server ", 0) == 0;
    if (typed) commands.push_back(std::move(block));
  }
  return commands;
}

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

class ReadmeTest : public testing::Test {
 protected:
  // What `make build` and `make demo` leave behind, smaller.
  void SetUp() override {
    fs::create_directories(folder_ / "build/release");
    fs::create_symlink(BinaryDir() + "/tidemill", folder_ / "build/release/tidemill");
    if (fs::exists(BinaryDir() + "/web"))
      fs::create_symlink(BinaryDir() + "/web", folder_ / "build/release/web");
    const std::string demo = folder_ / "build/demo";
    fs::create_directories(demo);
    MustRun("tasks generate --family cfunc --count 60 --seed 3 --difficulty 1 --out " + demo +
            "/train.jsonl --with-solutions " + demo + "/demonstrations.jsonl");
    MustRun(
        "tasks generate --family cfunc --count 4 --seed 4 --split heldout --difficulty 1 --out " +
        demo + "/eval.jsonl");
    MustRun("tasks model --family cfunc --width 32 --layers 2 --heads 2 --feed-forward 64 --out " +
            demo + "/shape");
    // It has to solve something for `runs export --solved`.
    MustRun(
        "warmup " + demo + "/demonstrations.jsonl --from-config " + demo + "/shape --out " + demo +
        "/warm --max-steps 300 --keep-last --patience 0 --batch-tokens 512 --evaluate-every 100");
  }

  TemporaryDirectory folder_;
};

TEST_F(ReadmeTest, EveryCommandWorksWhenTypedLiterallyInOrder) {
  if (!fs::exists(BinaryDir() + "/web/index.html")) GTEST_SKIP() << "the page was not built";
  const std::vector<std::string> blocks = Commands(TextOf(SourceDir() + "/README.md"));
  ASSERT_GE(blocks.size(), 3u) << "first run, export, many machines";
  std::string script = "set -e\ncd " + folder_.path() + "\n";
  for (const std::string& block : blocks) script += block;
  // Nothing is changed but the port, which must be free here, and the size of a batch.
  script = Replaced(script, "6379", std::to_string(FreePort()));
  const size_t init = script.find("tidemill init");
  ASSERT_NE(init, std::string::npos);
  script.insert(
      script.find('\n', init) + 1,
      "sed -i 's/^groups_per_step = 32/groups_per_step = 2/; s/^samples = 8/samples = 1/' "
      "run.toml\n");
  script += "wait %2 %3 %4\nkill %1\nwait\n";  // The workers leave by themselves, then Redis ends.
  const std::string path = folder_ / "typed.sh", log = folder_ / "typed.log";
  std::ofstream(path) << script;
  const ProcessOutput typed = RunProcess({"bash", "-c", "bash -m " + path + " > " + log + " 2>&1"},
                                         std::chrono::seconds(280));
  const std::string output = TextOf(log);
  EXPECT_EQ(typed.exit_code, 0) << output << "\n" << script;
  EXPECT_THAT(output, HasSubstr("run first: done"));
  EXPECT_THAT(output, HasSubstr("run mill: done"));
  EXPECT_THAT(output, HasSubstr("waiting for a learner")) << "status shows who waits";
  for (const char* made : {"run.toml", "report.html", "good.jsonl.zst", "tuned/config.json"})
    EXPECT_TRUE(fs::exists(folder_ / made)) << made;
}

}  // namespace
}  // namespace tidemill
