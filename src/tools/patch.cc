#include "tools/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "core/paths.h"

namespace tidemill {
namespace {

constexpr size_t kPatchBytesMax = 1 << 20;
constexpr size_t kHunksMax = 1000;

struct Hunk {
  size_t patch_line = 0;  // where its header is
  size_t old_start = 0;   // from 1; 0 for an empty file
  std::vector<std::string> before;
  std::vector<std::string> after;
  bool after_ends_open = false;  // "\ No newline at end of file" on the new side
  bool touches_end = false;
};

struct FilePatch {
  std::string old_path;  // empty: /dev/null
  std::string new_path;
  std::vector<Hunk> hunks;
};

std::vector<std::string_view> SplitLines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// "a/src/x.c\t2024-01-01" is src/x.c; /dev/null is nothing.
std::string PathOf(std::string_view name) {
  name = name.substr(0, name.find('\t'));
  while (!name.empty() && (name.back() == '\r' || name.back() == ' ')) name.remove_suffix(1);
  if (name == "/dev/null") return {};
  if (name.starts_with("a/") || name.starts_with("b/")) name.remove_prefix(2);
  if (name.starts_with("./")) name.remove_prefix(2);
  return std::string(name);
}

// "12,3" or "12": false where it is neither.
bool ParseRange(std::string_view text, size_t* start, size_t* count) {
  *count = 1;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, *start);
  if (error != std::errc()) return false;
  if (at == end) return true;
  if (*at != ',') return false;
  const auto second = std::from_chars(at + 1, end, *count);
  return second.ec == std::errc() && second.ptr == end;
}

class Parser {
 public:
  explicit Parser(std::string_view patch) : lines_(SplitLines(patch)) {}

  Result<std::vector<FilePatch>> Parse() {
    std::vector<FilePatch> files;
    while (at_ < lines_.size()) {
      if (!lines_[at_].starts_with("--- ")) {
        ++at_;  // "diff --git", "index", prose
        continue;
      }
      TM_ASSIGN_OR_RETURN(FilePatch file, ParseFile());
      files.push_back(std::move(file));
    }
    if (files.empty())
      return Invalid("the patch has no \"--- file\" line: expected a unified diff");
    return files;
  }

 private:
  Status Wrong(std::string_view what) const {
    return Invalid(fmt::format("line {} of the patch: {}", at_ + 1, what));
  }

  Result<FilePatch> ParseFile() {
    FilePatch file;
    file.old_path = PathOf(lines_[at_].substr(4));
    ++at_;
    if (at_ >= lines_.size() || !lines_[at_].starts_with("+++ ")) {
      return Wrong("expected \"+++ file\"");
    }
    file.new_path = PathOf(lines_[at_].substr(4));
    for (const std::string* path : {&file.old_path, &file.new_path}) {
      if (!path->empty()) TM_RETURN_IF_ERROR(CheckPath(*path));
    }
    if (file.old_path.empty() && file.new_path.empty()) return Wrong("both names are /dev/null");
    ++at_;
    while (at_ < lines_.size() && lines_[at_].starts_with("@@")) {
      if (++hunks_ > kHunksMax) return Wrong("too many hunks");
      TM_ASSIGN_OR_RETURN(Hunk hunk, ParseHunk());
      file.hunks.push_back(std::move(hunk));
    }
    if (file.hunks.empty()) return Wrong("expected \"@@ -start,count +start,count @@\"");
    return file;
  }

  Result<Hunk> ParseHunk() {
    Hunk hunk;
    hunk.patch_line = at_ + 1;
    const std::string_view header = lines_[at_];
    const size_t minus = header.find(" -"), plus = header.find(" +");
    const size_t end = header.find(" @@", 2);
    size_t new_start = 0, old_left = 0, new_left = 0;
    if (minus == std::string_view::npos || plus == std::string_view::npos ||
        end == std::string_view::npos || minus > plus || plus > end ||
        !ParseRange(header.substr(minus + 2, plus - minus - 2), &hunk.old_start, &old_left) ||
        !ParseRange(header.substr(plus + 2, end - plus - 2), &new_start, &new_left)) {
      return Wrong("expected \"@@ -start,count +start,count @@\"");
    }
    ++at_;
    char last = ' ';
    while (at_ < lines_.size()) {
      const std::string_view line = lines_[at_];
      if (line.starts_with("\\")) {
        hunk.touches_end = true;
        if (last != '-') hunk.after_ends_open = true;
        ++at_;
        continue;
      }
      if (old_left == 0 && new_left == 0) break;
      // Editors strip the blank that stands for an empty line of context.
      last = line.empty() ? ' ' : line[0];
      const std::string text(line.empty() ? line : line.substr(1));
      const bool in_old = last == ' ' || last == '-', in_new = last == ' ' || last == '+';
      if ((!in_old && !in_new) || (in_old && old_left == 0) || (in_new && new_left == 0)) {
        return Wrong("the number of lines in the hunk does not match its header");
      }
      if (in_old) hunk.before.push_back(text), --old_left;
      if (in_new) hunk.after.push_back(text), --new_left;
      ++at_;
    }
    if (old_left != 0 || new_left != 0) {
      return Wrong("the number of lines in the hunk does not match its header");
    }
    return hunk;
  }

  std::vector<std::string_view> lines_;
  size_t at_ = 0;
  size_t hunks_ = 0;
};

bool Matches(const std::vector<std::string>& lines, size_t at,
             const std::vector<std::string>& want) {
  return at + want.size() <= lines.size() &&
         std::equal(want.begin(), want.end(), lines.begin() + static_cast<ptrdiff_t>(at));
}

// Where the hunk's old lines are, at or after `from`; `expected` is tried first.
Result<size_t> Locate(const std::vector<std::string>& lines, const Hunk& hunk, size_t from,
                      size_t expected, const std::string& path) {
  if (expected >= from && Matches(lines, expected, hunk.before)) return expected;
  const Status lost = Invalid(
      fmt::format("the hunk at line {} of the patch does not match {}", hunk.patch_line, path));
  if (hunk.before.empty()) return lost;
  size_t found = 0, places = 0;
  for (size_t at = from; at + hunk.before.size() <= lines.size() && places < 2; ++at) {
    if (Matches(lines, at, hunk.before)) found = at, ++places;
  }
  if (places == 1) return found;
  return places == 0 ? lost
                     : Invalid(fmt::format(
                           "the hunk at line {} of the patch matches {} in more than one place",
                           hunk.patch_line, path));
}

Result<std::string> ApplyTo(const std::string& content, const FilePatch& file,
                            const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string_view line : SplitLines(content)) lines.emplace_back(line);
  bool ends_open = !content.empty() && content.back() != '\n';
  std::vector<std::string> result;
  size_t done = 0;
  ptrdiff_t drift = 0;
  for (const Hunk& hunk : file.hunks) {
    const ptrdiff_t start =
        static_cast<ptrdiff_t>(hunk.old_start) - (hunk.before.empty() ? 0 : 1) + drift;
    TM_ASSIGN_OR_RETURN(
        const size_t at,
        Locate(lines, hunk, done, start < 0 ? lines.size() + 1 : static_cast<size_t>(start), path));
    drift += static_cast<ptrdiff_t>(at) - start;
    result.insert(result.end(), lines.begin() + static_cast<ptrdiff_t>(done),
                  lines.begin() + static_cast<ptrdiff_t>(at));
    result.insert(result.end(), hunk.after.begin(), hunk.after.end());
    done = at + hunk.before.size();
    if (done == lines.size() && (hunk.touches_end || !hunk.after.empty())) {
      ends_open = hunk.after_ends_open || (ends_open && !hunk.touches_end);
    }
  }
  result.insert(result.end(), lines.begin() + static_cast<ptrdiff_t>(done), lines.end());
  std::string text;
  for (size_t i = 0; i < result.size(); ++i) {
    text += result[i];
    if (i + 1 < result.size() || !ends_open) text += '\n';
  }
  return text;
}

}  // namespace

Result<PatchReport> ApplyPatch(std::string_view patch, Workspace* workspace) {
  if (patch.size() > kPatchBytesMax) return Invalid("the patch is larger than 1 MiB");
  TM_ASSIGN_OR_RETURN(const std::vector<FilePatch> files, Parser(patch).Parse());
  Workspace changed = *workspace;
  PatchReport report;
  for (const FilePatch& file : files) {
    ++report.files;
    const std::string& from = file.old_path.empty() ? file.new_path : file.old_path;
    const auto existing = changed.find(from);
    if (file.old_path.empty() ? existing != changed.end() : existing == changed.end()) {
      return Invalid(file.old_path.empty() ? from + " exists already" : "there is no file " + from);
    }
    const WorkspaceFile before = existing == changed.end() ? WorkspaceFile() : existing->second;
    TM_ASSIGN_OR_RETURN(std::string content, ApplyTo(before.content, file, from));
    if (existing != changed.end()) changed.erase(existing);
    if (file.new_path.empty()) {
      report.summary += from + ": removed\n";
      continue;
    }
    changed[file.new_path] = {std::move(content), before.executable};
    report.summary += file.old_path.empty()
                          ? fmt::format("{}: created\n", file.new_path)
                          : fmt::format("{}: {} hunk{}\n", file.new_path, file.hunks.size(),
                                        file.hunks.size() == 1 ? "" : "s");
  }
  *workspace = std::move(changed);
  return report;
}

}  // namespace tidemill
