// For tests: what real agents sent and an endpoint answered, one JSON object a line, in the folder
// `shared/wire` beside the source tree.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gateway/wire.h"
#include "gateway/wire_json.h"
#include "testing/test_folders.h"

namespace tidemill {

struct RecordedExchange {
  std::string agent;  // the file's name without its ending
  int n = 0;
  std::string path;  // without the query
  WireJson body;
  std::string response;

  std::string Name() const { return agent + " " + std::to_string(n); }
};

struct RecordedEvent {
  std::string name;  // empty: only data
  WireJson data;     // a string where it is no JSON: "[DONE]"
};

inline std::string RecordingsFolder() {
  const char* shared = std::getenv("TIDEMILL_SHARED");
  return (shared != nullptr ? shared : SourceDir() + "/../shared") + "/wire";
}

// Empty where the folder is not there.
inline std::vector<RecordedExchange> AllRecordings() {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(RecordingsFolder(), none)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<RecordedExchange> all;
  for (const auto& file : files) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      WireJson record = WireJson::parse(line);
      const std::string url = record["url"];
      all.push_back({file.stem().string(), record["n"].get<int>(), url.substr(0, url.find('?')),
                     record["body"], record["response"].get<std::string>()});
    }
  }
  return all;
}

inline std::vector<RecordedEvent> EventsOf(const std::string& bytes) {
  std::vector<RecordedEvent> events;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = std::min(bytes.find("\n\n", at), bytes.size());
    const std::string block = bytes.substr(at, end - at);
    at = end + 2;
    RecordedEvent event;
    for (size_t from = 0; from < block.size();) {
      const size_t stop = std::min(block.find('\n', from), block.size());
      const std::string line = block.substr(from, stop - from);
      from = stop + 1;
      if (line.rfind("event: ", 0) == 0) event.name = line.substr(7);
      if (line.rfind("data: ", 0) == 0) {
        const WireJson data = WireJson::parse(line.substr(6), nullptr, false);
        event.data = data.is_discarded() ? WireJson(line.substr(6)) : data;
      }
    }
    if (!event.data.is_null()) events.push_back(std::move(event));
  }
  return events;
}

}  // namespace tidemill
