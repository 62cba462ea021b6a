#include "tasks/file_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/hash.h"
#include "tasks/archive.h"
#include "tasks/path_patterns.h"
#include "tasks/prepare_tasks.h"
#include "tasks/task_file.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Write(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// A tar file as an attacker may write one: any name, any kind, any size.
class TarWriter {
 public:
  explicit TarWriter(const std::string& path, bool zstd = false) : a_(archive_write_new()) {
    archive_write_set_format_pax_restricted(a_);
    if (zstd) {
      archive_write_add_filter_zstd(a_);
    } else {
      archive_write_add_filter_gzip(a_);
    }
    archive_write_open_filename(a_, path.c_str());
  }
  ~TarWriter() { archive_write_free(a_); }

  void Add(const std::string& name, const std::string& content, unsigned type = AE_IFREG,
           const std::string& target = "") {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0755);
    if (type == AE_IFREG) archive_entry_set_size(entry, static_cast<int64_t>(content.size()));
    if (type == AE_IFLNK) archive_entry_set_symlink(entry, target.c_str());
    archive_write_header(a_, entry);
    archive_write_data(a_, content.data(), content.size());
    archive_entry_free(entry);
  }

 private:
  struct archive* a_;
};

v1::FileSource FromFolder(const std::string& folder) {
  v1::FileSource source;
  source.set_folder(folder);
  return source;
}

v1::FileSource FromArchive(const std::string& path) {
  v1::FileSource source;
  source.set_archive(path);
  return source;
}

std::vector<std::string> PathsOf(const SourceFiles& files) {
  std::vector<std::string> paths;
  for (const v1::File& file : files.files) paths.push_back(file.path());
  return paths;
}

TEST(FileSource, AFolderIsReadWithoutLinksAndWithoutItsRepository) {
  TemporaryDirectory folder;
  Write(folder / "repo/a.py", "a = 1\n");
  Write(folder / "repo/src/b.sh", "echo\n");
  Write(folder / "repo/.git/config", "secret");
  std::filesystem::permissions(folder / "repo/src/b.sh", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("/etc/passwd", folder / "repo/link");
  auto files = ReadFileSource(FromFolder("repo"), folder.path());
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_THAT(PathsOf(*files), ElementsAre("a.py", "src/b.sh"));
  EXPECT_EQ(files->files[0].content(), "a = 1\n");
  EXPECT_TRUE(files->files[1].executable());
  EXPECT_EQ(files->left_out, 1u);
}

TEST(FileSource, ASubfolderGivesItsFilesUnderShorterNames) {
  TemporaryDirectory folder;
  Write(folder / "repo/src/b.c", "int b;");
  Write(folder / "repo/c.c", "int c;");
  v1::FileSource source = FromFolder(folder / "repo");
  source.set_subfolder("src");
  auto files = ReadFileSource(source, "");
  ASSERT_TRUE(files.ok());
  EXPECT_THAT(PathsOf(*files), ElementsAre("b.c"));
}

TEST(FileSource, WhatIsNotThereIsNamed) {
  EXPECT_THAT(ReadFileSource(FromFolder("nowhere"), "/tmp").status().message(),
              HasSubstr("no such folder"));
  EXPECT_THAT(ReadFileSource(FromArchive("/nowhere.tar"), "").status().message(),
              HasSubstr("no such file"));
}

TEST(FileSource, AFolderOverTheLimitsIsRefused) {
  TemporaryDirectory folder;
  for (int i = 0; i < 5; ++i) Write(folder / ("f" + std::to_string(i)), std::string(100, 'x'));
  EXPECT_EQ(ReadFileSource(FromFolder(folder.path()), "", {.files_max = 4}).status().code(),
            Code::kFull);
  EXPECT_EQ(ReadFileSource(FromFolder(folder.path()), "", {.bytes_max = 450}).status().code(),
            Code::kFull);
}

TEST(FileSource, ArchivesAreReadWithEitherCompression) {
  TemporaryDirectory folder;
  for (const bool zstd : {false, true}) {
    const std::string path = folder / (zstd ? "a.tar.zst" : "a.tar.gz");
    {
      TarWriter tar(path, zstd);
      tar.Add("./src/", "", AE_IFDIR);
      tar.Add("./src/a.c", "int a;");
      tar.Add("link", "", AE_IFLNK, "/etc/passwd");
    }
    auto files = ReadFileSource(FromArchive(path), "");
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_THAT(PathsOf(*files), ElementsAre("src/a.c"));
    EXPECT_EQ(files->files[0].content(), "int a;");
    EXPECT_EQ(files->left_out, 1u);
  }
}

TEST(FileSource, AnArchiveWhoseNamesLeadOutIsRefused) {
  TemporaryDirectory folder;
  for (const char* name : {"../evil", "/etc/evil", "a/../../evil", "a//b"}) {
    const std::string path = folder / "a.tar.gz";
    { TarWriter(path).Add(name, "x"); }
    EXPECT_EQ(ReadFileSource(FromArchive(path), "").status().code(), Code::kInvalid) << name;
  }
}

TEST(FileSource, DevicesOfAnArchiveStayOutAndTwoFilesOfOneNameAreRefused) {
  TemporaryDirectory folder;
  const std::string path = folder / "a.tar.gz";
  {
    TarWriter tar(path);
    tar.Add("null", "", AE_IFCHR);
    tar.Add("pipe", "", AE_IFIFO);
    tar.Add("a", "1");
  }
  auto files = ReadFileSource(FromArchive(path), "");
  ASSERT_TRUE(files.ok());
  EXPECT_THAT(PathsOf(*files), ElementsAre("a"));
  EXPECT_EQ(files->left_out, 2u);
  {
    TarWriter tar(path);
    tar.Add("a", "1");
    tar.Add("a", "2");
  }
  EXPECT_THAT(ReadFileSource(FromArchive(path), "").status().message(), HasSubstr("twice"));
}

TEST(FileSource, ABombIsRefusedBeforeItIsUnpacked) {
  TemporaryDirectory folder;
  const std::string path = folder / "bomb.tar.gz";
  {
    TarWriter tar(path);
    for (int i = 0; i < 4; ++i) tar.Add("f" + std::to_string(i), std::string(1 << 20, '\0'));
  }
  EXPECT_LT(std::filesystem::file_size(path), 16'384u);
  EXPECT_EQ(ReadFileSource(FromArchive(path), "", {.bytes_max = 3 << 20}).status().code(),
            Code::kFull);
  EXPECT_EQ(ReadFileSource(FromArchive(path), "", {.bytes_max = 1 << 19}).status().code(),
            Code::kFull);
}

TEST(FileSource, WhatIsNoArchiveIsRefused) {
  TemporaryDirectory folder;
  Write(folder / "text.tar", "this is no archive, whatever its name says");
  EXPECT_EQ(ReadFileSource(FromArchive(folder / "text.tar"), "").status().code(), Code::kInvalid);
}

TEST(FileSource, ARepositoryIsReadAtItsCommit) {
  TemporaryDirectory folder;
  const std::string repo = folder / "repo";
  const std::string git = "git -C " + repo + " -c user.name=a -c user.email=a@b ";
  ASSERT_EQ(std::system(("git init -q " + repo).c_str()), 0);
  Write(repo + "/a.txt", "first");
  // What an export would leave out is part of the commit.
  Write(repo + "/.gitattributes", "a.txt export-ignore\n");
  ASSERT_EQ(std::system((git + "add -A && " + git + "commit -qm 1 && " + git + "tag one").c_str()),
            0);
  Write(repo + "/a.txt", "second");
  ASSERT_EQ(std::system((git + "commit -qam 2").c_str()), 0);
  ASSERT_EQ(std::system(("git clone -q --mirror " + repo + " " + folder.path() + "/m.git").c_str()),
            0);
  for (const std::string& where : {repo, folder / "m.git"}) {
    v1::FileSource source;
    source.set_git(where);
    source.set_commit("one");
    auto files = ReadFileSource(source, "");
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_THAT(PathsOf(*files), ElementsAre(".gitattributes", "a.txt"));
    EXPECT_EQ(files->files[1].content(), "first");
    source.set_commit("no-such-tag");
    EXPECT_EQ(ReadFileSource(source, "").status().code(), Code::kNotFound);
  }
}

// Whatever its configuration names would run as whoever starts us.
TEST(FileSource, ARepositorysFiltersHooksMonitorsAndRemotesDoNotRun) {
  TemporaryDirectory folder;
  const std::string repo = folder / "repo", proof = folder / "proof";
  const std::string git = "git -C " + repo + " -c user.name=a -c user.email=a@b ";
  ASSERT_EQ(std::system(("git init -q " + repo).c_str()), 0);
  Write(repo + "/a.txt", "first\n");
  Write(repo + "/b.txt", "lost\n");
  Write(repo + "/.gitattributes", "a.txt filter=evil\n");
  ASSERT_EQ(std::system((git + "add -A && " + git + "commit -qm 1 && " + git + "tag one").c_str()),
            0);
  Write(repo + "/evil.sh", "#!/bin/sh\necho \"$0 $1\" >> " + proof + "\ncat\n");
  std::filesystem::permissions(repo + "/evil.sh", std::filesystem::perms(0755));
  for (const char* hook : {"post-checkout", "post-index-change", "reference-transaction"}) {
    std::filesystem::copy_file(repo + "/evil.sh", repo + "/.git/hooks/" + hook);
  }
  const std::string evil = repo + "/evil.sh";
  Write(folder / "more", "[filter \"evil\"]\n\tsmudge = " + evil + " smudge\n\trequired = true\n");
  const std::string config =
      "[core]\n\trepositoryformatversion = 1\n\tfsmonitor = " + evil + "\n\tsshCommand = " + evil +
      "\n\tgitProxy = " + evil + "\n\tworktree = /\n[include]\n\tpath = " + (folder / "more") +
      "\n[extensions]\n\tpartialClone = origin\n[protocol \"ext\"]\n\tallow = always\n"
      "[remote \"origin\"]\n\tpromisor = true\n\turl = ext::" +
      evil + " fetch\n";
  const auto read = [&] {
    v1::FileSource source;
    source.set_git(repo);
    source.set_commit("one");
    return ReadFileSource(source, "");
  };
  Write(repo + "/.git/config", config);
  auto files = read();
  ASSERT_TRUE(files.ok()) << files.status().ToString();
  EXPECT_THAT(PathsOf(*files), ElementsAre(".gitattributes", "a.txt", "b.txt"));
  EXPECT_EQ(files->files[1].content(), "first\n");
  // What is missing is asked of nobody.
  ASSERT_EQ(std::system(("cd " + repo +
                         " && h=$(printf 'lost\\n' | git hash-object --stdin) && "
                         "rm -f .git/objects/$(echo $h | cut -c1-2)/$(echo $h | cut -c3-)")
                            .c_str()),
            0);
  EXPECT_EQ(read().status().code(), Code::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(proof)) << TextOf(proof);
}

TEST(FileSource, AWorkTreeAndARepositoryOfSha256AreRead) {
  TemporaryDirectory folder;
  const std::string repo = folder / "repo", other = folder / "other";
  const std::string git = "git -C " + repo + " -c user.name=a -c user.email=a@b ";
  ASSERT_EQ(std::system(("git init -q --object-format=sha256 " + repo).c_str()), 0);
  Write(repo + "/a.txt", "first");
  ASSERT_EQ(std::system((git + "add -A && " + git + "commit -qm 1 && " + git +
                         "worktree add -q --detach " + other)
                            .c_str()),
            0);
  for (const std::string& where : {repo, other}) {
    v1::FileSource source;
    source.set_git(where);
    auto files = ReadFileSource(source, "");
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_THAT(PathsOf(*files), ElementsAre("a.txt"));
  }
}

TEST(PathPatterns, StarsStayInsideAPartAndTwoStarsCrossParts) {
  EXPECT_TRUE(MatchesPattern("**/conftest.py", "conftest.py"));
  EXPECT_TRUE(MatchesPattern("**/conftest.py", "a/b/conftest.py"));
  EXPECT_FALSE(MatchesPattern("**/conftest.py", "a/xconftest.py"));
  EXPECT_TRUE(MatchesPattern("tests/*.py", "tests/a.py"));
  EXPECT_FALSE(MatchesPattern("tests/*.py", "tests/b/a.py"));
  EXPECT_TRUE(MatchesPattern("target/**", "target/debug/a"));
  EXPECT_TRUE(MatchesPattern("a?c", "abc"));
  const std::vector<std::string> own = {"**/Makefile", "!src/Makefile"};
  EXPECT_TRUE(MatchesLast(own, "Makefile"));
  EXPECT_FALSE(MatchesLast(own, "src/Makefile"));
  EXPECT_TRUE(MatchesLast(OwnFilePatterns(), "pkg/__pycache__/a.cpython-311.pyc"));
  EXPECT_FALSE(MatchesLast(OwnFilePatterns(), "src/calc.py"));
}

TEST(PathPatterns, AFileInFrontOfAModuleOfTheRunnerIsTheTasksOwn) {
  v1::Grading grading;
  const std::set<std::string> there = {"pkg/__init__.py"};
  const auto own = [&](const char* path) {
    return IsTasksOwn(grading, path, [&](const std::string& one) { return there.count(one) != 0; });
  };
  for (const char* path : {"pluggy.py", "iniconfig.py", "argparse.py", "pygments/__init__.py",
                           "attr.py", "src/json.py", "tests/queue/__init__.py", "typing.py"}) {
    EXPECT_TRUE(own(path)) << path;
  }
  for (const char* path : {"calc.py", "pkg/types.py", "pkg/json/__init__.py", "json/data.txt",
                           "code/notes.py", "test/test_a.py", "argparse.txt", "__init__.py"}) {
    EXPECT_FALSE(own(path)) << path;
  }
  grading.add_own_files("!queue.py");
  EXPECT_FALSE(own("queue.py"));
  grading.add_sources("types.py");
  EXPECT_FALSE(own("types.py")) << "the task names it as the agent's";
}

class KeepingBlobs final : public BlobStore {
 public:
  Result<std::string> Put(std::string_view content) override {
    const std::string hash = Sha256Hex(content);
    kept[hash] = content;
    return hash;
  }
  Result<std::string> Get(std::string_view hash) override { return kept.at(std::string(hash)); }
  std::map<std::string, std::string> kept;
};

TEST(PrepareTasks, AWorkspaceBecomesFilesAndLargeOnesGoToTheBlobs) {
  TemporaryDirectory folder;
  Write(folder / "repo/small.c", "int a;");
  Write(folder / "repo/large.txt", std::string(20'000, 'x'));
  Write(folder / "repo/Makefile", "check:\n\t./t\n");
  Write(folder / "tasks.jsonl",
        R"({"id":"a","prompt":"p","workspace":{"folder":"repo"},"files":{"small.c":"int b;"},)"
        R"("solution":{"files":{"small.c":"int c;"}},)"
        R"("grading":{"command":["make","check"],"canary":{"t.c":"x"}}})");
  auto tasks = ReadTaskFile(folder / "tasks.jsonl");
  ASSERT_TRUE(tasks.ok()) << tasks.status().ToString();
  KeepingBlobs blobs;
  const PrepareOptions options{.base = folder.path(), .blobs = &blobs};
  ASSERT_TRUE(PrepareTasks(options, &*tasks).ok());
  const v1::Task& task = tasks->front();
  ASSERT_EQ(task.files_size(), 3);
  EXPECT_EQ(task.files(1).path(), "large.txt");
  EXPECT_FALSE(task.files(1).has_content());
  EXPECT_EQ(blobs.kept.at(task.files(1).hash()).size(), 20'000u);
  EXPECT_EQ(task.files(2).content(), "int b;") << "the task's own stands over the folder's";
  EXPECT_FALSE(task.has_solution());
  // The first Makefile counts, whatever the agent makes of it.
  ASSERT_EQ(task.grading().harness_size(), 1);
  EXPECT_EQ(task.grading().harness(0).path(), "Makefile");
  std::vector<v1::Task> again = *tasks;
  ASSERT_TRUE(PrepareTasks(options, &again).ok());
  EXPECT_EQ(again[0].SerializeAsString(), task.SerializeAsString());
}

TEST(PrepareTasks, EveryTaskWhoseSourceIsMissingIsToldAndTheOthersArePrepared) {
  TemporaryDirectory folder;
  Write(folder / "repo/a.c", "int a;");
  const std::string rest = R"("prompt":"p","workspace":{"folder":)";
  const std::string grading = R"(},"grading":{"command":["true"],"trusted":true}})";
  Write(folder / "tasks.jsonl", R"({"id":"a",)" + rest + "\"gone\"" + grading + "\n" +
                                    R"({"id":"b",)" + rest + "\"gone\"" + grading + "\n" +
                                    R"({"id":"c",)" + rest + "\"repo\"" + grading + "\n");
  auto tasks = ReadTaskFile(folder / "tasks.jsonl");
  ASSERT_TRUE(tasks.ok()) << tasks.status().ToString();
  std::vector<std::string> said;
  PrepareEach({.base = folder.path()}, &*tasks,
              [&](size_t, const Status& status) { said.push_back(status.message()); });
  ASSERT_EQ(said.size(), 3u);
  EXPECT_THAT(said[0], HasSubstr("gone: no such folder"));
  EXPECT_EQ(said[1], said[0]) << "the second task with the same source";
  EXPECT_EQ(said[2], "");
  EXPECT_EQ(tasks->at(2).files_size(), 1);
}

TEST(PrepareTasks, ACommandWithoutACanaryIsRefusedWhereItRunsTheAgentsCode) {
  TemporaryDirectory folder;
  Write(folder / "t/check.sh", "true");
  Write(folder / "tasks.jsonl", R"({"id":"a","prompt":"p","grading":{"command":["sh","check.sh"],)"
                                R"("harness_from":{"folder":"t"}}})");
  auto tasks = ReadTaskFile(folder / "tasks.jsonl");
  ASSERT_TRUE(tasks.ok()) << tasks.status().ToString();
  EXPECT_THAT(PrepareTasks({.base = folder.path()}, &*tasks).message(),
              HasSubstr("task a: grading.canary is missing"));
  Write(folder / "t/test_a.py", "def test_a(): pass");
  tasks = ReadTaskFile(folder / "tasks.jsonl");
  EXPECT_TRUE(PrepareTasks({.base = folder.path()}, &*tasks).ok());
}

}  // namespace
}  // namespace tidemill
