// The hostile programs: a folder with programs and a table of how each is run and what must come of
// it. A folder without a table is run by the ends of the names.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/status.h"
#include "proto/tidemill.pb.h"
#include "testing/test_kit.h"

namespace tidemill {

struct HostileProgram {
  std::string file;
  std::string text;
  std::string compiler;            // empty: `interpreter` runs it
  std::vector<std::string> flags;  // of the compiler
  std::string interpreter;
  bool compile_only = false;            // building it is the attack
  std::string machine;                  // empty: any
  v1::Limits limits;                    // 0: the runner's
  std::vector<std::string> outcomes;    // empty: any but "unavailable"
  std::vector<std::string> no_cgroups;  // the same without cgroups
  bool bounded_without_cgroups = true;  // false: not tried there
  std::string tries;
};

inline std::vector<std::string> SplitTrimmed(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const size_t first = part.find_first_not_of(" \t");
    if (first == std::string::npos) part.clear();
    if (!part.empty()) part = part.substr(first, part.find_last_not_of(" \t") - first + 1);
    parts.push_back(part);
  }
  return parts;
}

inline Status ParseHow(const std::string& how, HostileProgram* program) {
  for (const std::string& word : SplitTrimmed(how, ' ')) {
    if (word.empty()) continue;
    if (word.starts_with("cpu_ms=")) {
      program->limits.set_cpu_ms(static_cast<uint32_t>(std::stoul(word.substr(7))));
    } else if (word.starts_with("wall_ms=")) {
      program->limits.set_wall_ms(static_cast<uint32_t>(std::stoul(word.substr(8))));
    } else if (word == "compile") {
      program->compile_only = true;
    } else if (word == "x86_64" || word == "aarch64") {
      program->machine = word;
    } else if (word == "sh" || word == "python3") {
      program->interpreter = word;
    } else if (word.starts_with("-")) {
      program->flags.push_back(word);
    } else if (program->compiler.empty()) {
      program->compiler = word;
    } else {
      return Invalid("no such way to run a program: \"" + how + "\"");
    }
  }
  if (program->compiler.empty() == program->interpreter.empty()) {
    return Invalid("one compiler or one interpreter, got \"" + how + "\"");
  }
  return Ok();
}

// "" where the name's end says nothing.
inline std::string HowByName(const std::string& file) {
  if (file.ends_with(".c")) return "gcc -pthread";
  if (file.ends_with(".cc") || file.ends_with(".cpp")) return "g++ -pthread";
  if (file.ends_with(".sh")) return "sh";
  return file.ends_with(".py") ? "python3" : "";
}

inline Result<HostileProgram> ParseRow(const std::string& line, const std::string& folder) {
  const std::vector<std::string> cells = SplitTrimmed(line, '|');
  if (cells.size() != 5) return Invalid("five cells with | between them, got \"" + line + "\"");
  HostileProgram program;
  program.file = cells[0];
  program.text = TextOf(folder + "/" + cells[0]);
  if (program.text.empty()) return Invalid("there is no program \"" + cells[0] + "\"");
  TM_RETURN_IF_ERROR(ParseHow(cells[1], &program));
  program.outcomes = SplitTrimmed(cells[2], ',');
  program.no_cgroups = cells[3] == "=" ? program.outcomes : SplitTrimmed(cells[3], ',');
  program.bounded_without_cgroups = cells[3] != "-";
  program.tries = cells[4];
  return program;
}

inline Result<std::vector<HostileProgram>> ReadHostilePrograms(const std::string& folder) {
  const bool nested = std::filesystem::is_directory(folder + "/programs");
  const std::string programs_folder = nested ? folder + "/programs" : folder;
  std::vector<HostileProgram> programs;
  std::ifstream table(folder + "/table.txt");
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    TM_ASSIGN_OR_RETURN(HostileProgram program, ParseRow(line, programs_folder));
    programs.push_back(std::move(program));
  }
  if (!programs.empty()) return programs;
  for (const auto& entry : std::filesystem::directory_iterator(programs_folder)) {
    HostileProgram program;
    program.file = entry.path().filename().string();
    const std::string how = HowByName(program.file);
    if (how.empty()) continue;
    TM_RETURN_IF_ERROR(ParseHow(how, &program));
    program.text = TextOf(entry.path().string());
    programs.push_back(std::move(program));
  }
  std::sort(programs.begin(), programs.end(),
            [](const auto& a, const auto& b) { return a.file < b.file; });
  if (programs.empty()) return NotFound(folder + ": no hostile programs");
  return programs;
}

}  // namespace tidemill
