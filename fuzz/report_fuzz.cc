// What comes out of a grading's box, and what stands in a task's folder: reports of test runners
// and Dockerfiles.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/text.h"
#include "tasks/import/dockerfile.h"
#include "tools/test_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tidemill;  // NOLINT: a program of one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto format : {v1::Grading::REPORT_JUNIT, v1::Grading::REPORT_TAP,
                            v1::Grading::REPORT_JSON, v1::Grading::REPORT_NUMBER}) {
    const auto report = ParseTestReport(format, text);
    if (!report.ok()) continue;
    if (report->reward && (*report->reward < 0 || *report->reward > 1)) std::abort();
    if (!report->reward && report->tests.empty()) std::abort();
    for (const auto& [name, passed] : report->tests) {
      if (!IsUtf8(name) || report->Passed(name) != passed) std::abort();
    }
  }
  (void)ParseDockerfile(text);
  return 0;
}
