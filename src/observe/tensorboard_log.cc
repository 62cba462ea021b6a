#include "observe/tensorboard_log.h"

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "proto/tensorboard.pb.h"

namespace tidemill {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::string_view kFileBegin = "events.out.tfevents.";
constexpr std::string_view kFileEnd = ".tidemill";

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

template <typename T>
void AppendRaw(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

tensorboard::Event EventAt(int64_t at_ms) {
  tensorboard::Event event;
  event.set_wall_time(static_cast<double>(at_ms) / 1e3);
  return event;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

Result<TensorboardLog> TensorboardLog::Create(const std::string& folder, int64_t now_ms) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Unavailable(folder + ": cannot be made: " + error.message());
  // Readers take the files of a folder in the order of their names.
  for (int64_t second = now_ms / 1000;; ++second) {
    const std::string path =
        folder + "/" + std::string(kFileBegin) + std::to_string(second) + std::string(kFileEnd);
    std::FILE* file = std::fopen(path.c_str(), "wbxe");
    if (file == nullptr && errno == EEXIST) continue;
    if (file == nullptr) return Unavailable(path + ": cannot be made: " + std::strerror(errno));
    TensorboardLog log(path, file);
    tensorboard::Event event = EventAt(now_ms);
    event.set_file_version("brain.Event:2");
    TM_RETURN_IF_ERROR(log.Write(event.SerializeAsString()));
    return log;
  }
}

Status TensorboardLog::Append(int64_t at_ms, int64_t step,
                              const std::map<std::string, double>& scalars) {
  tensorboard::Event event = EventAt(at_ms);
  event.set_step(step);
  for (const auto& [tag, number] : scalars) {
    if (!std::isfinite(number)) continue;
    tensorboard::Scalar& scalar = *event.mutable_summary()->add_value();
    scalar.set_tag(tag);
    scalar.set_simple_value(static_cast<float>(number));
  }
  return event.has_summary() ? Write(event.SerializeAsString()) : Ok();
}

Status TensorboardLog::RestartFrom(int64_t at_ms, int64_t step) {
  tensorboard::Event event = EventAt(at_ms);
  event.set_step(step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return Write(event.SerializeAsString());
}

Status TensorboardLog::RemoveOlder() {
  const std::filesystem::path own(path_);
  std::error_code error;
  std::filesystem::directory_iterator files(own.parent_path(), error);
  for (; !error && files != std::filesystem::directory_iterator(); files.increment(error)) {
    const std::string name = files->path().filename().string();
    const bool ours = name.starts_with(kFileBegin) && name.ends_with(kFileEnd);
    if (ours && files->path().filename() != own.filename()) {
      std::filesystem::remove(files->path(), error);
    }
  }
  if (!error) return Ok();
  return Unavailable(own.parent_path().string() + ": older files stay: " + error.message());
}

Status TensorboardLog::Write(std::string_view event) {
  std::string record;
  AppendRaw(record, static_cast<uint64_t>(event.size()));
  AppendRaw(record, MaskedCrc32c(record));
  record += event;
  AppendRaw(record, MaskedCrc32c(event));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0) {
    return Unavailable(path_ + ": cannot write: " + std::strerror(errno));
  }
  return Ok();
}

}  // namespace tidemill
