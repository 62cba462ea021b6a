#include "http/http_message.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"

namespace tidemill {
namespace {

constexpr size_t kParametersMax = 64;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> Unescape(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return Invalid("a '%' without two hexadecimal digits after it");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (c == '\0') return Invalid("a NUL character");
    out += c;
  }
  return out;
}

Status CheckUrlPath(std::string_view path) {
  if (path.empty() || path[0] != '/') return Invalid("the path must begin with '/'");
  if (path == "/") return Ok();
  if (path.find('\\') != std::string_view::npos) return Invalid("a backslash in the path");
  size_t begin = 1;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return Invalid("an empty part, \".\" or \"..\" in the path");
    }
    begin = end + 1;
  }
  return Ok();
}

Status ParseQuery(std::string_view text, HttpRequest& request) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    TM_ASSIGN_OR_RETURN(std::string name, Unescape(pair.substr(0, equals), true));
    const std::string_view rest = equals < pair.size() ? pair.substr(equals + 1) : "";
    TM_ASSIGN_OR_RETURN(std::string value, Unescape(rest, true));
    request.query[std::move(name)] = std::move(value);
    if (request.query.size() > kParametersMax) return Invalid("too many query parameters");
  }
  return Ok();
}

int HttpStatusOf(Code code) {
  switch (code) {
    case Code::kInvalid:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kExists:
      return 409;
    case Code::kFull:
    case Code::kUnavailable:
    case Code::kTimeout:
      return 503;
    default:
      return 500;
  }
}

Status Expected(const std::string& name, const std::string& value, std::string_view what) {
  return Invalid("parameter \"" + name + "\" must be " + std::string(what) + ", got \"" +
                 Beginning(value, 80) + "\"");
}

}  // namespace

const std::string* HttpRequest::Find(const std::string& name) const {
  const auto it = query.find(name);
  return it == query.end() || it->second.empty() ? nullptr : &it->second;
}

std::string_view HttpRequest::Header(const std::string& name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string_view() : std::string_view(it->second);
}

HttpResponse ErrorResponse(int status, std::string_view message) {
  HttpResponse response;
  response.status = status;
  response.body = nlohmann::json{{"error", message}}.dump(-1, ' ', false,
                                                          nlohmann::json::error_handler_t::replace);
  return response;
}

HttpResponse ErrorResponse(const Status& status) {
  return ErrorResponse(HttpStatusOf(status.code()), status.message());
}

HttpResponse TextResponse(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(body);
  return response;
}

HttpResponse MetricsResponse(std::string text) {
  HttpResponse response = TextResponse(200, std::move(text));
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

Status ParseTarget(std::string_view target, HttpRequest& request) {
  target = target.substr(0, target.find('#'));
  const size_t mark = std::min(target.find('?'), target.size());
  TM_ASSIGN_OR_RETURN(request.path, Unescape(target.substr(0, mark), false));
  TM_RETURN_IF_ERROR(CheckUrlPath(request.path));
  return mark < target.size() ? ParseQuery(target.substr(mark + 1), request) : Ok();
}

std::string OneHeaderValue(std::string value) {
  std::replace_if(
      value.begin(), value.end(),
      [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7F; }, '?');
  return value;
}

Result<std::optional<uint64_t>> UintParameter(const HttpRequest& request, const std::string& name) {
  const std::string* text = request.Find(name);
  if (text == nullptr) return std::optional<uint64_t>();
  uint64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value > INT64_MAX) {
    return Expected(name, *text, "a whole number");
  }
  return std::optional<uint64_t>(value);
}

Result<std::optional<double>> NumberParameter(const HttpRequest& request, const std::string& name) {
  const std::string* text = request.Find(name);
  if (text == nullptr) return std::optional<double>();
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) {
    return Expected(name, *text, "a number");
  }
  return std::optional<double>(value);
}

Result<std::optional<bool>> BoolParameter(const HttpRequest& request, const std::string& name) {
  const std::string* text = request.Find(name);
  if (text == nullptr) return std::optional<bool>();
  if (*text == "true" || *text == "1") return std::optional<bool>(true);
  if (*text == "false" || *text == "0") return std::optional<bool>(false);
  return Expected(name, *text, "true or false");
}

}  // namespace tidemill
