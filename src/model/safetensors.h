// Tensors in files: the safetensors format, read by memory map and written whole or not at all.
//
//   path -> SafetensorsFile (one file) or ModelTensors (a model's file or shards) -> TensorView
//
// A file is 8 bytes of header length (little endian), a JSON header, then the tensors' bytes
// without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "model/dtype.h"

namespace tidemill {

// A tensor somebody else owns: contiguous, row major, in the file's byte order (little endian).
// Those a reader gives live as long as the reader does.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;       // empty: a single number
  const std::byte* data = nullptr;  // not necessarily aligned
  size_t bytes = 0;

  int64_t elements() const;
};

using TensorMetadata = std::map<std::string, std::string>;

// A header that was checked: every view lies inside the file, none overlap, none are missing bytes.
struct SafetensorsHeader {
  std::vector<TensorView> tensors;  // sorted by name; data points into the bytes that were parsed
  TensorMetadata metadata;
};

// `file` is a whole file. kCorrupt names `name` and the tensor that does not fit. Never allocates
// by what the header claims, only by how long it is.
Result<SafetensorsHeader> ParseSafetensors(std::string_view file, std::string_view name);

// Read-only memory map of a file; unmapped when the last copy of the pointer goes.
class MappedFile;

// One or more safetensors files as one set of names. Cheap to copy: copies share the maps, and
// views stay valid while one copy lives. The files must not be changed in place meanwhile (ours
// never are: a writer replaces them by rename).
class TensorFiles {
 public:
  // One .safetensors file.
  static Result<TensorFiles> Open(const std::string& path);
  // DIR/model.safetensors, or else the shards DIR/model.safetensors.index.json names.
  static Result<TensorFiles> OpenModel(const std::string& dir);

  // Sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  // Null: no such tensor.
  const TensorView* Find(std::string_view name) const;
  // The same with an error that names file and tensor. kNotFound.
  Result<const TensorView*> Get(std::string_view name) const;
  // Of the first file.
  const TensorMetadata& metadata() const { return metadata_; }

 private:
  std::string name_;
  std::vector<std::shared_ptr<const MappedFile>> files_;  // shared: copies of this object read them
  std::vector<TensorView> tensors_;
  TensorMetadata metadata_;
};

// Writes one file atomically (temporary, fsync, rename). kInvalid: a name twice, or bytes that do
// not fit the shape. On failure what was at `path` is untouched.
Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const TensorMetadata& metadata = {{"format", "pt"}});

// A model's tensors in the layout transformers reads: DIR/model.safetensors, or, when they are more
// than `max_shard_bytes`, model-0000i-of-0000n.safetensors and then the index. Files of an earlier
// model with the other layout are removed last. A tensor larger than a shard gets one of its own.
inline constexpr uint64_t kMaxShardBytes = uint64_t{5} << 30;
Status WriteModelTensors(const std::string& dir, std::span<const TensorView> tensors,
                         uint64_t max_shard_bytes = kMaxShardBytes);
// The same for tensors whose bytes are made when they are needed, one shard in memory at a time:
// `data` of the views is not read, `fill` writes a tensor's bytes. Its failure ends the writing.
using TensorFill = std::function<Status(const TensorView& tensor, std::span<std::byte> out)>;
Status WriteModelTensors(const std::string& dir, std::span<const TensorView> tensors,
                         const TensorFill& fill, uint64_t max_shard_bytes = kMaxShardBytes);
// The same with a few megabytes in memory at a time: `threads` threads ask for parts of tensors,
// `out` from `first_byte` on, and write them where they belong in the file.
using TensorPartFill =
    std::function<Status(const TensorView& tensor, size_t first_byte, std::span<std::byte> out)>;
Status WriteModelTensorsInParts(const std::string& dir, std::span<const TensorView> tensors,
                                const TensorPartFill& fill, int threads,
                                uint64_t max_shard_bytes = kMaxShardBytes);

}  // namespace tidemill
