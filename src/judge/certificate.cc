#include "judge/certificate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace tidemill {
namespace {

constexpr size_t kPathsMax = 64;
constexpr size_t kInputsMax = 16;

// Lines without their white space.
std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else if (c != ' ' && c != '\t' && c != '\r')
      lines.back() += c;
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

// Lines of the submission, from 1, that the reference does not have and that do something.
std::set<size_t> ChangedLines(const CertifiedCode& code) {
  const std::vector<std::string> before = LinesOf(code.reference);
  const std::set<std::string> known(before.begin(), before.end());
  const std::vector<std::string> after = LinesOf(code.submission);
  std::set<size_t> changed;
  for (size_t i = 0; i < after.size(); ++i) {
    const bool does = after[i].find_first_not_of("{};") != std::string::npos;
    if (does && known.count(after[i]) == 0) changed.insert(i + 1);
  }
  return changed;
}

struct CertifiedPath {
  std::vector<size_t> lines;
  std::vector<int64_t> inputs;
  int64_t reference = 0, submission = 0;
};

template <class Number>
bool ReadNumbers(const nlohmann::json& list, size_t most, std::vector<Number>* out) {
  if (!list.is_array() || list.size() > most) return false;
  for (const auto& entry : list) {
    if (!entry.is_number_integer()) return false;
    out->push_back(entry.get<Number>());
  }
  return true;
}

Result<CertifiedPath> ReadPath(const nlohmann::json& json) {
  CertifiedPath path;
  const bool whole = json.is_object() && json.contains("lines") && json.contains("inputs") &&
                     json.contains("reference") && json.contains("submission");
  if (!whole)
    return Invalid("a path needs \"lines\", \"inputs\", \"reference\" and \"submission\"");
  if (!ReadNumbers(json["lines"], 10'000, &path.lines) || path.lines.empty())
    return Invalid("\"lines\" of a path must be a list of line numbers");
  if (!ReadNumbers(json["inputs"], kInputsMax, &path.inputs))
    return Invalid("\"inputs\" of a path must be a list of whole numbers");
  if (!json["reference"].is_number_integer() || !json["submission"].is_number_integer())
    return Invalid("the results of a path must be whole numbers");
  path.reference = json["reference"].get<int64_t>();
  path.submission = json["submission"].get<int64_t>();
  return path;
}

Status CheckTrace(const CertifiedPath& path, const CertifiedCode& code) {
  if (!code.tracer) return Ok();
  const auto compare = [&](const char* which, const std::string& source, int64_t claimed) {
    const std::optional<int64_t> result = code.tracer(source, path.inputs);
    if (!result || *result == claimed) return Ok();
    return Invalid("a path says that the " + std::string(which) + " gives " +
                   std::to_string(claimed) + "; it gives " + std::to_string(*result));
  };
  TM_RETURN_IF_ERROR(compare("reference", code.reference, path.reference));
  return compare("submission", code.submission, path.submission);
}

}  // namespace

Result<double> CheckCertificate(const nlohmann::json& certificate, const CertifiedCode& code) {
  const auto conclusion = certificate.find("conclusion");
  if (conclusion == certificate.end() || !conclusion->is_string() ||
      (*conclusion != "equivalent" && *conclusion != "different"))
    return Invalid("\"conclusion\" must be \"equivalent\" or \"different\"");
  const auto premises = certificate.find("premises");
  if (premises == certificate.end() || !premises->is_array())
    return Invalid("\"premises\" must be a list of texts");
  const auto paths = certificate.find("paths");
  if (paths == certificate.end() || !paths->is_array() || paths->size() > kPathsMax)
    return Invalid("\"paths\" must be a list of at most " + std::to_string(kPathsMax));
  std::set<size_t> open = ChangedLines(code);
  const size_t lines = LinesOf(code.submission).size();
  bool differs = false;
  for (const auto& entry : *paths) {
    TM_ASSIGN_OR_RETURN(const CertifiedPath path, ReadPath(entry));
    for (const size_t line : path.lines) {
      if (line < 1 || line > lines) {
        return Invalid("a path cites line " + std::to_string(line) + " of " +
                       std::to_string(lines));
      }
      open.erase(line);
    }
    TM_RETURN_IF_ERROR(CheckTrace(path, code));
    differs = differs || path.reference != path.submission;
  }
  if (*conclusion == "different")
    return differs ? Result<double>(0.0)
                   : Invalid("no path shows the difference that the conclusion claims");
  if (differs) return Invalid("a path shows a difference; the conclusion is \"equivalent\"");
  if (!open.empty())
    return Invalid("no path covers line " + std::to_string(*open.begin()) + ", which differs");
  return 1.0;
}

}  // namespace tidemill
