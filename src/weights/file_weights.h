// Weights through files of a directory that several hosts share (NFS, say).
//
//   DIR/weights-00000012.safetensors   a version; readable by anything that reads safetensors
//   DIR/newest.json                    a PolicyAnnouncement: the newest version, its file and
//   checksum
//
// Both appear by rename: a reader finds the old or the new. Nothing is synced to the disk, because
// weights that a crash takes away are made again from a checkpoint, and the checksum gives
// half-kept ones away.
#pragma once

#include <memory>
#include <string>

#include "weights/weight_wire.h"

namespace tidemill {

class FileWeightSink final : public WeightSink {
 public:
  // Makes `dir`, and takes away what an earlier publisher left there: the directory belongs to one
  // publisher at a time. `keep`: versions that stay, the newest included; one at least for readers
  // that are still busy with it.
  static Result<std::unique_ptr<FileWeightSink>> Create(const std::string& dir, size_t keep = 3);

  Status Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) override;

 private:
  FileWeightSink(std::string dir, size_t keep) : dir_(std::move(dir)), keep_(keep) {}
  const std::string dir_;
  const size_t keep_;
  uint64_t newest_ = 0;
};

// The directory may be made later. kCorrupt and kNotFound name the file.
std::unique_ptr<WeightSource> NewFileWeightSource(const std::string& dir);

}  // namespace tidemill
