// A file of scalars as TensorBoard reads them, appended while a run goes on.
//
// A record is: length (8 bytes, little endian), masked CRC-32C of those 8 bytes (4 bytes), the
// bytes of an Event (protocol buffer), their masked CRC-32C (4 bytes).
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

// CRC-32C (Castagnoli), as in iSCSI.
uint32_t Crc32c(std::string_view bytes);
// A checksum of bytes that contain checksums is weak; the format therefore stores it rotated and
// shifted.
uint32_t MaskedCrc32c(std::string_view bytes);

// Not thread-safe.
class TensorboardLog {
 public:
  // A new file events.out.tfevents.SECONDS.tidemill in `folder`, which is made, beside those of
  // earlier parts of the run.
  static Result<TensorboardLog> Create(const std::string& folder, int64_t now_ms);

  // Scalars of one step; those that are not finite are left out. Readable by others on return.
  Status Append(int64_t at_ms, int64_t step, const std::map<std::string, double>& scalars);

  // A resumed run goes on before `step`: readers forget what older files of the folder say of that
  // step and later ones.
  Status RestartFrom(int64_t at_ms, int64_t step);

  // Removes this program's older files of the folder, once all that they say is in this one.
  Status RemoveOlder();

  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TensorboardLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status Write(std::string_view event);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tidemill
