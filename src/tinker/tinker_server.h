// The server side of the Tinker API: clients train LoRA adapters on this server's bases and sample
// from them (docs/tinker.md).
//
//   HTTP workers: route -> books -> OpQueue -> ModelWorker (forward_backward, optim_step, saves)
//                                -> SampleDesk, one a base (samples) -> engine
//   results -> books or SamplePromises -> clients that poll
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/fd.h"
#include "core/loop_runner.h"
#include "engine/engine_port.h"
#include "gateway/admission.h"
#include "gateway/key_file.h"
#include "http/http_server.h"
#include "tinker/routes.h"

namespace tidemill {

struct TinkerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;   // 0: a free one
  std::string folder;  // what is kept lies here; one server at a time
  ApiKeys keys = ApiKeys::Open({});
  std::string key_file{};  // what they were read from: read again when it changes; empty: nothing
  unsigned workers = 2;    // that read requests
  TinkerLimits limits{};
  SamplePromiseLimits samples{};
  SampleDeskOptions desk{};                        // on_done is the server's
  Duration save_every = std::chrono::seconds(10);  // as WorkerOptions::save_every
};

struct ServedBase {
  BaseModel base;
  EnginePort* engine = nullptr;
};

class TinkerServer {
 public:
  // Goes on with what the folder holds, and listens when it returns. What is given by reference,
  // and the engines, must outlive it. kInvalid: the address, or no keys outside loopback.
  // kUnavailable: the port is taken, or the folder is another server's.
  static Result<std::unique_ptr<TinkerServer>> Start(TinkerOptions options,
                                                     std::vector<ServedBase> bases,
                                                     ModelsPort& models, const Clock& clock);
  ~TinkerServer();

  std::string url() const { return http_->url(); }

 private:
  TinkerServer(TinkerOptions options, const Clock& clock);
  Status LockFolder();
  void MakeParts(const std::vector<ServedBase>& bases, ModelsPort& models);
  Status Resume();
  Status RemoveOrphans(const std::vector<ModelRow>& living);
  Status Listen();
  HttpRoute Route(const HttpRequest& head);
  void Serve(HttpRequest request, std::unique_ptr<HttpReply> reply);
  void KeepHouse();
  Status SweepOld();

  const TinkerOptions options_;
  const Clock& clock_;
  const KeyFile keys_;
  Admission admission_{{}};
  Fd lock_;
  std::unique_ptr<Books> books_;
  OpQueue queue_;
  Polls polls_;
  SamplePromises samples_;
  LoopRunner runner_;  // before the desks: they are woken as long as they are there
  std::vector<std::unique_ptr<SampleDesk>> desks_;
  std::unique_ptr<TinkerParts> parts_;
  std::unique_ptr<ModelWorker> worker_;
  Mutex mutex_;
  CondVar stopped_;
  bool stop_ TM_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
  std::unique_ptr<HttpServer> http_;
};

}  // namespace tidemill
