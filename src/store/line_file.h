// Text files of lines that may be larger than memory, compressed with zstd where their name ends in
// ".zst".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tidemill {

inline constexpr size_t kLineBytesMax = size_t{64} << 20;

// Belongs to one thread.
class LineReader {
 public:
  // kNotFound: no such file.
  static Result<LineReader> Open(const std::string& path);
  LineReader(LineReader&&) noexcept;
  ~LineReader();

  // Into `line`, without its end. False: there is no further one. kCorrupt: not what zstd wrote, or
  // cut off. kInvalid: a line longer than kLineBytesMax.
  Result<bool> Next(std::string& line);

 private:
  struct State;
  explicit LineReader(std::unique_ptr<State> state);
  Result<bool> Fill();  // false: the file has ended
  std::unique_ptr<State> state_;
};

// Belongs to one thread. The file has its name once Finish was ok; before, and if this goes without
// Finish, it does not exist.
class LineWriter {
 public:
  static Result<LineWriter> Create(const std::string& path);
  LineWriter(LineWriter&&) noexcept;
  ~LineWriter();

  Status Write(std::string_view line);  // without its end
  Status Finish();

 private:
  struct State;
  explicit LineWriter(std::unique_ptr<State> state);
  Status Put(std::string_view bytes, bool end);
  std::unique_ptr<State> state_;
};

}  // namespace tidemill
