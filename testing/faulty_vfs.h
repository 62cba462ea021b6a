// A disk that can be told to fail, and that knows what would be left of it after a power cut:
// SQLite's file layer with a thin one on top. For tests.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "core/mutex.h"
#include "core/status.h"

namespace tidemill {

// Thread-safe. Registers itself under name(); databases on it must be closed before it goes.
class FaultyVfs {
 public:
  FaultyVfs() : below_(sqlite3_vfs_find(nullptr)) {
    static std::atomic<int> counter{0};
    name_ = "faulty" + std::to_string(counter++);
    vfs_ = *below_;
    vfs_.zName = name_.c_str();
    vfs_.pNext = nullptr;
    vfs_.pAppData = this;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + below_->szOsFile;
    vfs_.xOpen = &FaultyVfs::Open;
    vfs_.xDelete = &FaultyVfs::Delete;
    TM_CHECK(sqlite3_vfs_register(&vfs_, 0) == SQLITE_OK, "sqlite3_vfs_register");
  }
  ~FaultyVfs() { sqlite3_vfs_unregister(&vfs_); }
  FaultyVfs(const FaultyVfs&) = delete;

  const std::string& name() const { return name_; }
  // Every write, or every sync, gives this code until it is SQLITE_OK again.
  std::atomic<int> write_error{SQLITE_OK};
  std::atomic<int> sync_error{SQLITE_OK};
  std::atomic<int> refused{0};  // writes and syncs that were made to fail

  // Writes into `directory` what the disk would hold after a power cut now: of every file only what
  // was synced.
  void LeaveAfterPowerCut(const std::string& directory) {
    MutexLock lock(mutex_);
    for (const auto& [path, content] : synced_) {
      const std::string name = std::filesystem::path(path).filename().string();
      std::ofstream(directory + "/" + name, std::ios::binary) << content;
    }
  }

 private:
  struct File {
    sqlite3_file base;
    FaultyVfs* disk;
    const char* path;  // SQLite keeps it while the file is open
    sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File& Self(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }
  static sqlite3_file* Below(sqlite3_file* file) { return Self(file).below(); }

  static int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out) {
    auto* disk = static_cast<FaultyVfs*>(vfs->pAppData);
    File& self = Self(file);
    self.disk = disk;
    self.path = path;
    self.base.pMethods = nullptr;
    const int rc = disk->below_->xOpen(disk->below_, path, self.below(), flags, out);
    if (self.below()->pMethods != nullptr) self.base.pMethods = &Methods();
    return rc;
  }

  static int Delete(sqlite3_vfs* vfs, const char* path, int sync) {
    auto* disk = static_cast<FaultyVfs*>(vfs->pAppData);
    const int rc = disk->below_->xDelete(disk->below_, path, sync);
    MutexLock lock(disk->mutex_);
    if (rc == SQLITE_OK) disk->synced_.erase(path);
    return rc;
  }

  static int Write(sqlite3_file* file, const void* bytes, int n, sqlite3_int64 at) {
    FaultyVfs& disk = *Self(file).disk;
    const int error = disk.write_error;
    if (error != SQLITE_OK) return ++disk.refused, error;
    return Below(file)->pMethods->xWrite(Below(file), bytes, n, at);
  }

  static int Sync(sqlite3_file* file, int flags) {
    File& self = Self(file);
    const int error = self.disk->sync_error;
    if (error != SQLITE_OK) return ++self.disk->refused, error;
    sqlite3_file* below = self.below();
    const int rc = below->pMethods->xSync(below, flags);
    if (rc != SQLITE_OK || self.path == nullptr) return rc;
    sqlite3_int64 size = 0;
    below->pMethods->xFileSize(below, &size);
    std::string content(static_cast<size_t>(size), '\0');
    below->pMethods->xRead(below, content.data(), static_cast<int>(size), 0);
    MutexLock lock(self.disk->mutex_);
    self.disk->synced_[self.path] = std::move(content);
    return rc;
  }

  static const sqlite3_io_methods& Methods() {
    static const sqlite3_io_methods methods = [] {
      sqlite3_io_methods m{};
      m.iVersion = 2;
      m.xClose = [](sqlite3_file* f) { return Below(f)->pMethods->xClose(Below(f)); };
      m.xRead = [](sqlite3_file* f, void* to, int n, sqlite3_int64 at) {
        return Below(f)->pMethods->xRead(Below(f), to, n, at);
      };
      m.xWrite = &Write;
      m.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
        return Below(f)->pMethods->xTruncate(Below(f), size);
      };
      m.xSync = &Sync;
      m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
        return Below(f)->pMethods->xFileSize(Below(f), size);
      };
      m.xLock = [](sqlite3_file* f, int l) { return Below(f)->pMethods->xLock(Below(f), l); };
      m.xUnlock = [](sqlite3_file* f, int l) { return Below(f)->pMethods->xUnlock(Below(f), l); };
      m.xCheckReservedLock = [](sqlite3_file* f, int* held) {
        return Below(f)->pMethods->xCheckReservedLock(Below(f), held);
      };
      m.xFileControl = [](sqlite3_file* f, int op, void* argument) {
        return Below(f)->pMethods->xFileControl(Below(f), op, argument);
      };
      m.xSectorSize = [](sqlite3_file* f) { return Below(f)->pMethods->xSectorSize(Below(f)); };
      m.xDeviceCharacteristics = [](sqlite3_file* f) {
        return Below(f)->pMethods->xDeviceCharacteristics(Below(f));
      };
      m.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** at) {
        return Below(f)->pMethods->xShmMap(Below(f), page, size, extend, at);
      };
      m.xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
        return Below(f)->pMethods->xShmLock(Below(f), offset, n, flags);
      };
      m.xShmBarrier = [](sqlite3_file* f) { Below(f)->pMethods->xShmBarrier(Below(f)); };
      m.xShmUnmap = [](sqlite3_file* f, int remove) {
        return Below(f)->pMethods->xShmUnmap(Below(f), remove);
      };
      return m;
    }();
    return methods;
  }

  sqlite3_vfs* const below_;
  sqlite3_vfs vfs_;
  std::string name_;
  Mutex mutex_;
  std::map<std::string, std::string> synced_
      TM_GUARDED_BY(mutex_);  // content by path at its last sync
};

}  // namespace tidemill
