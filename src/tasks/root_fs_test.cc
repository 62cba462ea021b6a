#include "tasks/root_fs.h"

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "core/hash.h"
#include "tasks/unpack.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct LayerEntry {
  std::string name;
  std::string content;
  unsigned type = AE_IFREG;
  std::string target = {};
  mode_t mode = 0644;
  bool hard = false;
};

void WriteLayer(const std::string& path, const std::vector<LayerEntry>& entries) {
  struct archive* a = archive_write_new();
  archive_write_set_format_pax_restricted(a);
  archive_write_add_filter_gzip(a);
  ASSERT_EQ(archive_write_open_filename(a, path.c_str()), ARCHIVE_OK);
  for (const LayerEntry& one : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, one.name.c_str());
    archive_entry_set_filetype(entry, one.type);
    archive_entry_set_perm(entry, one.mode);
    if (one.hard) {
      archive_entry_set_hardlink(entry, one.target.c_str());
    } else if (one.type == AE_IFLNK) {
      archive_entry_set_symlink(entry, one.target.c_str());
    } else if (one.type == AE_IFREG) {
      archive_entry_set_size(entry, static_cast<int64_t>(one.content.size()));
    }
    archive_write_header(a, entry);
    archive_write_data(a, one.content.data(), one.content.size());
    archive_entry_free(entry);
  }
  archive_write_free(a);
}

std::string TextIn(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  return input ? std::string(std::istreambuf_iterator<char>(input), {}) : "(none)";
}

// Puts a blob into an OCI layout and gives its descriptor.
std::string AddBlob(const std::string& layout, const std::string& content) {
  const std::string hash = Sha256Hex(content);
  std::filesystem::create_directories(layout + "/blobs/sha256");
  std::ofstream(layout + "/blobs/sha256/" + hash, std::ios::binary) << content;
  return R"({"digest":"sha256:)" + hash + R"(","size":1})";
}

void MakeLayout(const std::string& layout, const std::vector<std::string>& layers) {
  std::string list;
  for (const std::string& layer : layers) {
    list += (list.empty() ? "" : ",") + AddBlob(layout, TextIn(layer));
  }
  const std::string config = AddBlob(layout, R"({"config":{"Env":["PATH=/opt/bin:/bin","A=b"]}})");
  const std::string manifest =
      AddBlob(layout, R"({"config":)" + config + R"(,"layers":[)" + list + "]}");
  std::ofstream(layout + "/oci-layout") << R"({"imageLayoutVersion":"1.0.0"})";
  std::ofstream(layout + "/index.json") << R"({"manifests":[)" << manifest << "]}";
}

TEST(RootFs, ATarFileIsUnpackedOnceUnderItsHash) {
  TemporaryDirectory folder;
  WriteLayer(folder / "root.tar.gz", {{"bin/", "", AE_IFDIR},
                                      {"bin/tool", "#!", AE_IFREG, "", 06755},
                                      {"dev/null", "", AE_IFCHR},
                                      {"bin/again", "", AE_IFREG, "bin/tool", 0755, true}});
  const std::string roots = folder / "roots";
  const auto hash = PrepareRoot(folder / "root.tar.gz", roots);
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  const auto place = FindRoot(*hash, roots);
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(TextIn(place->folder + "/bin/again"), "#!");
  struct stat info = {};
  ASSERT_EQ(stat((place->folder + "/bin/tool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u) << "no set-user-id bit";
  EXPECT_FALSE(std::filesystem::exists(place->folder + "/dev/null"));
  std::ofstream(place->folder + "/mark") << "here";
  EXPECT_EQ(*PrepareRoot(folder / "root.tar.gz", roots), *hash);
  EXPECT_EQ(TextIn(place->folder + "/mark"), "here") << "it was unpacked a second time";
  EXPECT_EQ(FindRoot(std::string(64, '0'), roots).status().code(), Code::kNotFound);
  EXPECT_EQ(FindRoot("../../etc", roots).status().code(), Code::kInvalid);
}

TEST(RootFs, LayersOfAnImageLieOverEachOtherAndWhiteoutsRemove) {
  TemporaryDirectory folder;
  WriteLayer(folder / "one", {{"usr/lib/", "", AE_IFDIR},
                              {"lib", "", AE_IFLNK, "usr/lib"},
                              {"usr/bin/old", "old"},
                              {"etc/a/x", "x"},
                              {"etc/a/y", "y"}});
  WriteLayer(folder / "two", {{"usr/bin/.wh.old", ""},
                              {"usr/bin/new", "new"},
                              {"etc/a/.wh..wh..opq", ""},
                              {"etc/a/z", "z"},
                              {"lib/through", "link"}});
  MakeLayout(folder / "image", {folder / "one", folder / "two"});
  const auto hash = PrepareRoot(folder / "image", folder / "roots");
  ASSERT_TRUE(hash.ok()) << hash.status().ToString();
  const auto place = FindRoot(*hash, folder / "roots");
  ASSERT_TRUE(place.ok());
  const std::string root = place->folder;
  EXPECT_THAT(place->environment, ElementsAre("PATH=/opt/bin:/bin", "A=b"));
  EXPECT_EQ(TextIn(root + "/usr/bin/old"), "(none)");
  EXPECT_EQ(TextIn(root + "/usr/bin/new"), "new");
  EXPECT_EQ(TextIn(root + "/etc/a/x"), "(none)");
  EXPECT_EQ(TextIn(root + "/etc/a/z"), "z");
  EXPECT_EQ(TextIn(root + "/usr/lib/through"), "link")
      << "a link of the image stands for its folder";
}

TEST(RootFs, AnImageWhoseBlobIsNotWhatItsNameSaysIsRefused) {
  TemporaryDirectory folder;
  WriteLayer(folder / "one", {{"bin/a", "a"}});
  MakeLayout(folder / "image", {folder / "one"});
  const std::string blob = folder / ("image/blobs/sha256/" + Sha256Hex(TextIn(folder / "one")));
  std::ofstream(blob, std::ios::app) << "more";
  EXPECT_THAT(PrepareRoot(folder / "image", folder / "roots").status().message(),
              HasSubstr("does not have the hash"));
  std::ofstream(folder / "image/index.json")
      << R"({"manifests":[{"digest":"sha256:../../../../etc/passwd"}]})";
  EXPECT_THAT(PrepareRoot(folder / "image", folder / "roots").status().message(),
              HasSubstr("no sha256 digest"));
}

// With any links in an archive, nothing is written outside of the folder.
TEST(Unpack, NothingLeadsOut) {
  TemporaryDirectory folder;
  const std::string outside = folder / "outside";
  std::filesystem::create_directories(outside);
  std::ofstream(outside + "/secret") << "secret";
  const auto unpack = [&](const std::vector<LayerEntry>& entries) {
    const std::string root = folder / "root";
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    WriteLayer(folder / "layer", entries);
    UnpackBudget budget{1000, 1 << 20, 1 << 20};
    return UnpackLayer(folder / "layer", root, &budget);
  };
  EXPECT_EQ(unpack({{"../evil", "x"}}).code(), Code::kInvalid);
  EXPECT_EQ(unpack({{"a/../../evil", "x"}}).code(), Code::kInvalid);
  EXPECT_TRUE(unpack({{"/absolute", "x"}}).ok());
  EXPECT_EQ(TextIn(folder / "root/absolute"), "x");
  // A link out and a file through it: it lands inside, or is refused.
  (void)unpack({{"link", "", AE_IFLNK, outside}, {"link/evil", "x"}});
  (void)unpack({{"link", "", AE_IFLNK, "../outside"}, {"link/evil", "x"}});
  (void)unpack({{"file", "", AE_IFLNK, outside + "/secret"}, {"file", "overwritten"}});
  EXPECT_FALSE(std::filesystem::exists(outside + "/evil"));
  EXPECT_EQ(TextIn(outside + "/secret"), "secret");
  // A second name of a file outside is none of it.
  EXPECT_FALSE(unpack({{"link", "", AE_IFLNK, outside + "/secret"},
                       {"copy", "", AE_IFREG, "link", 0644, true}})
                   .ok());
  EXPECT_FALSE(unpack({{"copy", "", AE_IFREG, "../outside/secret", 0644, true}}).ok());
  // A whiteout of everything above.
  EXPECT_FALSE(unpack({{".wh...", ""}}).ok());
  EXPECT_EQ(TextIn(outside + "/secret"), "secret");
  EXPECT_EQ(unpack({{"a", std::string(600'000, 'x')}, {"b", std::string(600'000, 'x')}}).code(),
            Code::kFull);
}

}  // namespace
}  // namespace tidemill
