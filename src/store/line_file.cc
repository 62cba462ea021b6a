#include "store/line_file.h"

#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

namespace tidemill {
namespace {

constexpr size_t kChunk = size_t{1} << 17;
constexpr int kLevel = 6;
constexpr int kWindowLogMax = 27;  // 128 MiB

bool IsCompressed(const std::string& path) {
  return path.ends_with(".zst");
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

struct FreeDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
struct FreeCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

struct LineReader::State {
  std::string path;
  File file;
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> zstd;  // null: plain text
  std::vector<char> raw, text;
  ZSTD_inBuffer in{nullptr, 0, 0};
  size_t begin = 0, end = 0;  // of what is left in `text`
  bool frame_open = false;
};

LineReader::LineReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader::~LineReader() = default;

Result<LineReader> LineReader::Open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->file.reset(std::fopen(path.c_str(), "rbe"));
  if (!state->file) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  state->raw.resize(kChunk);
  state->text.resize(kChunk);
  if (IsCompressed(path)) {
    state->zstd.reset(ZSTD_createDCtx());
    ZSTD_DCtx_setParameter(state->zstd.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  }
  return LineReader(std::move(state));
}

Result<bool> LineReader::Fill() {
  State& s = *state_;
  s.begin = s.end = 0;
  if (!s.zstd) {
    s.end = std::fread(s.text.data(), 1, s.text.size(), s.file.get());
    if (s.end == 0 && std::ferror(s.file.get()) != 0) return Unavailable(s.path + ": cannot read");
    return s.end > 0;
  }
  while (s.end == 0) {
    if (s.in.pos == s.in.size) {
      s.in = {s.raw.data(), std::fread(s.raw.data(), 1, s.raw.size(), s.file.get()), 0};
      if (s.in.size == 0 && s.frame_open) return Corrupt(s.path + ": ends inside a zstd frame");
      if (s.in.size == 0) return false;
    }
    ZSTD_outBuffer out{s.text.data(), s.text.size(), 0};
    const size_t left = ZSTD_decompressStream(s.zstd.get(), &out, &s.in);
    if (ZSTD_isError(left) != 0)
      return Corrupt(s.path + ": not readable as zstd: " + ZSTD_getErrorName(left));
    s.frame_open = left != 0;
    s.end = out.pos;
  }
  return true;
}

Result<bool> LineReader::Next(std::string& line) {
  line.clear();
  State& s = *state_;
  for (;;) {
    if (s.begin == s.end) {
      TM_ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) return !line.empty();
    }
    const char* from = s.text.data() + s.begin;
    const size_t size = s.end - s.begin;
    const void* found = std::memchr(from, '\n', size);
    const size_t taken =
        found == nullptr ? size : static_cast<size_t>(static_cast<const char*>(found) - from);
    if (line.size() + taken > kLineBytesMax)
      return Invalid(s.path + ": a line is longer than 64 MiB");
    line.append(from, taken);
    s.begin += taken + (found == nullptr ? 0 : 1);
    if (found != nullptr) return true;
  }
}

struct LineWriter::State {
  std::string path, made;
  File file;
  std::unique_ptr<ZSTD_CCtx, FreeCompressor> zstd;  // null: plain text
  std::vector<char> packed;
  bool finished = false;

  ~State() {
    file.reset();
    if (!finished) std::remove(made.c_str());
  }
};

LineWriter::LineWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineWriter::LineWriter(LineWriter&&) noexcept = default;
LineWriter::~LineWriter() = default;

Result<LineWriter> LineWriter::Create(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->made = path + ".unfinished";
  state->file.reset(std::fopen(state->made.c_str(), "wbe"));
  if (!state->file) return Invalid(path + ": cannot be written: " + std::strerror(errno));
  if (IsCompressed(path)) {
    state->zstd.reset(ZSTD_createCCtx());
    ZSTD_CCtx_setParameter(state->zstd.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(state->zstd.get(), ZSTD_c_checksumFlag, 1);
    state->packed.resize(ZSTD_CStreamOutSize());
  }
  return LineWriter(std::move(state));
}

Status LineWriter::Put(std::string_view bytes, bool end) {
  State& s = *state_;
  const auto write = [&](const char* data, size_t size) -> Status {
    if (std::fwrite(data, 1, size, s.file.get()) == size) return Ok();
    return Unavailable(s.path + ": cannot write: " + std::strerror(errno));
  };
  if (!s.zstd) return write(bytes.data(), bytes.size());
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (;;) {
    ZSTD_outBuffer out{s.packed.data(), s.packed.size(), 0};
    const size_t left =
        ZSTD_compressStream2(s.zstd.get(), &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
    if (ZSTD_isError(left) != 0) return Internal(s.path + ": zstd: " + ZSTD_getErrorName(left));
    TM_RETURN_IF_ERROR(write(s.packed.data(), out.pos));
    if (end ? left == 0 : in.pos == in.size) return Ok();
  }
}

Status LineWriter::Write(std::string_view line) {
  TM_RETURN_IF_ERROR(Put(line, false));
  return Put("\n", false);
}

Status LineWriter::Finish() {
  State& s = *state_;
  TM_RETURN_IF_ERROR(Put("", true));
  if (std::fclose(s.file.release()) != 0 || std::rename(s.made.c_str(), s.path.c_str()) != 0)
    return Unavailable(s.path + ": cannot write: " + std::strerror(errno));
  s.finished = true;
  return Ok();
}

}  // namespace tidemill
