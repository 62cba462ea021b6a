// Reports of test runners: JUnit XML, TAP, JSON, one number. They come out of a box in which the
// agent's code ran: anything may stand in them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/status.h"
#include "proto/tidemill.pb.h"

namespace tidemill {

struct TestReport {
  // By name; a test that is listed twice has passed only if both did. Skipped ones are left out.
  std::map<std::string, bool, std::less<>> tests;
  std::optional<double> reward;  // 0..1, where the report says that instead
  // The same by PlainTestName, to find a test that another tool spells in another way.
  std::map<std::string, bool, std::less<>> by_plain_name;

  bool Passed(std::string_view name) const;
};

inline constexpr size_t kReportBytesMax = size_t{8} << 20;
inline constexpr size_t kReportTestsMax = 100'000;

// kInvalid: not what the format says, too large, or nothing in it.
Result<TestReport> ParseTestReport(v1::Grading::Report format, std::string_view text);

// "tests/test_a.py::TestA::test_b" and "tests.test_a.TestA.test_b" name the same test.
std::string PlainTestName(std::string_view name);

}  // namespace tidemill
