#include "tools/test_report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace tidemill {
namespace {

using ReportJson = nlohmann::json;

constexpr int kReportDepthMax = 32;

void NoteTest(TestReport& report, std::string name, bool passed) {
  if (name.empty()) return;
  const auto [at, is_new] = report.tests.emplace(std::move(name), passed);
  if (!is_new) at->second = at->second && passed;
}

// "&lt;" and the like; what is unknown stays as it is.
std::string Unescaped(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kNames[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string out;
  while (!text.empty()) {
    bool known = false;
    for (const auto& [name, c] : kNames) {
      if (!text.starts_with(name)) continue;
      out += c;
      text.remove_prefix(name.size());
      known = true;
      break;
    }
    if (known) continue;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

// One tag at a time, without building a tree: depth costs nothing.
class TagScanner {
 public:
  explicit TagScanner(std::string_view text) : rest_(text) {}

  // The next tag without "<" and ">"; comments, CDATA and declarations are passed over. False: the
  // end, or a tag that is not closed.
  bool Next(std::string_view* tag) {
    for (;;) {
      const size_t open = rest_.find('<');
      if (open == std::string_view::npos) return false;
      rest_.remove_prefix(open);
      if (PassOver("<!--", "-->") || PassOver("<![CDATA[", "]]>") || PassOver("<?", "?>") ||
          PassOver("<!", ">")) {
        continue;
      }
      const size_t close = End();
      if (close == std::string_view::npos) return false;
      *tag = rest_.substr(1, close - 1);
      rest_.remove_prefix(close + 1);
      return true;
    }
  }

 private:
  bool PassOver(std::string_view begin, std::string_view end) {
    if (!rest_.starts_with(begin)) return false;
    const size_t at = rest_.find(end, begin.size());
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + end.size());
    return true;
  }
  // Of the ">" outside of quotes.
  size_t End() const {
    char quote = 0;
    for (size_t i = 1; i < rest_.size(); ++i) {
      const char c = rest_[i];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '>') {
        return i;
      }
    }
    return std::string_view::npos;
  }

  std::string_view rest_;
};

std::string_view TagName(std::string_view tag) {
  return tag.substr(0, tag.find_first_of(" \t\r\n/"));
}

std::string Attribute(std::string_view tag, std::string_view wanted) {
  size_t at = tag.find_first_of(" \t\r\n");
  while (at != std::string_view::npos) {
    at = tag.find_first_not_of(" \t\r\n", at);
    const size_t equals = at == std::string_view::npos ? at : tag.find('=', at);
    if (equals == std::string_view::npos || equals + 1 >= tag.size()) return "";
    const std::string_view name = tag.substr(at, equals - at);
    const char quote = tag[equals + 1];
    if (quote != '"' && quote != '\'') return "";
    const size_t end = tag.find(quote, equals + 2);
    if (end == std::string_view::npos) return "";
    if (name == wanted) return Unescaped(tag.substr(equals + 2, end - equals - 2));
    at = end + 1;
  }
  return "";
}

Result<TestReport> ParseJunit(std::string_view text) {
  TestReport report;
  TagScanner scanner(text);
  std::string_view tag;
  std::string name;  // of the test that is open
  bool open = false, passed = true, skipped = false, root = false;
  const auto close = [&] {
    if (open && !skipped) NoteTest(report, name, passed);
    open = false;
  };
  while (scanner.Next(&tag) && report.tests.size() <= kReportTestsMax) {
    const std::string_view kind = TagName(tag);
    root = root || kind == "testsuites" || kind == "testsuite";
    if (kind == "testcase") {
      close();
      const std::string group = Attribute(tag, "classname");
      name = (group.empty() ? "" : group + ".") + Attribute(tag, "name");
      open = true, passed = true, skipped = false;
      if (tag.ends_with('/')) close();
    } else if (kind == "failure" || kind == "error") {
      passed = false;
    } else if (kind == "skipped") {
      skipped = true;
    } else if (tag == "/testcase") {
      close();
    }
  }
  // A test that was not closed is one that did not end.
  if (open) NoteTest(report, name, false);
  if (!root) return Invalid("the report is no JUnit XML");
  return report;
}

std::string_view WithoutSpace(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r\n").find(text.front()) != text.npos) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != text.npos) {
    text.remove_suffix(1);
  }
  return text;
}

// "ok 3 - name # SKIP why", indented where it is a subtest.
Result<TestReport> ParseTap(std::string_view text) {
  TestReport report;
  while (!text.empty() && report.tests.size() <= kReportTestsMax) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = WithoutSpace(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool failed = line.starts_with("not ok");
    if (!failed && !(line.starts_with("ok") && (line.size() == 2 || line[2] == ' '))) continue;
    line.remove_prefix(failed ? 6 : 2);
    while (!line.empty() && std::string_view(" 0123456789").find(line[0]) != line.npos) {
      line.remove_prefix(1);
    }
    if (line.starts_with("- ")) line.remove_prefix(2);
    const size_t directive = line.find(" # ");
    if (directive != line.npos) {
      if (line.substr(directive).find("SKIP") != line.npos) continue;
      line = line.substr(0, directive);
    }
    std::string name(WithoutSpace(line));
    if (name.empty()) name = "test " + std::to_string(report.tests.size() + 1);
    NoteTest(report, std::move(name), !failed);
  }
  return report;
}

bool IsShare(double value) {
  return std::isfinite(value) && value >= 0 && value <= 1;
}

// {"tests": {"NAME": true | false | "passed" | ..}} or {"reward": 0.5}
Result<TestReport> ParseJsonReport(std::string_view text) {
  const auto depth = [](int level, ReportJson::parse_event_t, ReportJson&) {
    return level <= kReportDepthMax;
  };
  const ReportJson json = ReportJson::parse(text, depth, false);
  if (json.is_discarded() || !json.is_object()) return Invalid("the report is no JSON object");
  TestReport report;
  if (json.contains("reward")) {
    const ReportJson& reward = json["reward"];
    if (!reward.is_number() || !IsShare(reward.get<double>())) {
      return Invalid("\"reward\" of the report must be a number from 0 to 1");
    }
    report.reward = reward.get<double>();
    return report;
  }
  if (!json.contains("tests") || !json["tests"].is_object()) {
    return Invalid("the report has neither \"tests\", an object, nor \"reward\"");
  }
  for (const auto& [name, passed] : json["tests"].items()) {
    if (report.tests.size() > kReportTestsMax) break;
    NoteTest(report, name,
             passed.is_boolean() ? passed.get<bool>() : passed == "passed" || passed == "PASSED");
  }
  return report;
}

Result<TestReport> ParseNumber(std::string_view text) {
  const std::string number(WithoutSpace(text));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || number.size() > 64 || *end != 0 || !IsShare(value)) {
    return Invalid("the report must be one number from 0 to 1");
  }
  TestReport report;
  report.reward = value;
  return report;
}

}  // namespace

std::string PlainTestName(std::string_view name) {
  std::string plain;
  const size_t bracket = std::min(name.find('['), name.size());  // parameters stay as they are
  for (size_t i = 0; i < bracket; ++i) {
    if (name.substr(i).starts_with(".py::")) {
      plain += '.';
      i += 4;
    } else if (name.substr(i).starts_with("::")) {
      plain += '.';
      ++i;
    } else {
      plain += name[i] == '/' ? '.' : name[i];
    }
  }
  return plain + std::string(name.substr(bracket));
}

bool TestReport::Passed(std::string_view name) const {
  if (const auto found = tests.find(name); found != tests.end()) return found->second;
  const auto found = by_plain_name.find(PlainTestName(name));
  return found != by_plain_name.end() && found->second;
}

Result<TestReport> ParseTestReport(v1::Grading::Report format, std::string_view text) {
  if (text.size() > kReportBytesMax) return Invalid("the report is larger than 8 MiB");
  const std::string readable = ToUtf8(text);
  Result<TestReport> report = Invalid("the grading has no report");
  if (format == v1::Grading::REPORT_JUNIT) report = ParseJunit(readable);
  if (format == v1::Grading::REPORT_TAP) report = ParseTap(readable);
  if (format == v1::Grading::REPORT_JSON) report = ParseJsonReport(readable);
  if (format == v1::Grading::REPORT_NUMBER) report = ParseNumber(readable);
  if (!report.ok()) return report;
  if (report->tests.size() > kReportTestsMax) {
    return Invalid("the report has more than 100000 tests");
  }
  if (!report->reward && report->tests.empty()) return Invalid("the report names no test");
  for (const auto& [name, passed] : report->tests) {
    const auto [at, is_new] = report->by_plain_name.emplace(PlainTestName(name), passed);
    if (!is_new) at->second = at->second && passed;
  }
  return report;
}

}  // namespace tidemill
