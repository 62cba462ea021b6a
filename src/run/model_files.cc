#include "run/model_files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "core/fd.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/log.h"

namespace tidemill {
namespace {

namespace fs = std::filesystem;

// An object of the place, and what a broken transfer costs at most.
constexpr uint64_t kChunkBytes = uint64_t{16} << 20;
constexpr size_t kReadBytes = size_t{1} << 20;
// The place forgets after a day.
constexpr int64_t kFreshMs = 20 * 3'600'000;
constexpr Duration kLookEvery = milliseconds(500);
constexpr std::string_view kWeights = ".safetensors";
constexpr std::string_view kText[] = {".json", ".jinja", ".txt", ".model"};

const std::string& FolderOf(const ModelFolders& folders, std::string_view name) {
  return name == "model" ? folders.model : name == "adapter" ? folders.adapter : folders.tokenizer;
}

std::string& FolderOf(ModelFolders& folders, std::string_view name) {
  return const_cast<std::string&>(FolderOf(std::as_const(folders), name));
}

std::string ChunkName(const ModelFile& file, uint64_t i) {
  return "model-" + file.sha256.substr(0, 32) + "-" + std::to_string(i);
}

uint64_t ChunksOf(const ModelFile& file) {
  return (file.bytes + kChunkBytes - 1) / kChunkBytes;
}

uint64_t ChunkBytes(const ModelFile& file, uint64_t i) {
  return std::min(kChunkBytes, file.bytes - i * kChunkBytes);
}

Result<std::string> ReadPart(const std::string& path, uint64_t at, uint64_t bytes) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path, "cannot open", errno);
  std::string part(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        pread(fd.get(), part.data() + done, bytes - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileFailure(path, "cannot read", errno);
    if (got == 0) return Corrupt(path + ": became shorter");
    done += static_cast<size_t>(got);
  }
  return part;
}

// Of a file of any size.
Result<ModelFile> Identify(const std::string& folder, const fs::path& path) {
  ModelFile file{.folder = folder, .name = path.filename().string(), .bytes = 0, .sha256 = {}};
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return FileFailure(path.string(), "cannot open", errno);
  TM_ASSIGN_OR_RETURN(file.bytes, RegularFileSize(fd, path.string()));
  Sha256 sum;
  std::string piece(kReadBytes, '\0');
  while (true) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileFailure(path.string(), "cannot read", errno);
    if (got == 0) break;
    sum.Add(std::string_view(piece).substr(0, static_cast<size_t>(got)));
  }
  file.sha256 = sum.Hex();
  return file;
}

bool IsText(const fs::path& path) {
  return std::find(std::begin(kText), std::end(kText), path.extension().string()) !=
         std::end(kText);
}

// Whether the folder has the files listed for it: large ones by their size, for hashing them would
// take longer than it is worth; a learner's own folder that somebody changes is not expected.
bool HasAll(const std::string& dir, const std::vector<ModelFile>& files,
            const std::string& folder) {
  for (const ModelFile& file : files) {
    if (file.folder != folder) continue;
    const fs::path path = fs::path(dir) / file.name;
    std::error_code error;
    if (fs::file_size(path, error) != file.bytes || error) return false;
    if (file.name.ends_with(kWeights)) continue;
    const Result<ModelFile> here = Identify(folder, path);
    if (!here.ok() || here->sha256 != file.sha256) return false;
  }
  return true;
}

// Waits until the place has it.
Result<std::string> TakeChunk(ObjectPlace& place, const ModelFile& file, uint64_t i,
                              const std::function<Status()>& ask) {
  std::string chunk(ChunkBytes(file, i), '\0');
  while (true) {
    const Status read =
        place.Read(ChunkName(file, i), {reinterpret_cast<std::byte*>(chunk.data()), chunk.size()});
    if (read.ok()) return chunk;
    if (read.code() != Code::kNotFound && read.code() != Code::kUnavailable) return read;
    TM_RETURN_IF_ERROR(ask());
    std::this_thread::sleep_for(kLookEvery);
  }
}

Status FetchFile(const ModelFile& file, ObjectPlace& place, const std::string& dir,
                 const std::function<Status()>& ask) {
  const std::string path = dir + "/" + file.name;
  std::error_code error;
  if (fs::file_size(path, error) == file.bytes && !error) return Ok();  // renamed when complete
  const std::string part = path + ".part";
  const Fd fd(open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return FileFailure(part, "cannot create", errno);
  TM_ASSIGN_OR_RETURN(const size_t there, RegularFileSize(fd, part));
  const uint64_t first = std::min<uint64_t>(there, file.bytes) / kChunkBytes;
  if (ftruncate(fd.get(), static_cast<off_t>(first * kChunkBytes)) != 0 ||
      lseek(fd.get(), 0, SEEK_END) < 0) {
    return FileFailure(part, "cannot continue", errno);
  }
  for (uint64_t i = first; i < ChunksOf(file); ++i) {
    TM_ASSIGN_OR_RETURN(const std::string chunk, TakeChunk(place, file, i, ask));
    TM_RETURN_IF_ERROR(WriteAll(fd, chunk, part));
  }
  TM_ASSIGN_OR_RETURN(const ModelFile came, Identify(file.folder, part));
  if (came.sha256 != file.sha256) {
    fs::remove(part, error);
    return Corrupt(path + ": what came is not the learner's file");
  }
  fs::rename(part, path, error);
  return error ? Unavailable(path + ": cannot rename to: " + error.message()) : Ok();
}

}  // namespace

Result<std::vector<ModelFile>> ListModelFiles(const ModelFolders& folders, bool with_weights) {
  std::vector<ModelFile> files;
  for (const char* name : {"model", "tokenizer", "adapter"}) {
    const std::string& dir = FolderOf(folders, name);
    if (dir.empty()) continue;
    const bool weights =
        with_weights ? std::string_view(name) != "tokenizer" : std::string_view(name) == "adapter";
    std::vector<fs::path> paths;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir, error)) {
      const bool wanted =
          IsText(entry.path()) || (weights && entry.path().extension().string() == kWeights);
      if (wanted && entry.is_regular_file()) paths.push_back(entry.path());
    }
    if (error) return Unavailable(dir + ": cannot read it: " + error.message());
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      TM_ASSIGN_OR_RETURN(files.emplace_back(), Identify(name, path));
    }
  }
  return files;
}

ModelShelf::ModelShelf(ModelFolders folders, std::vector<ModelFile> files, Open open)
    : folders_(std::move(folders)), files_(std::move(files)), open_(std::move(open)) {
  queue_.Start([this](int) {
    const Status put = Put();
    if (put.ok()) put_ms_ = clock_.WallMs();
    if (!put.ok()) LogWarn("cannot put the model's files on the broker", {{"why", put.message()}});
    busy_ = false;
  });
}

void ModelShelf::Want() {
  if (put_ms_ != 0 && clock_.WallMs() - put_ms_ < kFreshMs) return;
  if (!busy_.exchange(true)) queue_.Put(0);
}

Status ModelShelf::Put() {
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectPlace> place, open_());
  uint64_t bytes = 0;
  for (const ModelFile& file : files_) {
    const std::string path = FolderOf(folders_, file.folder) + "/" + file.name;
    for (uint64_t i = 0; i < ChunksOf(file); ++i) {
      TM_ASSIGN_OR_RETURN(const std::string chunk,
                          ReadPart(path, i * kChunkBytes, ChunkBytes(file, i)));
      const std::string_view part = chunk;
      TM_RETURN_IF_ERROR(place->Put(ChunkName(file, i), {&part, 1}));
    }
    bytes += file.bytes;
  }
  LogInfo("the model's files are on the broker", {{"files", files_.size()}, {"bytes", bytes}});
  return Ok();
}

Status BringModel(const std::vector<ModelFile>& files, ObjectPlace& place, const std::string& cache,
                  const std::function<Status()>& ask, ModelFolders& folders) {
  std::string identity;
  for (const ModelFile& file : files) identity += file.folder + file.name + file.sha256;
  std::set<std::string> names;
  for (const ModelFile& file : files) names.insert(file.folder);
  for (const std::string& name : names) {
    std::string& dir = FolderOf(folders, name);
    if (HasAll(dir, files, name)) continue;
    const std::string mine = cache + "/" + Sha256Hex(identity).substr(0, 16) + "/" + name;
    TM_RETURN_IF_ERROR(MakeDirectories(mine));
    LogInfo("fetching the model's files from the learner", {{"what", name}, {"to", mine}});
    for (const ModelFile& file : files) {
      if (file.folder == name) TM_RETURN_IF_ERROR(FetchFile(file, place, mine, ask));
    }
    dir = mine;
  }
  return Ok();
}

std::string ModelCache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string base = cache != nullptr && *cache != '\0' ? std::string(cache)
                           : home != nullptr                  ? std::string(home) + "/.cache"
                                                              : std::string("/tmp");
  return base + "/tidemill/models";
}

}  // namespace tidemill
