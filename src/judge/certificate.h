// A semi-formal certificate that two pieces of code do the same, or do not: premises, the paths
// that differ with traced inputs and results, a conclusion. It is checked as far as a machine can;
// one that fails a check is a failed vote.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "core/status.h"

namespace tidemill {

// The result of the function in `source` for these inputs; nothing: it cannot be run.
using CodeTracer =
    std::function<std::optional<int64_t>(const std::string& source, std::span<const int64_t>)>;

struct CertifiedCode {
  const std::string& reference;
  const std::string& submission;
  const CodeTracer& tracer;  // empty: traced results are not compared with an interpreter's
};

// 1: equivalent, 0: different. kInvalid names the check that failed: a field of another form, a
// cited line that does not exist, a changed line that no path covers, a traced result that the
// interpreter does not get, a conclusion that the paths do not support.
Result<double> CheckCertificate(const nlohmann::json& certificate, const CertifiedCode& code);

}  // namespace tidemill
