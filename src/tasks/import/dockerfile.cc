#include "tasks/import/dockerfile.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace tidemill {
namespace {

constexpr size_t kStepsMax = 1000;

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

// Words apart by white space; quotes hold one together and go.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool open = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      open = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      word += text[++i];
      open = true;
    } else if (quote == 0 && std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(std::move(word));
  return words;
}

Status ReadStep(const std::string& name, const std::string& rest, DockerStep& step) {
  using Kind = DockerStep::Kind;
  if (name == "RUN") {
    if (rest.starts_with('[') || rest.starts_with("--")) {
      return Invalid("only the form RUN COMMAND can be honoured");
    }
    step.kind = Kind::kRun;
    step.words = {rest};
    return Ok();
  }
  step.words = Words(rest);
  if (step.words.empty()) return Invalid("has no argument");
  if (name == "FROM") {
    step.kind = Kind::kFrom;
    if (step.words.size() > 1) return Invalid("only one stage without a name can be honoured");
  } else if (name == "COPY" || name == "ADD") {
    step.kind = Kind::kCopy;
    if (step.words.size() < 2 || step.words[0].starts_with("--") ||
        step.words[0].find("://") != std::string::npos) {
      return Invalid("only files of the folder can be copied, without options");
    }
  } else if (name == "WORKDIR") {
    step.kind = Kind::kWorkdir;
  } else if (name == "ENV") {
    step.kind = Kind::kEnv;
    // ENV NAME value, the old form
    if (step.words[0].find('=') == std::string::npos && step.words.size() == 2) {
      step.words = {step.words[0] + "=" + step.words[1]};
    }
    for (const std::string& word : step.words) {
      if (word.find('=') == std::string::npos) return Invalid("must have the form NAME=value");
    }
  } else {
    return Invalid("cannot be honoured without a container engine");
  }
  return Ok();
}

}  // namespace

Result<std::vector<DockerStep>> ParseDockerfile(std::string_view text) {
  std::vector<DockerStep> steps;
  std::istringstream lines{std::string(text)};
  std::string line, whole;
  size_t number = 0, first = 0;
  while (std::getline(lines, line)) {
    ++number;
    line = Trimmed(line);
    if (line.starts_with('#') || (line.empty() && whole.empty())) continue;
    if (whole.empty()) first = number;
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.pop_back();
    whole += line;
    if (goes_on && lines.peek() != std::char_traits<char>::eof()) continue;
    const size_t space = whole.find_first_of(" \t");
    std::string name = whole.substr(0, space);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    DockerStep step;
    step.line = first;
    const std::string rest = space == std::string::npos ? "" : Trimmed(whole.substr(space));
    const Status status = ReadStep(name, rest, step);
    if (!status.ok()) {
      return Invalid("Dockerfile:" + std::to_string(first) + ": " + name + ": " + status.message());
    }
    steps.push_back(std::move(step));
    if (steps.size() > kStepsMax) return Invalid("Dockerfile: has more than 1000 instructions");
    whole.clear();
  }
  if (steps.empty() || steps[0].kind != DockerStep::Kind::kFrom) {
    return Invalid("Dockerfile: must begin with FROM");
  }
  return steps;
}

}  // namespace tidemill
