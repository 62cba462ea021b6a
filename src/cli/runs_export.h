// tidemill runs export: every episode of a run as a line of JSON, for pandas, `datasets` and
// `tidemill warmup`. docs/store.md has the fields in their order.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/transcript.h"
#include "store/run_reader.h"

namespace tidemill {

struct ExportOptions {
  std::string run;
  std::string out;       // FILE.jsonl or FILE.jsonl.zst
  EpisodeFilter filter;  // which episodes
  uint64_t offset = 0;   // of those, leave out so many of the oldest
  uint64_t limit = 0;    // and take so many at most; 0: all
};

// One episode with its tokens. Every line has every field; what does not apply is null or empty.
nlohmann::ordered_json EpisodeJson(const std::string& run, const EpisodeDetail& episode,
                                   const TextOfIds& text_of);

// Writes them, oldest first, one at a time. The number written.
Result<uint64_t> ExportEpisodes(RunReader& reader, const ExportOptions& options,
                                const TextOfIds& text_of);

}  // namespace tidemill
