// An operator's requests to a run while it is served: the gateway's paths below /live/. Whoever can
// read the run's secret is the operator.
//
//   POST /live/delete {"session": 12} | {"tenant": "lab"} -> EraseJson
//   POST /live/rollback {} | {"to": 7} -> ReleaseDesk::Json
//   POST /live/quarantine {"tenant": "lab", "train": true} -> LiveRun::QuarantineJson
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/status.h"
#include "http/http_message.h"
#include "live/live_run.h"
#include "live/release_desk.h"

namespace tidemill {

// The bearer token of the operator of a run with this secret.
std::string OperatorToken(const std::string& secret);

// Answers are thread-safe once every deed is added.
class LiveOperator {
 public:
  // Takes the body of a request and gives that of the answer.
  using Deed = std::function<Result<std::string>(const std::string& body)>;

  // Of the run in this folder. Failures of reading its secret.
  static Result<LiveOperator> Make(const std::string& run_path);

  void Add(const std::string& path, Deed deed) { deeds_[path] = std::move(deed); }
  HttpResponse Answer(const HttpRequest& request) const;

 private:
  explicit LiveOperator(std::string token) : token_(std::move(token)) {}

  std::string token_;
  std::map<std::string, Deed> deeds_;
};

// /live/delete. The run must outlive it.
LiveOperator::Deed DeleteDeed(LiveRun& run);

// /live/rollback: {} or {"to": N} -> the state of the release. The desk must outlive it.
LiveOperator::Deed RollbackDeed(ReleaseDesk& desk);

// /live/quarantine. The run must outlive it.
LiveOperator::Deed QuarantineDeed(LiveRun& run);

// {"session": N} or {"tenant": NAME}; kInvalid says what is wrong.
Result<EraseWhat> ParseEraseWhat(const std::string& json);

}  // namespace tidemill
