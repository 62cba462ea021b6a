#include "model/safetensors.h"
#include "model/mapped_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "core/files.h"
#include "model/json_fields.h"
#include "model/model_folder.h"

namespace tidemill {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are used as they lie in the file");

constexpr size_t kHeaderBytesMax = 100'000'000;  // the format's own bound
constexpr size_t kDimensionsMax = 64;
constexpr size_t kShardsMax = 100'000;

// A JSON object in which a name that comes twice is an error: of two tensors with one name, which
// is meant?
Result<nlohmann::json> ParseHeaderJson(std::string_view text, const std::string& name) {
  std::set<std::string> seen;
  std::string twice;
  const auto note_key = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& key) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) {
      if (!seen.insert(key.get<std::string>()).second) twice = DescribeJson(key);
    }
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(text.begin(), text.end(), note_key);
  } catch (const nlohmann::json::exception& error) {
    return Corrupt(name + ": the header is not JSON: " + error.what());
  }
  if (!header.is_object()) return Corrupt(name + ": the header is not a JSON object");
  if (!twice.empty()) return Corrupt(name + ": tensor " + twice + " appears twice");
  return header;
}

// The header's JSON text and the bytes behind it.
struct FileParts {
  std::string_view header;
  std::string_view data;
};

Result<FileParts> SplitFile(std::string_view file, const std::string& name) {
  uint64_t length = 0;
  if (file.size() < sizeof(length)) {
    return Corrupt(name + ": " + std::to_string(file.size()) +
                   " bytes are too few for a safetensors file");
  }
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kHeaderBytesMax) {
    return Corrupt(name + ": a header of " + std::to_string(length) + " bytes is too long");
  }
  if (length > file.size() - sizeof(length)) {
    return Corrupt(name + ": the header should have " + std::to_string(length) +
                   " bytes, the file ends after " + std::to_string(file.size() - sizeof(length)));
  }
  const std::string_view header = file.substr(sizeof(length), length);
  if (header.empty() || header.front() != '{') {
    return Corrupt(name + ": the header does not start with '{'");
  }
  return FileParts{header, file.substr(sizeof(length) + length)};
}

std::optional<uint64_t> Unsigned(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  return std::nullopt;
}

// Bytes of `shape` elements of `dtype`; nothing: more than can be counted.
std::optional<uint64_t> ByteCount(Dtype dtype, const std::vector<int64_t>& shape) {
  uint64_t count = DtypeSize(dtype);
  // A dimension of 0 makes it 0 whatever the others are, as long as each is a count.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t n : shape) {
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(n), &count)) return std::nullopt;
  }
  if (count > uint64_t{INT64_MAX}) return std::nullopt;
  return count;
}

Status ReadShape(const nlohmann::json& value, const std::string& what,
                 std::vector<int64_t>& shape) {
  if (!value.is_array() || value.size() > kDimensionsMax) {
    return Corrupt(what + "\"shape\" must be a list of at most " + std::to_string(kDimensionsMax) +
                   " numbers, got " + DescribeJson(value));
  }
  for (const nlohmann::json& n : value) {
    const std::optional<uint64_t> count = Unsigned(n);
    if (!count || *count > uint64_t{INT64_MAX}) {
      return Corrupt(what + "\"shape\" must hold whole numbers from 0, got " + DescribeJson(n));
    }
    shape.push_back(static_cast<int64_t>(*count));
  }
  return Ok();
}

// One entry of the header. `begin` is where its bytes start behind the header.
Status ReadEntry(const nlohmann::json& entry, std::string_view data, const std::string& what,
                 TensorView& tensor, uint64_t& begin) {
  if (!entry.is_object()) return Corrupt(what + "must be an object, got " + DescribeJson(entry));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(key)) return Corrupt(what + "\"" + key + "\" is missing");
  }
  const nlohmann::json& dtype = entry["dtype"];
  const auto known = dtype.is_string() ? DtypeFromName(dtype.get_ref<const std::string&>())
                                       : std::optional<Dtype>();
  if (!known) return Corrupt(what + "unknown \"dtype\" " + DescribeJson(dtype));
  tensor.dtype = *known;
  TM_RETURN_IF_ERROR(ReadShape(entry["shape"], what, tensor.shape));
  const std::optional<uint64_t> bytes = ByteCount(tensor.dtype, tensor.shape);
  if (!bytes) return Corrupt(what + "\"shape\" has more elements than can be counted");
  const nlohmann::json& offsets = entry["data_offsets"];
  const bool pair =
      offsets.is_array() && offsets.size() == 2 && Unsigned(offsets[0]) && Unsigned(offsets[1]);
  if (!pair) return Corrupt(what + "\"data_offsets\" must be two whole numbers");
  begin = *Unsigned(offsets[0]);
  const uint64_t end = *Unsigned(offsets[1]);
  if (begin > end || end > data.size()) {
    return Corrupt(what + "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                   " lie outside of the " + std::to_string(data.size()) + " there are");
  }
  if (end - begin != *bytes) {
    return Corrupt(what + "has " + std::to_string(end - begin) +
                   " bytes, its shape and dtype need " + std::to_string(*bytes));
  }
  tensor.data = reinterpret_cast<const std::byte*>(data.data() + begin);
  tensor.bytes = *bytes;
  return Ok();
}

Status ReadMetadata(const nlohmann::json& value, const std::string& name,
                    TensorMetadata& metadata) {
  if (value.is_null()) return Ok();
  if (!value.is_object()) return Corrupt(name + ": \"__metadata__\" must be an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      return Corrupt(name + ": \"__metadata__\" must hold strings, got " + DescribeJson(text));
    }
    metadata[key] = text.get<std::string>();
  }
  return Ok();
}

// The tensors must fill `data` one behind the other: a hole or an overlap is a broken or forged
// file.
Status CheckCoverage(std::vector<std::pair<uint64_t, const TensorView*>>& places,
                     std::string_view data, const std::string& name) {
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->bytes < b.second->bytes;
  });
  uint64_t covered = 0;
  for (const auto& [begin, tensor] : places) {
    if (begin != covered) {
      return Corrupt(name + ": tensor \"" + tensor->name + "\" starts at byte " +
                     std::to_string(begin) +
                     (begin < covered ? ", inside of another" : ", behind a hole") +
                     "; the one before ends at " + std::to_string(covered));
    }
    covered += tensor->bytes;
  }
  if (covered != data.size()) {
    return Corrupt(name + ": " + std::to_string(data.size() - covered) +
                   " bytes at the end belong to no tensor");
  }
  return Ok();
}

void SortByName(std::vector<TensorView>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorView& a, const TensorView& b) { return a.name < b.name; });
}

// A shard's name comes from outside: it must stay in the model's folder.
bool PlainFileName(const std::string& name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

// Tensor name to shard name, from the index.
Result<std::map<std::string, std::string>> ReadIndex(const std::string& path) {
  TM_ASSIGN_OR_RETURN(const std::string text, ReadFileBounded(path, kHeaderBytesMax));
  TM_ASSIGN_OR_RETURN(const nlohmann::json index, ParseJsonObject(text, path));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    return Invalid(path + ": \"weight_map\" must be an object");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !PlainFileName(file.get<std::string>())) {
      return Invalid(path + ": \"weight_map\": tensor " + DescribeJson(nlohmann::json(tensor)) +
                     " must name a file beside the index, got " + DescribeJson(file));
    }
    shards[tensor] = file.get<std::string>();
  }
  return shards;
}

}  // namespace

int64_t TensorView::elements() const {
  return static_cast<int64_t>(bytes / DtypeSize(dtype));
}

Result<SafetensorsHeader> ParseSafetensors(std::string_view file, std::string_view name) {
  const std::string file_name(name);
  TM_ASSIGN_OR_RETURN(const FileParts parts, SplitFile(file, file_name));
  TM_ASSIGN_OR_RETURN(const nlohmann::json json, ParseHeaderJson(parts.header, file_name));
  SafetensorsHeader header;
  std::vector<uint64_t> begins;
  for (const auto& [key, entry] : json.items()) {
    if (key == "__metadata__") {
      TM_RETURN_IF_ERROR(ReadMetadata(entry, file_name, header.metadata));
      continue;
    }
    const std::string what = file_name + ": tensor " + DescribeJson(nlohmann::json(key)) + ": ";
    TensorView tensor;
    tensor.name = key;
    TM_RETURN_IF_ERROR(ReadEntry(entry, parts.data, what, tensor, begins.emplace_back()));
    header.tensors.push_back(std::move(tensor));
  }
  std::vector<std::pair<uint64_t, const TensorView*>> places;
  for (size_t i = 0; i < begins.size(); ++i) places.emplace_back(begins[i], &header.tensors[i]);
  TM_RETURN_IF_ERROR(CheckCoverage(places, parts.data, file_name));
  SortByName(header.tensors);
  return header;
}

Result<TensorFiles> TensorFiles::Open(const std::string& path) {
  TM_ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  TM_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensors(file->bytes(), path));
  TensorFiles files;
  files.name_ = path;
  files.files_.push_back(std::move(file));
  files.tensors_ = std::move(header.tensors);
  files.metadata_ = std::move(header.metadata);
  return files;
}

Result<TensorFiles> TensorFiles::OpenModel(const std::string& dir) {
  Result<TensorFiles> single = Open(dir + "/model.safetensors");
  if (single.ok() || single.status().code() != Code::kNotFound) return single;
  const std::string index_path = dir + "/model.safetensors.index.json";
  const auto index = ReadIndex(index_path);
  if (!index.ok() && index.status().code() == Code::kNotFound) {
    return NoWeightsIn(dir);
  }
  TM_RETURN_IF_ERROR(index.status());
  std::set<std::string> names;
  for (const auto& [tensor, file] : *index) names.insert(file);
  if (names.size() > kShardsMax) return Invalid(index_path + ": too many shards");
  TensorFiles files;
  files.name_ = index_path;
  for (const std::string& name : names) {
    TM_ASSIGN_OR_RETURN(TensorFiles shard, Open(dir + "/" + name));
    for (TensorView& tensor : shard.tensors_) {
      const auto place = index->find(tensor.name);
      // Others in the file are not this model's.
      if (place != index->end() && place->second == name) {
        files.tensors_.push_back(std::move(tensor));
      }
    }
    files.files_.push_back(std::move(shard.files_.front()));
    if (files.metadata_.empty()) files.metadata_ = std::move(shard.metadata_);
  }
  SortByName(files.tensors_);
  for (const auto& [tensor, file] : *index) {
    if (files.Find(tensor) == nullptr) {
      return Corrupt(index_path + ": tensor \"" + tensor + "\" is not in " + file);
    }
  }
  return files;
}

const TensorView* TensorFiles::Find(std::string_view name) const {
  const auto it = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorView& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

Result<const TensorView*> TensorFiles::Get(std::string_view name) const {
  const TensorView* tensor = Find(name);
  if (tensor == nullptr) {
    return NotFound(name_ + ": tensor \"" + std::string(name) + "\" is not there");
  }
  return tensor;
}

}  // namespace tidemill
