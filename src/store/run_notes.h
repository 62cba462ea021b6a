// People's remarks on a run: tags to find it by and a note, in RUN/notes.json. Anybody who may
// write to the folder may change them at any time, also while another process writes the run.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct RunNotes {
  std::vector<std::string> tags;  // sorted, each once
  std::string note;
};

inline constexpr size_t kTagsMax = 32;
inline constexpr size_t kTagBytesMax = 64;
inline constexpr size_t kNoteBytesMax = 16 * 1024;

// kInvalid: too many or too long, no UTF-8, or control characters; a tag has no spaces and no
// comma.
Status CheckRunNotes(const RunNotes& notes);

// No file: none. kCorrupt: it is not what WriteRunNotes writes.
Result<RunNotes> ReadRunNotes(const std::string& run_path);
// Checked, durable, and as before where it fails. The tags are sorted, each once.
Status WriteRunNotes(const std::string& run_path, RunNotes notes);

}  // namespace tidemill
