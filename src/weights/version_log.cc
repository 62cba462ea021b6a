#include "weights/version_log.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <optional>
#include <thread>

#include "core/message_check.h"
#include "core/mutex.h"
#include "proto/tidemill.pb.h"
#include "weights/weight_check.h"

namespace tidemill {
namespace {

constexpr std::string_view kLog = "newest.json";
constexpr std::string_view kWhole = "weights-", kChanges = "delta-";
constexpr Duration kLookEvery = milliseconds(50);
// A publisher that prunes under our hands this often is faster than we read; try again later.
constexpr int kPrunedMax = 4;

std::string ObjectName(uint64_t version, uint64_t base) {
  char name[64];
  const char* form = base == 0 ? "weights-%08" PRIu64 ".safetensors" : "delta-%08" PRIu64;
  std::snprintf(name, sizeof name, form, version);
  return name;
}

std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

uint64_t BytesOf(std::span<const std::string_view> parts) {
  uint64_t sum = 0;
  for (const std::string_view part : parts) sum += part.size();
  return sum;
}

std::string ChecksumOf(std::span<const std::string_view> parts) {
  WeightChecksum sum;
  for (const std::string_view part : parts) {
    sum.Add(reinterpret_cast<const std::byte*>(part.data()), part.size());
  }
  return Hex(sum.Value());
}

// The log, empty where nothing was published yet. `place` in the message of a failure.
Result<v1::PolicyLog> ReadLog(ObjectPlace& place) {
  v1::PolicyLog log;
  Result<std::string> json = place.Get(kLog, kReplacedBytes);
  if (json.status().code() == Code::kNotFound) return log;
  if (!json.ok()) return json.status();
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(*json, &log, options);
  const std::string path = place.Name(kLog);
  if (!parsed.ok()) return Corrupt(path + ": is not a valid list of weights");
  const Status right = CheckMessage(log);
  if (!right.ok()) return Corrupt(path + ": " + right.message());
  uint64_t last = 1;
  for (const v1::PolicyAnnouncement& row : log.versions()) {
    const bool named = row.location() == ObjectName(row.version(), row.base());
    if (!named || row.version() < last || row.base() >= row.version()) {
      return Corrupt(path + ": version " + std::to_string(row.version()) +
                     " is not a valid announcement of weights");
    }
    last = row.version();
  }
  if (log.versions_size() == 0) return Corrupt(path + ": is an empty list of weights");
  return log;
}

// The rows to read, in their order, to come from `held` (0: nothing) to the newest version with
// the fewest bytes; none: there is no way.
std::vector<const v1::PolicyAnnouncement*> WayTo(const v1::PolicyLog& log, uint64_t held) {
  constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  const int count = log.versions_size();
  std::vector<uint64_t> cost(static_cast<size_t>(count), kNever);
  std::vector<int> before(static_cast<size_t>(count), -1);
  for (int i = 0; i < count; ++i) {
    const v1::PolicyAnnouncement& row = log.versions(i);
    uint64_t& least = cost[static_cast<size_t>(i)];
    if (row.base() == 0 || row.base() == held) least = row.bytes();
    if (row.base() == 0) continue;
    for (int j = 0; j < i; ++j) {
      const uint64_t until = cost[static_cast<size_t>(j)];
      if (log.versions(j).version() != row.base() || until == kNever) continue;
      if (until + row.bytes() >= least) continue;
      least = until + row.bytes();
      before[static_cast<size_t>(i)] = j;
    }
  }
  int at = -1;
  for (int i = count - 1; i >= 0 && log.versions(i).version() == log.versions(count - 1).version();
       --i) {
    const uint64_t here = cost[static_cast<size_t>(i)];
    if (here != kNever && (at < 0 || here < cost[static_cast<size_t>(at)])) at = i;
  }
  std::vector<const v1::PolicyAnnouncement*> way;
  for (; at >= 0; at = before[static_cast<size_t>(at)]) way.push_back(&log.versions(at));
  std::reverse(way.begin(), way.end());
  return way;
}

class VersionLogSource final : public WeightSource {
 public:
  explicit VersionLogSource(std::unique_ptr<ObjectPlace> place) : place_(std::move(place)) {}

  Result<WeightBlob> NewerThan(uint64_t have, WeightBuffers& buffers) override {
    for (int i = 0; i < kPrunedMax; ++i) {
      TM_ASSIGN_OR_RETURN(const v1::PolicyLog log, ReadLog(*place_));
      const uint64_t newest = NewestOf(log);
      if (newest <= have) return WeightBlob{};
      Result<WeightBlob> blob = Follow(log, buffers);
      if (blob.ok()) {
        held_ = *blob;
        return blob;
      }
      // The base we hold may be of a publisher that is gone; the whole version is of this one.
      if (held_.version != 0) {
        held_ = {};
        continue;
      }
      TM_ASSIGN_OR_RETURN(const v1::PolicyLog now, ReadLog(*place_));
      if (NewestOf(now) == newest) return blob;
      // Pruned while we read: there is a newer one.
    }
    return WeightBlob{};
  }

  void WaitForNewer(uint64_t have, Duration patience) override {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < until) {
      const Result<v1::PolicyLog> log = ReadLog(*place_);
      if (log.ok() && NewestOf(*log) > have) return;
      std::this_thread::sleep_for(std::min(kLookEvery, patience));
    }
  }

 private:
  static uint64_t NewestOf(const v1::PolicyLog& log) {
    return log.versions_size() == 0 ? 0 : log.versions(log.versions_size() - 1).version();
  }

  Result<WeightBlob> Follow(const v1::PolicyLog& log, WeightBuffers& buffers) {
    const auto way = WayTo(log, held_.version);
    if (way.empty()) {
      return Corrupt(place_->Name(kLog) + ": no whole version leads to version " +
                     std::to_string(NewestOf(log)));
    }
    WeightBlob blob = way.front()->base() == 0 ? WeightBlob{} : held_;
    for (const v1::PolicyAnnouncement* row : way) {
      TM_ASSIGN_OR_RETURN(
          blob, row->base() == 0 ? ReadWhole(*row, buffers) : Change(blob, *row, buffers));
    }
    return blob;
  }

  static WeightBlob BlobOf(const v1::PolicyAnnouncement& row, std::shared_ptr<WeightBuffer> buffer,
                           size_t bytes) {
    WeightBlob blob;
    blob.version = row.version();
    blob.step = row.step();
    blob.buffer = std::move(buffer);
    blob.bytes = bytes;
    return blob;
  }

  Status ReadChecked(const v1::PolicyAnnouncement& row, std::span<std::byte> to) {
    TM_RETURN_IF_ERROR(place_->Read(row.location(), to));
    WeightChecksum sum;
    sum.Add(to.data(), to.size());
    if (Hex(sum.Value()) == row.checksum()) return Ok();
    return Corrupt(place_->Name(row.location()) + ": its checksum is " + Hex(sum.Value()) +
                   ", newest.json says " + row.checksum());
  }

  Result<WeightBlob> ReadWhole(const v1::PolicyAnnouncement& row, WeightBuffers& buffers) {
    TM_RETURN_IF_ERROR(CheckWeightBytes(row.bytes()).WithContext(place_->Name(row.location())));
    const auto buffer = buffers.Get(row.bytes());
    TM_RETURN_IF_ERROR(ReadChecked(row, {buffer->data(), row.bytes()}));
    return BlobOf(row, buffer, row.bytes());
  }

  Result<WeightBlob> Change(const WeightBlob& base, const v1::PolicyAnnouncement& row,
                            WeightBuffers& buffers) {
    const std::string path = place_->Name(row.location());
    TM_RETURN_IF_ERROR(CheckWeightBytes(row.bytes()).WithContext(path));
    std::string delta(row.bytes(), '\0');
    TM_RETURN_IF_ERROR(
        ReadChecked(row, {reinterpret_cast<std::byte*>(delta.data()), delta.size()}));
    const auto buffer = buffers.Get(base.bytes);
    TM_RETURN_IF_ERROR(ApplyDelta(base.view(), delta, buffer->data()).WithContext(path));
    return BlobOf(row, buffer, base.bytes);
  }

  const std::unique_ptr<ObjectPlace> place_;
  WeightBlob held_;  // what changes are applied to
};

}  // namespace

VersionLogSink::VersionLogSink(std::unique_ptr<ObjectPlace> place, const VersionLogOptions& options)
    : place_(std::move(place)),
      options_(options),
      log_(std::make_unique<v1::PolicyLog>()),
      maker_(options.delta) {}

VersionLogSink::~VersionLogSink() = default;

Result<std::unique_ptr<VersionLogSink>> VersionLogSink::Create(std::unique_ptr<ObjectPlace> place,
                                                               const VersionLogOptions& options) {
  // The log first: it must not name what is gone.
  const std::string_view prefixes[] = {kLog, kWhole, kChanges};
  TM_RETURN_IF_ERROR(place->Clear({prefixes, 1}));
  TM_RETURN_IF_ERROR(place->Clear(prefixes));
  return std::unique_ptr<VersionLogSink>(new VersionLogSink(std::move(place), options));
}

Status VersionLogSink::PutObject(v1::PolicyLog& log, uint64_t version, uint64_t step, uint64_t base,
                                 std::span<const std::string_view> parts) {
  v1::PolicyAnnouncement& row = *log.add_versions();
  row.set_version(version);
  row.set_step(step);
  row.set_base(base);
  row.set_location(ObjectName(version, base));
  row.set_bytes(BytesOf(parts));
  row.set_checksum(ChecksumOf(parts));
  row.set_published_ms(RealClock().WallMs());
  return place_->Put(row.location(), parts);
}

Status VersionLogSink::PutLog(const v1::PolicyLog& log) {
  std::string json;
  const auto made = google::protobuf::util::MessageToJsonString(log, &json);
  if (!made.ok()) return Internal("newest.json: " + made.ToString());
  json += "\n";
  const std::string_view part = json;
  return place_->Put(kLog, {&part, 1});
}

// Readers may be busy with what the last whole version but one leads to; nobody with older.
void VersionLogSink::Prune(v1::PolicyLog& log, std::vector<std::string>& gone) const {
  int wholes = 0;
  int first = log.versions_size();
  while (first > 0 && wholes < 2) {
    --first;
    wholes += log.versions(first).base() == 0 ? 1 : 0;
  }
  for (int i = 0; i < first; ++i) gone.push_back(log.versions(i).location());
  log.mutable_versions()->DeleteSubrange(0, first);
}

Status VersionLogSink::Put(uint64_t version, uint64_t step, const SafetensorsParts& parts) {
  const uint64_t newest =
      log_->versions_size() == 0 ? 0 : log_->versions(log_->versions_size() - 1).version();
  if (version <= newest) {
    return Invalid("version " + std::to_string(version) + " is not above the newest published");
  }
  const std::optional<std::string> delta =
      options_.whole_every > 1 ? maker_.Next(parts) : std::nullopt;
  v1::PolicyLog log = *log_;
  Status status;
  if (delta) {
    const std::string_view part = *delta;
    status = PutObject(log, version, step, newest, {&part, 1});
    changes_bytes_ += part.size();
    ++changes_;
  }
  const bool whole =
      !delta || changes_ + 1 >= options_.whole_every || changes_bytes_ > parts.bytes();
  if (whole && status.ok()) status = PutObject(log, version, step, 0, parts.parts);
  std::vector<std::string> gone;
  if (status.ok()) {
    Prune(log, gone);
    status = PutLog(log);
  }
  if (!status.ok()) {
    for (const v1::PolicyAnnouncement& row : log.versions()) {
      if (row.version() == version) (void)place_->Remove(row.location());
    }
    maker_.Forget();
    return status;
  }
  *log_ = std::move(log);
  for (const std::string& name : gone) (void)place_->Remove(name);  // what stays costs space
  figures_ = {.bytes = delta ? delta->size() : parts.bytes(),
              .whole = parts.bytes(),
              .density = delta ? maker_.figures().density() : 1};
  if (whole) changes_bytes_ = 0, changes_ = 0;
  return Ok();
}

std::unique_ptr<WeightSource> NewVersionLogSource(std::unique_ptr<ObjectPlace> place) {
  return std::make_unique<VersionLogSource>(std::move(place));
}

}  // namespace tidemill
