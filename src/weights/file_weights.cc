#include "weights/file_weights.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "core/fd.h"
#include "core/files.h"
#include "core/message_check.h"
#include "proto/tidemill.pb.h"
#include "weights/weight_check.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "newest.json";
constexpr std::string_view kPrefix = "weights-", kSuffix = ".safetensors", kUnfinished = ".part";
constexpr size_t kManifestMax = 64 * 1024;
constexpr size_t kFilePiece = 1 << 20;
constexpr Duration kLookEvery = milliseconds(50);
// A publisher that prunes under our hands this often is faster than we read; try again later.
constexpr int kPrunedMax = 4;

std::string FileName(uint64_t version) {
  char name[64];
  std::snprintf(name, sizeof name, "weights-%08" PRIu64 ".safetensors", version);
  return name;
}

std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

bool IsOurs(const std::string& name) {
  return name.starts_with(kPrefix) && (name.ends_with(kSuffix) || name.ends_with(kUnfinished));
}

Result<uint64_t> WriteParts(const std::string& path, const SafetensorsParts& parts) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return FileFailure(path, "cannot create", errno);
  WeightChecksum sum;
  for (const std::string_view part : parts.parts) {
    for (size_t at = 0; at < part.size(); at += kFilePiece) {
      const std::string_view piece = part.substr(at, kFilePiece);
      sum.Add(reinterpret_cast<const std::byte*>(piece.data()), piece.size());
      TM_RETURN_IF_ERROR(WriteAll(fd, piece, path));
    }
  }
  return sum.Value();
}

Status Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 ? Ok()
                                                    : FileFailure(to, "cannot rename to", errno);
}

Status WriteManifest(const std::string& dir, const v1::PolicyAnnouncement& announcement) {
  std::string json;
  const auto made = google::protobuf::util::MessageToJsonString(announcement, &json);
  if (!made.ok()) return Internal("newest.json: " + made.ToString());
  const std::string path = dir + "/" + kManifest, part = path + std::string(kUnfinished);
  {
    const Fd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return FileFailure(part, "cannot create", errno);
    TM_RETURN_IF_ERROR(WriteAll(fd, json + "\n", part));
  }
  return Rename(part, path);
}

class FileWeightSource final : public WeightSource {
 public:
  explicit FileWeightSource(std::string dir) : dir_(std::move(dir)) {}

  Result<WeightBlob> NewerThan(uint64_t have, WeightBuffers& buffers) override {
    for (int i = 0; i < kPrunedMax; ++i) {
      TM_ASSIGN_OR_RETURN(const v1::PolicyAnnouncement newest, Manifest());
      if (newest.version() <= have) return WeightBlob{};
      Result<WeightBlob> blob = Read(newest, buffers);
      if (blob.ok()) return blob;
      TM_ASSIGN_OR_RETURN(const v1::PolicyAnnouncement now, Manifest());
      if (now.version() == newest.version()) return blob;
      // Pruned while we read: there is a newer one.
    }
    return WeightBlob{};
  }

  void WaitForNewer(uint64_t have, Duration patience) override {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until) {
      const Result<v1::PolicyAnnouncement> newest = Manifest();
      if (newest.ok() && newest->version() > have) return;
      std::this_thread::sleep_for(std::min(kLookEvery, patience));
    }
  }

 private:
  // Version 0 where nothing was published yet.
  Result<v1::PolicyAnnouncement> Manifest() const {
    v1::PolicyAnnouncement announcement;
    const std::string path = dir_ + "/" + kManifest;
    Result<std::string> json = ReadFileBounded(path, kManifestMax);
    if (json.status().code() == Code::kNotFound) return announcement;
    if (!json.ok()) return json.status();
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    const auto parsed = google::protobuf::util::JsonStringToMessage(*json, &announcement, options);
    const std::string& file = announcement.location();
    if (!parsed.ok() || !IsOurs(file) || file.find('/') != std::string::npos) {
      return Corrupt(path + ": is not a valid announcement of weights");
    }
    const Status right = CheckMessage(announcement);
    if (!right.ok()) return Corrupt(path + ": " + right.message());
    return announcement;
  }

  Result<WeightBlob> Read(const v1::PolicyAnnouncement& newest, WeightBuffers& buffers) const {
    const std::string path = dir_ + "/" + newest.location();
    // Not blocking: a pipe would make us wait for ever.
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return FileFailure(path, "cannot open", errno);
    TM_ASSIGN_OR_RETURN(const size_t size, RegularFileSize(fd, path));
    if (size != newest.bytes()) {
      return Corrupt(path + ": has " + std::to_string(size) + " bytes, expected " +
                     std::to_string(newest.bytes()));
    }
    TM_RETURN_IF_ERROR(CheckWeightBytes(size).WithContext(path));
    const auto buffer = buffers.Get(newest.bytes());
    WeightChecksum sum;
    for (size_t at = 0; at < newest.bytes();) {
      const size_t piece = std::min<size_t>(kFilePiece, newest.bytes() - at);
      const ssize_t got = pread(fd.get(), buffer->data() + at, piece, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return FileFailure(path, "cannot read", errno);
      if (got == 0) return Corrupt(path + ": ends after " + std::to_string(at) + " bytes");
      sum.Add(buffer->data() + at, static_cast<size_t>(got));
      at += static_cast<size_t>(got);
    }
    if (Hex(sum.Value()) != newest.checksum()) {
      return Corrupt(path + ": its checksum is " + Hex(sum.Value()) + ", newest.json says " +
                     newest.checksum());
    }
    WeightBlob blob;
    blob.version = newest.version();
    blob.step = newest.step();
    blob.bytes = newest.bytes();
    blob.buffer = buffer;
    return blob;
  }

  const std::string dir_;
};

}  // namespace

Result<std::unique_ptr<FileWeightSink>> FileWeightSink::Create(const std::string& dir,
                                                               size_t keep) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return Unavailable(dir + ": cannot create it: " + error.message());
  fs::remove(dir + "/" + kManifest, error);  // first: it must not name a file that is gone
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;  // what stays costs space, no more
    if (IsOurs(name) || name == std::string(kManifest) + std::string(kUnfinished))
      fs::remove(entry.path(), ignored);
  }
  if (error) return Unavailable(dir + ": cannot read it: " + error.message());
  return std::unique_ptr<FileWeightSink>(new FileWeightSink(dir, std::max<size_t>(2, keep)));
}

Status FileWeightSink::Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) {
  if (version <= newest_) {
    return Invalid("version " + std::to_string(version) + " is not above the newest published");
  }
  const std::string name = FileName(version), path = dir_ + "/" + name;
  const std::string part = path + std::string(kUnfinished);
  Result<uint64_t> sum = WriteParts(part, parts);
  Status status = sum.ok() ? Rename(part, path) : sum.status();
  v1::PolicyAnnouncement announcement;
  if (status.ok()) {
    announcement.set_version(version);
    announcement.set_step(step);
    announcement.set_location(name);
    announcement.set_bytes(parts.bytes());
    announcement.set_checksum(Hex(*sum));
    announcement.set_published_ms(RealClock().WallMs());
    status = WriteManifest(dir_, announcement);
  }
  std::error_code ignored;
  if (!status.ok()) {
    fs::remove(part, ignored);
    fs::remove(path, ignored);
    return status;
  }
  newest_ = version;
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(dir_, ignored)) {
    const std::string file = entry.path().filename().string();
    if (IsOurs(file) && file.ends_with(kSuffix)) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + keep_ < files.size(); ++i) fs::remove(dir_ + "/" + files[i], ignored);
  return Ok();
}

std::unique_ptr<WeightSource> NewFileWeightSource(const std::string& dir) {
  return std::make_unique<FileWeightSource>(dir);
}

}  // namespace tidemill
