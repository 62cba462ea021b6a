#include "store/run_notes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/text.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNotesFileBytesMax = size_t{1} << 20;

std::string NotesFile(const std::string& run_path) {
  return run_path + "/notes.json";
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

Status CheckTag(const std::string& tag) {
  if (tag.empty() || tag.size() > kTagBytesMax) {
    return Invalid("a tag must have 1 to " + std::to_string(kTagBytesMax) + " bytes, got \"" +
                   Beginning(tag, 80) + "\"");
  }
  const bool bad = !IsUtf8(tag) || std::any_of(tag.begin(), tag.end(), [](char c) {
    return IsControl(c) || c == ' ' || c == ',';
  });
  if (!bad) return Ok();
  return Invalid("a tag must be one word without commas, got \"" + Beginning(tag, 80) + "\"");
}

}  // namespace

Status CheckRunNotes(const RunNotes& notes) {
  if (notes.tags.size() > kTagsMax) {
    return Invalid("a run has at most " + std::to_string(kTagsMax) + " tags, got " +
                   std::to_string(notes.tags.size()));
  }
  for (const std::string& tag : notes.tags) TM_RETURN_IF_ERROR(CheckTag(tag));
  if (notes.note.size() > kNoteBytesMax) {
    return Invalid("a note has at most " + std::to_string(kNoteBytesMax) + " bytes, got " +
                   std::to_string(notes.note.size()));
  }
  const bool bad = !IsUtf8(notes.note) ||
                   std::any_of(notes.note.begin(), notes.note.end(),
                               [](char c) { return IsControl(c) && c != '\n' && c != '\t'; });
  return bad ? Invalid("a note must be text without control characters") : Ok();
}

Result<RunNotes> ReadRunNotes(const std::string& run_path) {
  const std::string path = NotesFile(run_path);
  const Result<std::string> text = ReadFileBounded(path, kNotesFileBytesMax);
  if (text.status().code() == Code::kNotFound) return RunNotes{};
  TM_RETURN_IF_ERROR(text.status());
  const Json json = Json::parse(*text, nullptr, false);
  const auto corrupt = [&] {
    return Corrupt(path +
                   ": must be {\"tags\": [\"..\"], \"note\": \"..\"}; `tidemill runs note` "
                   "writes it");
  };
  if (!json.is_object() || !json.contains("tags") || !json["tags"].is_array() ||
      !json.contains("note") || !json["note"].is_string()) {
    return corrupt();
  }
  RunNotes notes;
  for (const Json& tag : json["tags"]) {
    if (!tag.is_string()) return corrupt();
    notes.tags.push_back(tag.get<std::string>());
  }
  notes.note = json["note"].get<std::string>();
  const Status status = CheckRunNotes(notes);
  if (!status.ok()) return Corrupt(path + ": " + status.message());
  return notes;
}

Status WriteRunNotes(const std::string& run_path, RunNotes notes) {
  TM_RETURN_IF_ERROR(CheckRunNotes(notes));
  std::sort(notes.tags.begin(), notes.tags.end());
  notes.tags.erase(std::unique(notes.tags.begin(), notes.tags.end()), notes.tags.end());
  const Json json = {{"tags", notes.tags}, {"note", notes.note}};
  return WriteFileAtomically(NotesFile(run_path), json.dump(2) + "\n");
}

}  // namespace tidemill
