// tidemill runs export: the episodes of a run as lines of JSON, for pandas, `datasets` and
// `tidemill warmup`. docs/store.md has the fields in their order.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/export_formats.h"
#include "gateway/read_conversation.h"
#include "store/run_reader.h"

namespace tidemill {

struct ExportOptions {
  std::string run;
  std::string out;  // FILE.jsonl or FILE.jsonl.zst, or FILE.parquet
  ExportFormat format = ExportFormat::kRecords;
  EpisodeFilter filter;  // which episodes
  uint64_t offset = 0;   // of those, leave out so many of the oldest
  uint64_t limit = 0;    // and take so many at most; 0: all
};

struct ExportCounts {
  uint64_t episodes = 0;
  uint64_t sequences = 0;  // lines: one for each branch of an episode
};

// An episode with its tokens, one object for each sequence that the learner makes of it. Every one
// has every field; what does not apply is null or empty. `conversations`: null without a tokenizer,
// and then there are no messages.
std::vector<nlohmann::ordered_json> EpisodeRecords(const std::string& run,
                                                   const EpisodeDetail& episode,
                                                   const ConversationReader* conversations);

// Writes them, oldest first, one episode at a time.
Result<ExportCounts> ExportEpisodes(RunReader& reader, const ExportOptions& options,
                                    const ConversationReader* conversations);

}  // namespace tidemill
