#include "live/feedback.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "gateway/wire_json.h"

namespace tidemill {
namespace {

constexpr size_t kBodyBytesMax = 64 * 1024;
constexpr size_t kTextBytesMax = 16 * 1024;
constexpr size_t kFeedbackNameMax = 512;
constexpr double kCountMax = 1e9;

constexpr std::array<std::string_view, 12> kFields = {"id",     "session", "choice",    "span",
                                                      "score",  "thumb",   "exit_code", "tests",
                                                      "source", "by",      "text",      "end"};

Status Wrong(std::string_view field, const std::string& expected, const WireJson& got) {
  return Invalid("\"" + std::string(field) + "\" must be " + expected + ", got " + ShownWire(got));
}

Status TakeText(const WireJson& body, const char* field, size_t most, std::string& out) {
  const auto it = body.find(field);
  if (it == body.end() || it->is_null()) return Ok();
  if (!it->is_string() || it->get_ref<const std::string&>().size() > most) {
    return Wrong(field, "a string of at most " + std::to_string(most) + " bytes", *it);
  }
  out = ToUtf8(it->get_ref<const std::string&>());
  return Ok();
}

Result<double> NumberIn(const WireJson& value, std::string_view field, double low, double high,
                        const std::string& expected) {
  if (!value.is_number()) return Wrong(field, expected, value);
  const double number = value.get<double>();
  if (!(number >= low && number <= high)) return Wrong(field, expected, value);
  return number;
}

Result<uint32_t> CountIn(const WireJson& value, std::string_view field) {
  TM_ASSIGN_OR_RETURN(const double number,
                      NumberIn(value, field, 0, kCountMax, "a whole number from 0"));
  if (number != std::floor(number)) return Wrong(field, "a whole number from 0", value);
  return static_cast<uint32_t>(number);
}

// {"passed": 3, "total": 4} is 0.5.
Result<double> TestsScore(const WireJson& tests) {
  const std::string expected = "{\"passed\": N, \"total\": M} with N <= M and M above 0";
  if (!tests.is_object() || !tests.contains("passed") || !tests.contains("total")) {
    return Wrong("tests", expected, tests);
  }
  TM_ASSIGN_OR_RETURN(const uint32_t passed, CountIn(tests["passed"], "tests.passed"));
  TM_ASSIGN_OR_RETURN(const uint32_t total, CountIn(tests["total"], "tests.total"));
  if (total == 0 || passed > total) return Wrong("tests", expected, tests);
  return 2.0 * passed / total - 1;
}

// One of score, thumb, exit_code and tests. The last two are what programs say.
Status TakeScore(const WireJson& body, Feedback& feedback) {
  int given = 0;
  for (const char* field : {"score", "thumb", "exit_code", "tests"}) {
    const auto it = body.find(field);
    if (it == body.end() || it->is_null()) continue;
    ++given;
    const std::string_view name = field;
    if (name == "score") {
      TM_ASSIGN_OR_RETURN(feedback.score, NumberIn(*it, name, -1, 1, "a number from -1 to 1"));
    } else if (name == "thumb") {
      if (*it != "up" && *it != "down") return Wrong(name, "\"up\" or \"down\"", *it);
      feedback.score = *it == "up" ? 1 : -1;
    } else if (name == "exit_code") {
      if (!it->is_number_integer()) return Wrong(name, "a whole number", *it);
      feedback.score = *it == 0 ? 1 : -1;
      feedback.source = "program";
    } else {
      TM_ASSIGN_OR_RETURN(feedback.score, TestsScore(*it));
      feedback.source = "program";
    }
  }
  if (given == 1) return Ok();
  return Invalid(
      "exactly one of \"score\", \"thumb\", \"exit_code\" and \"tests\" must be given, got " +
      std::to_string(given));
}

Status TakeSpan(const WireJson& body, Feedback& feedback) {
  const auto span = body.find("span");
  if (span == body.end() || span->is_null()) return Ok();
  const std::string expected = "[FROM, TO], characters of the answer with FROM below TO";
  if (!span->is_array() || span->size() != 2) return Wrong("span", expected, *span);
  TM_ASSIGN_OR_RETURN(feedback.span_from, CountIn((*span)[0], "span"));
  TM_ASSIGN_OR_RETURN(feedback.span_to, CountIn((*span)[1], "span"));
  if (feedback.span_from >= feedback.span_to) return Wrong("span", expected, *span);
  return Ok();
}

// "chatcmpl-X", "cmpl-X", "resp_X", "msg_X" and "req_X" are one request.
Status TakeTurn(const WireJson& body, Feedback& feedback) {
  std::string id;
  TM_RETURN_IF_ERROR(TakeText(body, "id", kFeedbackNameMax, id));
  if (!id.empty()) {
    const size_t at = id.find_last_of("-_");
    feedback.request_id = "req_" + (at == std::string::npos ? id : id.substr(at + 1));
  }
  if (const auto it = body.find("choice"); it != body.end() && !it->is_null()) {
    TM_ASSIGN_OR_RETURN(feedback.choice, CountIn(*it, "choice"));
  }
  TM_RETURN_IF_ERROR(TakeSpan(body, feedback));
  if (feedback.request_id.empty() && feedback.span_to > 0) {
    return Invalid("\"span\" needs \"id\": the answer it is a part of");
  }
  if (feedback.request_id.empty() && feedback.session.empty()) {
    return Invalid(
        "\"id\" (of the answer) or \"session\" must say what the feedback is on; both are missing");
  }
  return Ok();
}

}  // namespace

Result<Feedback> ParseFeedback(std::string_view body, const std::string& session) {
  if (body.size() > kBodyBytesMax) {
    return Invalid("feedback has at most " + std::to_string(kBodyBytesMax) + " bytes");
  }
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseWire(body, {}));
  if (!json.is_object()) return Invalid("feedback must be a JSON object");
  for (const auto& [field, value] : json.items()) {
    if (std::find(kFields.begin(), kFields.end(), field) == kFields.end()) {
      return Invalid("unknown field \"" + field.substr(0, 64) +
                     "\"; known are id, session, choice, span, score, thumb, exit_code, tests, "
                     "source, by, text, end");
    }
  }
  Feedback feedback;
  feedback.session = session;
  TM_RETURN_IF_ERROR(TakeText(json, "session", kFeedbackNameMax, feedback.session));
  TM_RETURN_IF_ERROR(TakeTurn(json, feedback));
  TM_RETURN_IF_ERROR(TakeScore(json, feedback));
  TM_RETURN_IF_ERROR(TakeText(json, "source", kFeedbackNameMax, feedback.source));
  if (feedback.source != "program" && feedback.source != "person" && feedback.source != "judge") {
    return Wrong("source", "\"program\", \"person\" or \"judge\"", json["source"]);
  }
  TM_RETURN_IF_ERROR(TakeText(json, "by", kFeedbackNameMax, feedback.by));
  TM_RETURN_IF_ERROR(TakeText(json, "text", kTextBytesMax, feedback.text));
  if (const auto it = json.find("end"); it != json.end() && !it->is_null()) {
    if (!it->is_boolean()) return Wrong("end", "true or false", *it);
    feedback.end = it->get<bool>();
  }
  return feedback;
}

}  // namespace tidemill
