#include "tools/workspace_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kComparedBytesMax = size_t{1} << 20;
constexpr size_t kContext = 3;      // equal lines around a change
constexpr int64_t kEditsMax = 800;  // more than that: the old lines go, the new ones come

using DiffLines = std::vector<std::string_view>;

DiffLines LinesToCompare(std::string_view text) {
  DiffLines lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

// A line of the script that makes one file from the other.
struct Edit {
  char kind;  // ' ', '-' or '+'
  std::string_view line;
};

// Myers' greedy algorithm: the furthest place on each diagonal after d edits, for rising d.
std::vector<std::vector<int64_t>> Furthest(const DiffLines& a, const DiffLines& b) {
  const auto n = std::ssize(a), m = std::ssize(b);
  const int64_t most = std::min<int64_t>(n + m, kEditsMax);
  std::vector<int64_t> at(static_cast<size_t>(2 * most + 2), 0);
  std::vector<std::vector<int64_t>> rounds;
  for (int64_t d = 0; d <= most; ++d) {
    rounds.push_back(at);
    for (int64_t k = -d; k <= d; k += 2) {
      const auto place = static_cast<size_t>(k + most);
      const bool down = k == -d || (k != d && at[place - 1] < at[place + 1]);
      int64_t x = down ? at[place + 1] : at[place - 1] + 1;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      at[place] = x;
      if (x >= n && x - k >= m) return rounds;
    }
  }
  return {};
}

std::vector<Edit> Script(const DiffLines& a, const DiffLines& b) {
  std::vector<Edit> edits;
  const auto rounds = Furthest(a, b);
  if (rounds.empty()) {
    for (const std::string_view line : a) edits.push_back({'-', line});
    for (const std::string_view line : b) edits.push_back({'+', line});
    return edits;
  }
  const auto most = (std::ssize(rounds[0]) - 2) / 2;
  int64_t x = std::ssize(a), y = std::ssize(b);
  for (int64_t d = std::ssize(rounds) - 1; d >= 0; --d) {
    const std::vector<int64_t>& at = rounds[static_cast<size_t>(d)];
    const int64_t k = x - y;
    const auto place = static_cast<size_t>(k + most);
    const bool down = d > 0 && (k == -d || (k != d && at[place - 1] < at[place + 1]));
    const int64_t before = d == 0 ? 0 : down ? at[place + 1] : at[place - 1];
    const int64_t from = d == 0 ? 0 : before + (down ? 0 : 1);  // where the equal lines begin
    for (; x > from; --x, --y) edits.push_back({' ', a[static_cast<size_t>(x - 1)]});
    if (d == 0) break;
    if (down) {
      edits.push_back({'+', b[static_cast<size_t>(--y)]});
    } else {
      edits.push_back({'-', a[static_cast<size_t>(--x)]});
    }
  }
  std::reverse(edits.begin(), edits.end());
  return edits;
}

// The changes with some equal lines around them.
std::string Hunks(const std::vector<Edit>& edits) {
  std::string text;
  size_t old_line = 1, new_line = 1;
  const auto count = [&](const Edit& edit) {
    old_line += edit.kind == '+' ? 0 : 1;
    new_line += edit.kind == '-' ? 0 : 1;
  };
  for (size_t i = 0; i < edits.size();) {
    size_t change = i;
    while (change < edits.size() && edits[change].kind == ' ') ++change;
    if (change == edits.size()) break;
    for (; i + kContext < change; ++i) count(edits[i]);
    size_t end = change, last = change;  // `last`: behind the last change of the hunk
    for (; end < edits.size() && end < last + 2 * kContext + 1; ++end) {
      if (edits[end].kind != ' ') last = end + 1;
    }
    end = std::min(edits.size(), last + kContext);
    const size_t old_from = old_line, new_from = new_line;
    std::string lines;
    for (; i < end; ++i) {
      lines += fmt::format("{}{}\n", edits[i].kind, edits[i].line);
      count(edits[i]);
    }
    const size_t olds = old_line - old_from, news = new_line - new_from;
    text += fmt::format("@@ -{},{} +{},{} @@\n", old_from - (olds == 0 ? 1 : 0), olds,
                        new_from - (news == 0 ? 1 : 0), news);
    text += lines;
  }
  return text;
}

bool IsText(std::string_view content) {
  return content.size() <= kComparedBytesMax && IsUtf8(content) &&
         content.find('\0') == std::string_view::npos;
}

std::string FileDiff(const std::string& path, const WorkspaceFile* before,
                     const WorkspaceFile* after) {
  const std::string_view old_text = before ? std::string_view(before->content) : "";
  const std::string_view new_text = after ? std::string_view(after->content) : "";
  const std::string old_name = before ? "a/" + path : "/dev/null";
  const std::string new_name = after ? "b/" + path : "/dev/null";
  if (!IsText(old_text) || !IsText(new_text)) {
    return fmt::format("Binary files {} and {} differ\n", old_name, new_name);
  }
  return fmt::format("--- {}\n+++ {}\n", old_name, new_name) +
         Hunks(Script(LinesToCompare(old_text), LinesToCompare(new_text)));
}

}  // namespace

std::string WorkspaceDiff(const Workspace& before, const Workspace& after, size_t bytes_max) {
  std::string text;
  const auto add = [&](const std::string& path, const WorkspaceFile* old_file,
                       const WorkspaceFile* new_file) {
    if (text.size() <= bytes_max) text += FileDiff(path, old_file, new_file);
  };
  for (const auto& [path, file] : before) {
    const auto found = after.find(path);
    if (found == after.end()) {
      add(path, &file, nullptr);
    } else if (found->second.content != file.content) {
      add(path, &file, &found->second);
    }
  }
  for (const auto& [path, file] : after) {
    if (before.find(path) == before.end()) add(path, nullptr, &file);
  }
  text = ToUtf8(text);  // names of files may be anything
  return text.size() <= bytes_max ? text : Beginning(text, bytes_max) + "\n[cut]\n";
}

}  // namespace tidemill
