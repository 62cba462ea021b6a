// What docs/ARCHITECTURE.md shows how to add, compiled from its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/files.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string Source(const std::string& path) {
  return ReadFileBounded(SourceDir() + "/" + path, 1 << 20).value();
}

// The C++ of a chapter of the page, block by block.
std::vector<std::string> BlocksOf(const std::string& heading) {
  const std::string page = Source("docs/ARCHITECTURE.md");
  const size_t begin = page.find("\n" + heading + "\n");
  if (begin == std::string::npos) return {};
  const size_t end = page.find("\n##", begin + heading.size() + 2);
  const std::string chapter = page.substr(begin, end - begin);
  std::vector<std::string> blocks;
  const std::string open = "```cpp\n";
  for (size_t at = chapter.find(open); at != std::string::npos; at = chapter.find(open, at)) {
    at += open.size();
    blocks.push_back(chapter.substr(at, chapter.find("```", at) - at));
  }
  return blocks;
}

// A source of the tree with the text put in front of, or right behind, what stands there once.
std::string With(std::string source, const std::string& text, const std::string& mark,
                 bool behind = false) {
  const size_t at = source.find(mark);
  EXPECT_NE(at, std::string::npos) << mark;
  if (at == std::string::npos) return source;
  return source.insert(at + (behind ? mark.size() : 0), text);
}

// A copy of some of the tree's files, changed, in front of the tree.
class ChangedTree {
 public:
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / file).parent_path());
    ASSERT_TRUE(WriteFileAtomically(folder_ / file, text).ok());
  }

  // What the compiler says of the file; nothing where it takes it.
  std::string Compile(const std::string& file) const {
    const std::string said = folder_ / "said";
    const std::string command =
        std::string(TIDEMILL_CXX) + " -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I" +
        folder_.path() + " -I" + SourceDir() + "/src -isystem " + TIDEMILL_GENERATED +
        " -DFMT_SHARED " + file + " >" + said + " 2>&1";
    const int status = std::system(command.c_str());
    return status == 0 ? "" : ReadFileBounded(said, 1 << 20).value() + "failed";
  }
  std::string CompileChanged(const std::string& file) const { return Compile(folder_ / file); }

 private:
  const TemporaryDirectory folder_;
};

TEST(DocumentedChanges, ATopicIsOneFile) {
  const auto blocks = BlocksOf("### A topic");
  ASSERT_EQ(blocks.size(), 2u);
  std::string topics = Source("src/core/topics.h");
  topics = With(topics, blocks[0], "struct TopicRow {");
  topics = With(topics, blocks[1], "kTopics[] = {\n", /*behind=*/true);
  ChangedTree tree;
  tree.Write("core/topics.h", topics);
  tree.Write("use.cc",
             "#include \"core/topics.h\"\n"
             "static_assert(tidemill::TakesPart(tidemill::kTopics[0], \"digest\"));\n"
             "static_assert(tidemill::kTopics[0].name == tidemill::kDigestTopic);\n");
  EXPECT_EQ(tree.CompileChanged("use.cc"), "");
}

TEST(DocumentedChanges, AConfigKeyIsOneLine) {
  const auto blocks = BlocksOf("### A config key");
  ASSERT_EQ(blocks.size(), 1u);
  ChangedTree tree;
  tree.Write("replay/replay_config.h",
             With(Source("src/replay/replay_config.h"), blocks[0], "TM_SECTION(\"replay\");\n",
                  /*behind=*/true));
  tree.Write("use.cc",
             "#include \"replay/replay_options.h\"\n"
             "uint32_t Use(const tidemill::ReplayOptions& options) { return options.cool_down; }\n"
             "void Bind(tidemill::ReplayConfig& config, tidemill::Binder& binder) {\n"
             "  tidemill::BindSection(config, binder);\n"
             "  config.AddKey(tidemill::KeyLine<1>(), binder);\n"
             "}\n");
  EXPECT_EQ(tree.CompileChanged("use.cc"), "");
}

TEST(DocumentedChanges, AToolIsOneFile) {
  const auto blocks = BlocksOf("### A tool");
  ASSERT_EQ(blocks.size(), 2u);
  std::string table = Source("src/tools/tool_table.cc");
  table = With(table, blocks[0] + "\n", "constexpr std::string_view kFilesSchema");
  table = With(table, blocks[1], "kBuiltIn[] = {\n", /*behind=*/true);
  ChangedTree tree;
  tree.Write("tools/tool_table.cc", table);
  EXPECT_EQ(tree.CompileChanged("tools/tool_table.cc"), "");
}

TEST(DocumentedChanges, AScorerIsOneFile) {
  const auto blocks = BlocksOf("### A scorer");
  ASSERT_EQ(blocks.size(), 2u);
  std::string scorers = Source("src/reward/scorer.cc");
  scorers = With(scorers, blocks[0] + "\n", "class FormatScorer final");
  scorers = With(scorers, blocks[1], "kScorers[] = {\n", /*behind=*/true);
  ChangedTree tree;
  tree.Write("reward/scorer.cc", scorers);
  EXPECT_EQ(tree.CompileChanged("reward/scorer.cc"), "");
}

TEST(DocumentedChanges, ARecorderIsAHeaderAndALine) {
  const auto blocks = BlocksOf("### A recorder");
  ASSERT_EQ(blocks.size(), 2u);
  const std::string wiring = Source("src/run/torch/serving_host.cc");
  ASSERT_THAT(wiring,
              HasSubstr("recorder = std::make_unique<WatchedRecorder>(std::move(recorder)"));
  ChangedTree tree;
  tree.Write("gateway/token_recorder.h", blocks[0]);
  tree.Write(
      "use.cc",
      "#include \"gateway/token_recorder.h\"\n"
      "namespace tidemill {\n"
      "void Use(std::unique_ptr<TurnRecorder>& recorder, std::atomic<uint64_t>& tokens_) {\n" +
          blocks[1] + "}\n}\n");
  EXPECT_EQ(tree.CompileChanged("use.cc"), "");
}

TEST(DocumentedChanges, ADenseFamilyIsAFileAndARow) {
  const auto blocks = BlocksOf("## Add a dense family");
  ASSERT_EQ(blocks.size(), 1u);
  ASSERT_THAT(blocks[0], HasSubstr("FamilySpec"));
  ASSERT_THAT(Source("docs/ARCHITECTURE.md"), HasSubstr("the row `ROW(Example)`"));
  ChangedTree tree;
  tree.Write("model/families/example.cc", blocks[0]);
  tree.Write("model/families/families.h",
             With(Source("src/model/families/families.h"), "ROW(Example) ", "ROW(Llama)"));
  EXPECT_EQ(tree.CompileChanged("model/families/example.cc"), "");
  // The table takes the row; without the file the linker would miss its spec.
  EXPECT_EQ(tree.Compile(SourceDir() + "/src/model/families/families.cc"), "");
}

}  // namespace
}  // namespace tidemill
