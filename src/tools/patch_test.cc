#include "tools/patch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tidemill {
namespace {

using ::testing::HasSubstr;

Workspace Files() {
  return {{"a.c", {"one\ntwo\nthree\nfour\n", false}}, {"run.sh", {"echo\n", true}}};
}

TEST(ApplyPatch, ChangesLinesWhereTheHunkSays) {
  Workspace files = Files();
  auto report =
      ApplyPatch("--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n", &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files["a.c"].content, "one\nTWO\nthree\nfour\n");
  EXPECT_EQ(report->summary, "a.c: 1 hunk\n");
}

TEST(ApplyPatch, FindsAHunkThatMoved) {
  Workspace files = Files();
  auto report = ApplyPatch("--- a.c\n+++ a.c\n@@ -1,2 +1,2 @@\n three\n-four\n+4\n", &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files["a.c"].content, "one\ntwo\nthree\n4\n");
}

TEST(ApplyPatch, SeveralHunksKeepTheirDistance) {
  Workspace files = Files();
  auto report = ApplyPatch(
      "--- a.c\n+++ a.c\n@@ -1,1 +1,2 @@\n one\n+one and a half\n@@ -4,1 +5,1 @@\n-four\n+4\n",
      &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files["a.c"].content, "one\none and a half\ntwo\nthree\n4\n");
}

TEST(ApplyPatch, CreatesRemovesAndRenames) {
  Workspace files = Files();
  auto report = ApplyPatch(
      "diff --git a/new.c b/new.c\n--- /dev/null\n+++ b/new.c\n@@ -0,0 +1,2 @@\n+a\n+b\n"
      "--- a/run.sh\n+++ /dev/null\n@@ -1 +0,0 @@\n-echo\n"
      "--- a/a.c\n+++ b/b.c\n@@ -2 +2 @@\n-two\n+2\n",
      &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(files["new.c"].content, "a\nb\n");
  EXPECT_EQ(files["b.c"].content, "one\n2\nthree\nfour\n");
}

TEST(ApplyPatch, KeepsAMissingLastNewline) {
  Workspace files = {{"x", {"a\nb", false}}};
  auto report = ApplyPatch(
      "--- x\n+++ x\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files["x"].content, "A\nb");
  report = ApplyPatch("--- x\n+++ x\n@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+B\n", &files);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(files["x"].content, "A\nB\n");
}

TEST(ApplyPatch, AFailureChangesNothingAndSaysWhere) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "no \"--- file\" line"},
      {"hello", "no \"--- file\" line"},
      {"--- a.c\n", "expected \"+++ file\""},
      {"--- a.c\n+++ a.c\n", "expected \"@@"},
      {"--- a.c\n+++ a.c\n@@ nonsense @@\n", "expected \"@@"},
      {"--- a.c\n+++ a.c\n@@ -1,3 +1,3 @@\n one\n", "does not match its header"},
      {"--- a.c\n+++ a.c\n@@ -1,1 +1,1 @@\n-five\n+5\n", "does not match a.c"},
      {"--- no.c\n+++ no.c\n@@ -1,1 +1,1 @@\n-five\n+5\n", "no file no.c"},
      {"--- /dev/null\n+++ a.c\n@@ -0,0 +1 @@\n+5\n", "exists already"},
      {"--- ../x\n+++ ../x\n@@ -1 +1 @@\n-a\n+b\n", "\"..\" part"},
      {"--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+5\n", "relative"},
      {"--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+5\n", "both names"},
  };
  for (const auto& [patch, message] : wrong) {
    Workspace files = Files();
    auto report = ApplyPatch(patch, &files);
    ASSERT_FALSE(report.ok()) << patch;
    EXPECT_EQ(report.status().code(), Code::kInvalid);
    EXPECT_THAT(report.status().message(), HasSubstr(message)) << patch;
    EXPECT_EQ(files["a.c"].content, Files()["a.c"].content);
  }
}

TEST(ApplyPatch, AHunkThatFitsInTwoPlacesIsRefused) {
  Workspace files = {{"x", {"p\nq\nr\nq\n", false}}};
  auto report = ApplyPatch("--- x\n+++ x\n@@ -3,1 +3,1 @@\n-q\n+Q\n", &files);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("more than one place"));
}

}  // namespace
}  // namespace tidemill
