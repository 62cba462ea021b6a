// The family of decoders that docs/ARCHITECTURE.md adds, compiled from that text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/files.h"
#include "testing/test_folders.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;

std::string Source(const std::string& path) {
  return ReadFileBounded(SourceDir() + "/" + path, 1 << 20).value();
}

// What stands between `begin` and the next `end` behind it, from `from` on.
std::string Between(const std::string& text, const std::string& begin, const std::string& end,
                    size_t from) {
  const size_t first = text.find(begin, from);
  if (first == std::string::npos) return "";
  const size_t start = first + begin.size();
  return text.substr(start, text.find(end, start) - start);
}

// With what the example adds in front of the sources. Gives what the compiler says.
std::string Compile(const std::string& added, const std::string& file) {
  const std::string said = added + "/said";
  const std::string command = std::string(TIDEMILL_CXX) +
                              " -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I" + added + " -I" +
                              SourceDir() + "/src " + file + " >" + said + " 2>&1";
  const int status = std::system(command.c_str());
  return status == 0 ? "" : ReadFileBounded(said, 1 << 20).value() + "failed";
}

TEST(DocumentedFamily, IsOneFileAndOneRow) {
  const std::string page = Source("docs/ARCHITECTURE.md");
  const size_t chapter = page.find("## Add a dense family");
  ASSERT_NE(chapter, std::string::npos);
  const std::string code = Between(page, "```cpp\n", "```", chapter);
  const std::string row = Between(page, "the row `", "`", chapter);
  ASSERT_THAT(code, HasSubstr("FamilySpec"));
  ASSERT_EQ(row, "ROW(Example)");
  std::string table = Source("src/model/families/families.h");
  const size_t at = table.find("ROW(Llama)");
  ASSERT_NE(at, std::string::npos);

  const TemporaryDirectory added;
  const std::string folder = added / "model/families";
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(WriteFileAtomically(folder + "/example.cc", code).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/families.h", table.insert(at, row + " ")).ok());
  EXPECT_EQ(Compile(added.path(), folder + "/example.cc"), "");
  // The table takes the row; without the file the linker would miss its spec.
  EXPECT_EQ(Compile(added.path(), SourceDir() + "/src/model/families/families.cc"), "");
}

}  // namespace
}  // namespace tidemill
