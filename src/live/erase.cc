#include "live/erase.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

namespace tidemill {
namespace {

using EraseJsonValue = nlohmann::ordered_json;

constexpr size_t kTraceBytes = 24;
constexpr size_t kTracesOfOne = 8;  // of one body or text
constexpr size_t kHeadBytes = 20;   // of a body: a frame's head and lengths, alike in others
constexpr size_t kChunkBytes = size_t{1} << 20;

uint64_t FirstWord(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// Finds any of many pieces of the same length.
class TraceSearch {
 public:
  explicit TraceSearch(const std::vector<std::string>& traces) : seen_(size_t{1} << 20) {
    for (const std::string& trace : traces) {
      traces_[FirstWord(trace.data())].insert(trace);
      seen_[Slot(FirstWord(trace.data()))] = true;
    }
  }

  bool In(std::string_view bytes) const { return At(bytes, 0) != std::string_view::npos; }

  // Names found in `bytes` are not looked for any more.
  void Forget(std::string_view bytes) {
    for (size_t at = At(bytes, 0); at != std::string_view::npos; at = At(bytes, at + 1)) {
      traces_.at(FirstWord(bytes.data() + at)).erase(std::string(bytes.substr(at, kTraceBytes)));
    }
  }

  uint64_t size() const {
    uint64_t count = 0;
    for (const auto& [word, traces] : traces_) count += traces.size();
    return count;
  }

 private:
  // Where the first at or behind `from` begins.
  size_t At(std::string_view bytes, size_t from) const {
    for (size_t at = from; at + kTraceBytes <= bytes.size(); ++at) {
      const uint64_t word = FirstWord(bytes.data() + at);
      if (!seen_[Slot(word)]) continue;
      const auto it = traces_.find(word);
      if (it != traces_.end() && it->second.contains(std::string(bytes.substr(at, kTraceBytes)))) {
        return at;
      }
    }
    return std::string_view::npos;
  }
  static size_t Slot(uint64_t word) { return (word * 0x9e3779b97f4a7c15ULL) >> 44; }

  std::vector<bool> seen_;
  std::unordered_map<uint64_t, std::set<std::string>> traces_;
};

void AddPieces(std::string_view bytes, std::vector<std::string>& traces) {
  if (bytes.size() < kTraceBytes) return;
  const size_t last = bytes.size() - kTraceBytes;
  const size_t count = std::min(kTracesOfOne, last + 1);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count == 1 ? 0 : last * i / (count - 1);
    traces.emplace_back(bytes.substr(at, kTraceBytes));
  }
}

void AddStrings(const nlohmann::json& json, std::vector<std::string>& traces) {
  if (json.is_string()) return AddPieces(json.get_ref<const std::string&>(), traces);
  if (!json.is_structured()) return;
  for (const nlohmann::json& item : json) AddStrings(item, traces);
}

bool IsDatabase(const std::filesystem::path& file) {
  return file.filename().string().rfind("run.db", 0) == 0;
}

Status SearchFile(const std::filesystem::path& file, const TraceSearch& bodies,
                  const TraceSearch& texts, EraseReport& report) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return Unavailable("cannot be opened");
  // What others said may be the same words, and the database holds it: there, bodies are looked
  // for.
  const bool database = IsDatabase(file);
  std::string window;
  std::string chunk(kChunkBytes, '\0');
  bool found = false;
  while (in) {
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    const auto count = static_cast<size_t>(in.gcount());
    report.bytes += count;
    window.append(chunk, 0, count);
    found = found || bodies.In(window) || (!database && texts.In(window));
    if (window.size() >= kTraceBytes) window.erase(0, window.size() - kTraceBytes + 1);
  }
  if (in.bad()) return Unavailable("cannot be read");
  ++report.files;
  if (found) report.found.push_back(file.string());
  return Ok();
}

Status SearchRun(const std::string& path, const std::vector<std::string>& bodies,
                 const std::vector<std::string>& texts, EraseReport& report) {
  TraceSearch of_bodies(bodies);
  const TraceSearch of_texts(texts);
  // Equal words of others are stored alike, and are theirs.
  TM_RETURN_IF_ERROR(
      ForEachBodyLeft(path + "/run.db", [&](std::string_view body) { of_bodies.Forget(body); }));
  report.traces = of_bodies.size() + of_texts.size();
  std::error_code error;
  for (auto it = std::filesystem::recursive_directory_iterator(path, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error)) {
    if (!it->is_regular_file() || it->is_symlink()) continue;
    // The operator's words, written before any of this was said.
    if (it->path().filename() == "config.toml") continue;
    const Status searched = SearchFile(it->path(), of_bodies, of_texts, report);
    if (!searched.ok()) report.unread.push_back(it->path().string() + ": " + searched.message());
  }
  if (error) report.unread.push_back(path + ": " + error.message());
  return Ok();
}

}  // namespace

std::vector<std::string> TracesOfBody(const std::string& body) {
  std::vector<std::string> traces;
  if (body.size() > kHeadBytes) AddPieces(std::string_view(body).substr(kHeadBytes), traces);
  return traces;
}

std::vector<std::string> TracesOfText(const std::string& text) {
  std::vector<std::string> traces;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_array()) {
    for (const auto& message : json) {
      // Agents' system prompts are everybody's.
      if (message.is_object() && message.value("role", "") != "system") AddStrings(message, traces);
    }
  } else if (json.is_object()) {
    AddStrings(json, traces);
  }
  return traces;
}

namespace {

uint64_t RunErasers(const std::vector<Eraser>& erasers, EraseReport& report) {
  const EraseNames names{report.erased.sessions, report.erased.tenants};
  uint64_t all = 0;
  for (const Eraser& eraser : erasers) {
    const Result<uint64_t> count = eraser.erase(names);
    if (!count.ok()) {
      report.failed.push_back(eraser.name + ": " + count.status().message());
      continue;
    }
    report.others.emplace_back(eraser.name, *count);
    all += *count;
  }
  return all;
}

}  // namespace

Result<EraseReport> EraseFromRun(const std::string& path, const EraseWhat& what,
                                 const std::vector<Eraser>& erasers) {
  EraseReport report;
  auto erased = EraseSessions(path + "/run.db", what);
  const bool found = erased.ok();
  if (!found && erased.status().code() != Code::kNotFound) return erased.status();
  if (found) report.erased = std::move(*erased);
  if (!what.tenant.empty()) report.erased.tenants = {what.tenant};
  const uint64_t others = RunErasers(erasers, report);
  if (!found && others == 0 && report.failed.empty()) return erased.status();
  std::vector<std::string> bodies, texts;
  auto take = [](const std::vector<std::string>& from, auto traces_of, auto& to) {
    for (const std::string& one : from) {
      for (std::string& trace : traces_of(one)) to.push_back(std::move(trace));
    }
  };
  take(report.erased.bodies, TracesOfBody, bodies);
  take(report.erased.texts, TracesOfText, texts);
  report.erased.bodies.clear();
  report.erased.texts.clear();
  TM_RETURN_IF_ERROR(SearchRun(path, bodies, texts, report));
  return report;
}

std::string EraseJson(const EraseReport& report) {
  EraseJsonValue deleted = EraseJsonValue::object(), uses = EraseJsonValue::array();
  for (const auto& [name, count] : report.erased.rows) deleted[name] = count;
  for (const auto& [name, count] : report.others) deleted[name] = count;
  for (const Erased::Use& use : report.erased.uses) {
    uses.push_back({{"step", use.step}, {"version", use.version}, {"abandoned", use.abandoned}});
  }
  EraseJsonValue before = nullptr;
  if (report.erased.before) {
    const CheckpointRecord& checkpoint = *report.erased.before;
    before = {
        {"step", checkpoint.step}, {"version", checkpoint.version}, {"path", checkpoint.path}};
  }
  return EraseJsonValue({{"sessions", report.erased.sessions},
                         {"shown_to", report.erased.shown_to},
                         {"deleted", deleted},
                         {"failed", report.failed},
                         {"used_by", uses},
                         {"checkpoint_before", before},
                         {"searched",
                          {{"files", report.files},
                           {"bytes", report.bytes},
                           {"traces", report.traces},
                           {"found", report.found},
                           {"unread", report.unread}}}})
      .dump(-1, ' ', false, EraseJsonValue::error_handler_t::replace);
}

}  // namespace tidemill
