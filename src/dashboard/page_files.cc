#include "dashboard/page_files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace tidemill {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kPageBytesMax = uintmax_t{32} << 20;

constexpr const char* kMissingPage =
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tidemill</title></head>"
    "<body><h1>The page was not built</h1><p>This server has the API (<a "
    "href=\"/api/runs\">/api/runs"
    "</a>) and <a href=\"/metrics\">/metrics</a>, but not the dashboard's files. Install nodejs "
    "and "
    "npm, run <code>make program</code> again and start the server anew.</p></body></html>\n";

const char* TypeOf(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".html") return "text/html; charset=utf-8";
  if (extension == ".js") return "text/javascript; charset=utf-8";
  if (extension == ".css") return "text/css; charset=utf-8";
  if (extension == ".svg") return "image/svg+xml";
  if (extension == ".png") return "image/png";
  if (extension == ".ico") return "image/x-icon";
  if (extension == ".woff2") return "font/woff2";
  if (extension == ".json" || extension == ".webmanifest") return "application/json";
  if (extension == ".txt") return "text/plain; charset=utf-8";
  return "application/octet-stream";
}

// Text between `open` and `close` from `from` on; npos where there is none.
struct Element {
  size_t begin = std::string::npos;
  size_t end = 0;
  std::string path;  // what it names
};

Element FindElement(const std::string& html, const std::string& open, const std::string& attribute,
                    const std::string& close) {
  Element element;
  element.begin = html.find(open);
  if (element.begin == std::string::npos) return element;
  const size_t tag_end = html.find('>', element.begin);
  const size_t name = html.find(attribute + "=\"", element.begin);
  if (tag_end == std::string::npos || name == std::string::npos || name > tag_end) {
    element.begin = std::string::npos;
    return element;
  }
  const size_t value = name + attribute.size() + 2;
  element.path = html.substr(value, html.find('"', value) - value);
  if (element.path.rfind("./", 0) == 0) element.path.erase(0, 1);
  element.end = close.empty() ? tag_end + 1 : html.find(close, tag_end) + close.size();
  return element;
}

// Inside <script> nothing may look like its end (or like a comment, which would hide it).
std::string ForScript(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool closes = text.compare(i, 8, "</script") == 0;
    const bool comment = text.compare(i, 4, "<!--") == 0;
    out += closes || comment ? "\\x3c" : std::string(1, text[i]);
  }
  return out;
}

// JSON may have '<' only in strings, where an escape means the same.
std::string ForJsonScript(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

Result<PageFiles> PageFiles::Read(const std::string& folder) {
  PageFiles page;
  std::error_code error;
  uintmax_t total = 0;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    std::ifstream file(it->path(), std::ios::binary);
    std::string content((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (!file.good() && !file.eof()) return Unavailable(it->path().string() + ": cannot be read");
    total += content.size();
    if (total > kPageBytesMax)
      return Invalid(folder + ": more than 32 MB; this is not the dashboard's page");
    page.files_["/" + fs::relative(it->path(), folder).generic_string()] = std::move(content);
  }
  if (!page.files_.contains("/index.html")) return NotFound(folder + ": no index.html there");
  return page;
}

PageFiles PageFiles::Missing() {
  PageFiles page;
  page.missing_ = true;
  page.files_["/index.html"] = kMissingPage;
  return page;
}

HttpResponse PageFiles::Answer(const HttpRequest& request) const {
  if (request.method == "POST") return ErrorResponse(405, "this path is read-only");
  const auto it = files_.find(request.path == "/" ? "/index.html" : request.path);
  if (it == files_.end()) return ErrorResponse(404, "there is no " + request.path);
  HttpResponse response;
  response.content_type = TypeOf(it->first);
  response.body = it->second;
  // Built files carry a hash of their content in their names.
  const bool hashed = it->first.rfind("/assets/", 0) == 0;
  response.headers.emplace_back("Cache-Control",
                                hashed ? "public, max-age=31536000, immutable" : "no-cache");
  return response;
}

Result<std::string> PageFiles::ExportDocument(const std::string& data_json) const {
  if (missing_) return NotFound("the page was not built (nodejs and npm were missing)");
  std::string html = files_.at("/index.html");
  std::string scripts;
  const auto take = [&](const char* open, const char* attribute, const char* close,
                        auto use) -> Status {
    while (true) {
      const Element element = FindElement(html, open, attribute, close);
      if (element.begin == std::string::npos) return Ok();
      const auto file = files_.find(element.path);
      if (file == files_.end())
        return Internal("index.html names " + element.path + ", which is missing");
      html.replace(element.begin, element.end - element.begin, use(file->second));
    }
  };
  TM_RETURN_IF_ERROR(take("<link rel=\"stylesheet\"", "href", "",
                          [](const std::string& css) { return "<style>" + css + "</style>"; }));
  TM_RETURN_IF_ERROR(take("<link rel=\"icon\"", "href", "", [](const std::string&) { return ""; }));
  TM_RETURN_IF_ERROR(
      take("<script type=\"module\" crossorigin", "src", "</script>", [&](const std::string& js) {
        scripts += "<script type=\"module\">" + ForScript(js) + "</script>";
        return "";
      }));
  const size_t body_end = html.rfind("</body>");
  if (body_end == std::string::npos) return Internal("index.html has no </body>");
  html.insert(body_end, "<script type=\"application/json\" id=\"tidemill-export\">" +
                            ForJsonScript(data_json) + "</script>" + scripts);
  return html;
}

}  // namespace tidemill
