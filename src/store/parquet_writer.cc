#include "store/parquet_writer.h"

#include <fcntl.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/fd.h"
#include "core/files.h"

namespace tidemill {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr size_t kGroupBytes = size_t{32} << 20;  // of values, before they are compressed
constexpr int kZstdLevel = 3;
static_assert(std::endian::native == std::endian::little,
              "values are written as they lie in memory");

// Numbers of the format's Thrift definition.
enum PhysicalType : int64_t { kBoolean = 0, kInt64 = 2, kFloat = 4, kDouble = 5, kByteArray = 6 };
enum Repetition : int64_t { kRequired = 0, kOptional = 1, kRepeated = 2 };
constexpr int64_t kConvertedText = 0, kConvertedList = 3, kPlain = 0, kRunLength = 3, kZstd = 6;

// Thrift's compact protocol, as much of it as the format's footer and page headers use.
class ThriftText {
 public:
  void Whole(int field, int64_t value, bool wide = false) {
    Head(field, wide ? 6 : 5);
    ZigZag(value);
  }
  void Text(int field, std::string_view value) {
    Head(field, 8);
    Bytes(value);
  }
  void List(int field, int element, size_t size) {
    Head(field, 9);
    if (size < 15) {
      text_.push_back(static_cast<char>(size << 4 | static_cast<size_t>(element)));
    } else {
      text_.push_back(static_cast<char>(0xf0 | element));
      Number(size);
    }
  }
  void Bytes(std::string_view value) {
    Number(value.size());
    text_ += value;
  }
  void ZigZag(int64_t value) {
    Number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void Begin(int field) {
    Head(field, 12);
    BeginElement();
  }
  void BeginElement() {
    outer_.push_back(last_);
    last_ = 0;
  }
  void End() {
    text_.push_back(0);
    last_ = outer_.back();
    outer_.pop_back();
  }
  std::string Take() {
    text_.push_back(0);
    return std::move(text_);
  }

 private:
  void Head(int field, int type) {
    text_.push_back(static_cast<char>((field - last_) << 4 | type));
    last_ = field;
  }
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }

  std::string text_;
  int last_ = 0;
  std::vector<int> outer_;
};

template <typename T>
void AppendRaw(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string PackBits(const std::vector<bool>& bits) {
  std::string bytes((bits.size() + 7) / 8, '\0');
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) bytes[i / 8] = static_cast<char>(bytes[i / 8] | 1 << (i % 8));
  }
  return bytes;
}

// Levels of one bit: their length, then one run of packed groups of eight.
std::string Levels(const std::vector<bool>& bits) {
  std::string run;
  uint64_t header = (bits.size() + 7) / 8 << 1 | 1;
  for (; header >= 0x80; header >>= 7) run.push_back(static_cast<char>(header | 0x80));
  run.push_back(static_cast<char>(header));
  run += PackBits(bits);
  std::string levels;
  AppendRaw(levels, static_cast<uint32_t>(run.size()));
  return levels + run;
}

bool IsList(ParquetKind kind) {
  return kind == ParquetKind::kWholes || kind == ParquetKind::kReals;
}

PhysicalType TypeOf(ParquetKind kind) {
  switch (kind) {
    case ParquetKind::kText:
      return kByteArray;
    case ParquetKind::kWhole:
    case ParquetKind::kWholes:
      return kInt64;
    case ParquetKind::kReal:
      return kDouble;
    case ParquetKind::kBool:
      return kBoolean;
    case ParquetKind::kReals:
      return kFloat;
  }
  TM_CHECK(false, "a kind of column that does not exist");
}

struct Chunk {
  int64_t offset = 0, values = 0, whole_bytes = 0, bytes = 0;
};
struct Group {
  int64_t rows = 0;
  std::vector<Chunk> chunks;
};

}  // namespace

// The rows of the group under way.
struct ParquetWriter::Column {
  ParquetColumn what;
  std::string values;
  std::vector<bool> flags;      // values of kBool
  std::vector<bool> there;      // whether there is a value: not null, or an element of a list
  std::vector<bool> continues;  // of lists: not the first of its row

  size_t bytes() const { return values.size() + there.size() / 4; }
  void Add(const ParquetValue& value);
  template <typename T>
  void AddList(const std::vector<T>& list);
};

struct ParquetWriter::State {
  std::string path, unfinished;
  Fd fd;
  int64_t written = 0;
  std::vector<Column> columns;
  int64_t rows = 0;  // of the group under way
  std::vector<Group> groups;

  std::string Footer() const;
};

template <typename T>
void ParquetWriter::Column::AddList(const std::vector<T>& list) {
  for (size_t i = 0; i < std::max<size_t>(list.size(), 1); ++i) {
    there.push_back(!list.empty());
    continues.push_back(i > 0);
  }
  values.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
}

void ParquetWriter::Column::Add(const ParquetValue& value) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return AddList(*list);
  if (const auto* list = std::get_if<std::vector<float>>(&value)) return AddList(*list);
  there.push_back(!std::holds_alternative<std::monostate>(value));
  if (const auto* text = std::get_if<std::string>(&value)) {
    AppendRaw(values, static_cast<uint32_t>(text->size()));
    values += *text;
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendRaw(values, *whole);
  } else if (const auto* real = std::get_if<double>(&value)) {
    AppendRaw(values, *real);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    flags.push_back(*flag);
  }
}

ParquetWriter::ParquetWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

ParquetWriter::~ParquetWriter() {
  if (state_->fd) std::remove(state_->unfinished.c_str());
}

Result<std::unique_ptr<ParquetWriter>> ParquetWriter::Create(const std::string& path,
                                                             std::vector<ParquetColumn> columns) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->unfinished = path + ".unfinished";
  state->fd = Fd(::open(state->unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!state->fd) return FileFailure(state->unfinished, "cannot create", errno);
  for (ParquetColumn& column : columns) {
    state->columns.emplace_back().what = std::move(column);
  }
  std::unique_ptr<ParquetWriter> writer(new ParquetWriter(std::move(state)));
  TM_RETURN_IF_ERROR(writer->Put(std::string(kMagic)));
  return writer;
}

Status ParquetWriter::Put(const std::string& bytes) {
  TM_RETURN_IF_ERROR(WriteAll(state_->fd, bytes, state_->unfinished));
  state_->written += static_cast<int64_t>(bytes.size());
  return Ok();
}

Status ParquetWriter::Add(const std::vector<ParquetValue>& row) {
  State& s = *state_;
  TM_CHECK(row.size() == s.columns.size(), "a row has a value for each column");
  size_t bytes = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    s.columns[i].Add(row[i]);
    bytes += s.columns[i].bytes();
  }
  ++s.rows;
  return bytes < kGroupBytes ? Ok() : WriteGroup();
}

Status ParquetWriter::WriteGroup() {
  State& s = *state_;
  if (s.rows == 0) return Ok();
  Group group{.rows = std::exchange(s.rows, 0), .chunks = {}};
  for (Column& column : s.columns) {
    Chunk chunk{.offset = s.written, .values = static_cast<int64_t>(column.there.size())};
    std::string page = IsList(column.what.kind) ? Levels(column.continues) : "";
    page += Levels(column.there);
    page += column.what.kind == ParquetKind::kBool ? PackBits(column.flags) : column.values;
    std::string packed(ZSTD_compressBound(page.size()), '\0');
    const size_t size =
        ZSTD_compress(packed.data(), packed.size(), page.data(), page.size(), kZstdLevel);
    if (ZSTD_isError(size)) return Internal(s.path + ": zstd: " + ZSTD_getErrorName(size));
    packed.resize(size);
    ThriftText header;
    header.Whole(1, 0);  // a data page
    header.Whole(2, static_cast<int64_t>(page.size()));
    header.Whole(3, static_cast<int64_t>(packed.size()));
    header.Begin(5);
    header.Whole(1, chunk.values);
    header.Whole(2, kPlain);
    header.Whole(3, kRunLength);
    header.Whole(4, kRunLength);
    header.End();
    const std::string head = header.Take();
    chunk.whole_bytes = static_cast<int64_t>(head.size() + page.size());
    chunk.bytes = static_cast<int64_t>(head.size() + packed.size());
    TM_RETURN_IF_ERROR(Put(head + packed));
    group.chunks.push_back(chunk);
    column = Column{
        .what = std::move(column.what), .values = {}, .flags = {}, .there = {}, .continues = {}};
  }
  s.groups.push_back(std::move(group));
  return Ok();
}

namespace {

void WriteSchema(const ParquetColumn& column, ThriftText& out) {
  const bool list = IsList(column.kind);
  if (list) {
    out.BeginElement();
    out.Whole(3, kRequired);
    out.Text(4, column.name);
    out.Whole(5, 1);
    out.Whole(6, kConvertedList);
    out.End();
    out.BeginElement();
    out.Whole(3, kRepeated);
    out.Text(4, "list");
    out.Whole(5, 1);
    out.End();
  }
  out.BeginElement();
  out.Whole(1, TypeOf(column.kind));
  out.Whole(3, list ? kRequired : kOptional);
  out.Text(4, list ? "element" : column.name);
  if (column.kind == ParquetKind::kText) out.Whole(6, kConvertedText);
  out.End();
}

void WriteChunk(const ParquetColumn& column, const Chunk& chunk, ThriftText& out) {
  out.BeginElement();
  out.Whole(2, chunk.offset, true);
  out.Begin(3);
  out.Whole(1, TypeOf(column.kind));
  out.List(2, 5, 2);
  out.ZigZag(kPlain);
  out.ZigZag(kRunLength);
  const bool list = IsList(column.kind);
  out.List(3, 8, list ? 3 : 1);
  out.Bytes(column.name);
  if (list) {
    out.Bytes("list");
    out.Bytes("element");
  }
  out.Whole(4, kZstd);
  out.Whole(5, chunk.values, true);
  out.Whole(6, chunk.whole_bytes, true);
  out.Whole(7, chunk.bytes, true);
  out.Whole(9, chunk.offset, true);
  out.End();
  out.End();
}

}  // namespace

std::string ParquetWriter::State::Footer() const {
  int64_t all_rows = 0;
  size_t elements = 1;
  for (const Group& group : groups) all_rows += group.rows;
  for (const Column& column : columns) elements += IsList(column.what.kind) ? 3 : 1;
  ThriftText out;
  out.Whole(1, 1);  // the format's version
  out.List(2, 12, elements);
  out.BeginElement();
  out.Text(4, "schema");
  out.Whole(5, static_cast<int64_t>(columns.size()));
  out.End();
  for (const Column& column : columns) WriteSchema(column.what, out);
  out.Whole(3, all_rows, true);
  out.List(4, 12, groups.size());
  for (const Group& group : groups) {
    int64_t bytes = 0;
    out.BeginElement();
    out.List(1, 12, group.chunks.size());
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      bytes += group.chunks[i].whole_bytes;
      WriteChunk(columns[i].what, group.chunks[i], out);
    }
    out.Whole(2, bytes, true);
    out.Whole(3, group.rows, true);
    out.End();
  }
  out.Text(6, "tidemill");
  return out.Take();
}

Status ParquetWriter::Finish() {
  State& s = *state_;
  TM_RETURN_IF_ERROR(WriteGroup());
  std::string footer = s.Footer();
  AppendRaw(footer, static_cast<uint32_t>(footer.size()));
  TM_RETURN_IF_ERROR(Put(footer + std::string(kMagic)));
  if (::fsync(s.fd.get()) != 0) return FileFailure(s.unfinished, "cannot sync", errno);
  if (std::rename(s.unfinished.c_str(), s.path.c_str()) != 0) {
    return FileFailure(s.path, "cannot rename to", errno);
  }
  s.fd.Reset();
  return SyncDirectory(ParentOf(s.path));
}

}  // namespace tidemill
