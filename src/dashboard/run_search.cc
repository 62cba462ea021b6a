// Text search over transcripts. Bodies are compressed and hold token ids, so each request reads as
// many as its budget allows, the newest first, and says where to go on.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>

#include "dashboard/run_api.h"
#include "dashboard/run_json.h"

namespace tidemill {
namespace {

using Json = ApiJson;

constexpr std::chrono::milliseconds kSearchBudget{80};
constexpr uint64_t kSearchRowsMax = 500;  // a request
constexpr size_t kSearchBytesMax = 200;
constexpr size_t kSnippetBytes = 80;  // before and behind what was found

std::string LowerAscii(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// The nearest begin of a character at or before `at`.
size_t CharacterAt(const std::string& text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// The match with its surroundings; null: `text` does not have it.
Json Snippet(const std::string& text, const std::string& wanted) {
  const size_t at = LowerAscii(text).find(wanted);
  if (at == std::string::npos) return Json();
  const size_t end = at + wanted.size();
  const size_t from = CharacterAt(text, at - std::min(at, kSnippetBytes));
  const size_t to = CharacterAt(text, std::min(text.size(), end + kSnippetBytes));
  return {{"before", text.substr(from, at - from)},
          {"hit", text.substr(at, end - at)},
          {"after", text.substr(end, to - end)}};
}

// Where an episode has the text first, in the order in which its transcript shows it.
Json FindIn(const EpisodeDetail& episode, const std::optional<Tokenizer>& tokenizer,
            const std::string& wanted) {
  for (const auto& [where, text] : TranscriptTexts(episode.trajectory, tokenizer)) {
    Json found = Snippet(text, wanted);
    if (found.is_null()) continue;
    found["where"] = where;
    return found;
  }
  return Json();
}

}  // namespace

Result<HttpResponse> RunApi::Search(const HttpRequest& request, RunView& run) {
  const std::string* text = request.Find("text");
  if (text == nullptr || text->empty() || text->size() > kSearchBytesMax) {
    return Invalid("parameter \"text\" must have 1 to " + std::to_string(kSearchBytesMax) +
                   " bytes");
  }
  TM_ASSIGN_OR_RETURN(EpisodeFilter filter, FilterParameters(request));
  TM_ASSIGN_OR_RETURN(RunReader * reader, run.reader());
  TM_ASSIGN_OR_RETURN(const EpisodePage page,
                      reader->Episodes(filter, EpisodeSort::kNewest, {0, kSearchRowsMax}));
  const std::optional<Tokenizer> tokenizer = run.tokenizer();
  const std::string wanted = LowerAscii(*text);
  const auto until = std::chrono::steady_clock::now() + kSearchBudget;
  Json matches = Json::array();
  uint64_t searched = 0;
  Json next;
  for (const EpisodeRow& row : page.rows) {
    TM_ASSIGN_OR_RETURN(const EpisodeDetail episode, reader->Episode(row.group, row.member));
    ++searched;
    next = row.seq;
    if (Json found = FindIn(episode, tokenizer, wanted); !found.is_null()) {
      Json entry = EpisodeRowJson(row);
      entry["found"] = std::move(found);
      matches.push_back(std::move(entry));
    }
    if (std::chrono::steady_clock::now() >= until) break;
  }
  const uint64_t left = page.total - searched;
  return JsonResponse({{"matches", matches},
                       {"searched", searched},
                       {"left", left},
                       {"next", left == 0 ? Json() : next}});
}

}  // namespace tidemill
