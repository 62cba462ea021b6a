#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "core/files.h"
#include "core/parallel.h"
#include "core/replace_file.h"
#include "model/json_fields.h"
#include "model/safetensors.h"
#include "model/safetensors_parts.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Bytes(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.data), tensor.bytes};
}

Status CheckTensors(std::span<const TensorView> tensors, const std::string& path) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : tensors) {
    const std::string what = path + ": tensor \"" + tensor.name + "\" ";
    if (tensor.name.empty() || tensor.name == "__metadata__") {
      return Invalid(what + "cannot have this name");
    }
    if (!names.insert(tensor.name).second) return Invalid(what + "appears twice");
    uint64_t bytes = DtypeSize(tensor.dtype);
    for (const int64_t n : tensor.shape) {
      if (n < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes)) {
        return Invalid(what + "has no shape that can be written");
      }
    }
    if (bytes != tensor.bytes) {
      return Invalid(what + "has " + std::to_string(tensor.bytes) +
                     " bytes, its shape and dtype need " + std::to_string(bytes));
    }
  }
  return Ok();
}

// Wider elements first, so that every tensor is aligned; then by name.
std::vector<const TensorView*> FileOrder(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    const size_t a_size = DtypeSize(a->dtype);
    const size_t b_size = DtypeSize(b->dtype);
    return a_size != b_size ? a_size > b_size : a->name < b->name;
  });
  return order;
}

Result<std::string> HeaderText(const std::vector<const TensorView*>& order,
                               const TensorMetadata& metadata, const std::string& path) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t begin = 0;
  for (const TensorView* tensor : order) {
    header[tensor->name] = {{"dtype", DtypeName(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {begin, begin + tensor->bytes}}};
    begin += tensor->bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    return Invalid(path + ": a name or the metadata is not UTF-8");
  }
  // The data starts on a cache line's boundary; the length before the header takes 8 bytes.
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  return text;
}

std::string ShardName(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

// Consecutive tensors in as few shards as their order allows.
std::vector<std::vector<TensorView>> Shards(std::span<const TensorView> tensors,
                                            uint64_t max_bytes) {
  std::vector<std::vector<TensorView>> shards(1);
  uint64_t used = 0;
  for (const TensorView& tensor : tensors) {
    if (!shards.back().empty() && (used > max_bytes || tensor.bytes > max_bytes - used)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += tensor.bytes;
  }
  return shards;
}

bool IsModelFile(const std::string& name) {
  if (name == "model.safetensors" || name == "model.safetensors.index.json") return true;
  return name.size() == std::strlen("model-00001-of-00001.safetensors") &&
         name.starts_with("model-") && name.ends_with(".safetensors") &&
         name.substr(11, 4) == "-of-";
}

// Takes away the files of an earlier model that the new one does not consist of.
Status RemoveOthers(const std::string& dir, const std::set<std::string>& keep) {
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    const std::string name = entry.path().filename().string();
    if (IsModelFile(name) && !keep.contains(name)) old.push_back(entry.path());
  }
  for (const auto& path : old) {
    if (!std::filesystem::remove(path, error) && error) {
      return Unavailable(path.string() + ": cannot remove: " + error.message());
    }
  }
  return Ok();
}

using ShardWriter = std::function<Status(const std::string& path, std::span<const TensorView>)>;

Status WriteShards(const std::string& dir, std::span<const TensorView> tensors,
                   uint64_t max_shard_bytes, const ShardWriter& write) {
  TM_RETURN_IF_ERROR(CheckTensors(tensors, dir));
  const std::vector<std::vector<TensorView>> shards = Shards(tensors, max_shard_bytes);
  if (shards.size() > 99'999) return Invalid(dir + ": too many shards; allow larger ones");
  if (shards.size() == 1) {
    TM_RETURN_IF_ERROR(write(dir + "/model.safetensors", tensors));
    return RemoveOthers(dir, {"model.safetensors"});
  }
  std::set<std::string> files = {"model.safetensors.index.json"};
  Json map = Json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = ShardName(i, shards.size());
    TM_RETURN_IF_ERROR(write(dir + "/" + name, shards[i]));
    files.insert(name);
    for (const TensorView& tensor : shards[i]) {
      map[tensor.name] = name;
      total += tensor.bytes;
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  TM_RETURN_IF_ERROR(WriteFileAtomically(dir + "/model.safetensors.index.json", DumpJson(index)));
  return RemoveOthers(dir, files);
}

Status WriteFilledShard(const std::string& path, std::span<const TensorView> tensors,
                        const TensorFill& fill) {
  size_t total = 0;
  for (const TensorView& tensor : tensors) total += tensor.bytes;
  std::vector<std::byte> bytes(total);
  std::vector<TensorView> filled(tensors.begin(), tensors.end());
  size_t at = 0;
  for (TensorView& tensor : filled) {
    const std::span<std::byte> out = std::span(bytes).subspan(at, tensor.bytes);
    TM_RETURN_IF_ERROR(fill(tensor, out));
    tensor.data = out.data();
    at += tensor.bytes;
  }
  return WriteSafetensors(path, filled);
}

constexpr size_t kPartBytes = size_t{4} << 20;

// A part of a tensor and where it lies in the file.
struct FilePart {
  const TensorView* tensor;
  size_t first_byte;
  size_t bytes;
  uint64_t offset;
};

std::vector<FilePart> PartsOfFile(const std::vector<const TensorView*>& order, uint64_t offset) {
  std::vector<FilePart> parts;
  for (const TensorView* tensor : order) {
    for (size_t first = 0; first < tensor->bytes; first += kPartBytes) {
      const size_t bytes = std::min(kPartBytes, tensor->bytes - first);
      parts.push_back({tensor, first, bytes, offset + first});
    }
    offset += tensor->bytes;
  }
  return parts;
}

Result<std::string> FileHead(const std::vector<const TensorView*>& order,
                             const TensorMetadata& metadata, const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string header, HeaderText(order, metadata, path));
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header;
}

Status WriteShardInParts(const std::string& path, std::span<const TensorView> tensors,
                         const TensorPartFill& fill, int threads) {
  const std::vector<const TensorView*> order = FileOrder(tensors);
  TM_ASSIGN_OR_RETURN(const std::string head, FileHead(order, {{"format", "pt"}}, path));
  const std::vector<FilePart> parts = PartsOfFile(order, head.size());
  return ReplaceFile(path, [&](const Fd& fd, const std::string& name) -> Status {
    TM_RETURN_IF_ERROR(WriteAllAt(fd, 0, head, name));
    return InParallel(parts.size(), threads, [&](size_t i) -> Status {
      const FilePart& part = parts[i];
      const auto buffer = std::make_unique_for_overwrite<std::byte[]>(part.bytes);
      TM_RETURN_IF_ERROR(fill(*part.tensor, part.first_byte, std::span(buffer.get(), part.bytes)));
      return WriteAllAt(fd, part.offset, {reinterpret_cast<const char*>(buffer.get()), part.bytes},
                        name);
    });
  });
}

}  // namespace

Result<std::unique_ptr<const SafetensorsParts>> LayOutSafetensors(
    std::span<const TensorView> tensors, const TensorMetadata& metadata, const std::string& name) {
  TM_RETURN_IF_ERROR(CheckTensors(tensors, name));
  const std::vector<const TensorView*> order = FileOrder(tensors);
  auto laid_out = std::make_unique<SafetensorsParts>();
  TM_ASSIGN_OR_RETURN(laid_out->head, FileHead(order, metadata, name));
  laid_out->parts.emplace_back(laid_out->head);
  for (const TensorView* tensor : order) laid_out->parts.push_back(Bytes(*tensor));
  return std::unique_ptr<const SafetensorsParts>(std::move(laid_out));
}

Status WriteSafetensors(const std::string& path, std::span<const TensorView> tensors,
                        const TensorMetadata& metadata) {
  TM_ASSIGN_OR_RETURN(const auto laid_out, LayOutSafetensors(tensors, metadata, path));
  return WriteFileAtomically(path, laid_out->parts);
}

Status WriteModelTensors(const std::string& dir, std::span<const TensorView> tensors,
                         uint64_t max_shard_bytes) {
  return WriteShards(dir, tensors, max_shard_bytes,
                     [](const std::string& path, std::span<const TensorView> shard) {
                       return WriteSafetensors(path, shard);
                     });
}

Status WriteModelTensors(const std::string& dir, std::span<const TensorView> tensors,
                         const TensorFill& fill, uint64_t max_shard_bytes) {
  return WriteShards(dir, tensors, max_shard_bytes,
                     [&](const std::string& path, std::span<const TensorView> shard) {
                       return WriteFilledShard(path, shard, fill);
                     });
}

Status WriteModelTensorsInParts(const std::string& dir, std::span<const TensorView> tensors,
                                const TensorPartFill& fill, int threads, uint64_t max_shard_bytes) {
  return WriteShards(dir, tensors, max_shard_bytes,
                     [&](const std::string& path, std::span<const TensorView> shard) {
                       return WriteShardInParts(path, shard, fill, threads);
                     });
}

}  // namespace tidemill
