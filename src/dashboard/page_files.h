// The built page: a few files, read once and kept in memory. What is not among them cannot be asked
// for, whatever the path.
#pragma once

#include <map>
#include <string>

#include "core/status.h"
#include "http/http_message.h"

namespace tidemill {

// Immutable and thread-safe.
class PageFiles {
 public:
  // Every file below `folder` (at most 32 MB). kNotFound: no index.html there.
  static Result<PageFiles> Read(const std::string& folder);
  // A page that says that there is no page, and how to get it.
  static PageFiles Missing();

  // GET or HEAD of a file; "/" is index.html. Anything else is 404.
  HttpResponse Answer(const HttpRequest& request) const;
  bool missing() const { return missing_; }

  // One document with scripts, styles and `data_json` inside, that needs no server. `data_json`
  // maps API targets to their answers.
  Result<std::string> ExportDocument(const std::string& data_json) const;

 private:
  std::map<std::string, std::string> files_;  // by path: "/index.html"
  bool missing_ = false;
};

}  // namespace tidemill
