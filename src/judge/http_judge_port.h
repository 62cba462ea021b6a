// Judges behind OpenAI-compatible endpoints: a few threads for each, every one with a connection it
// keeps.
//
//   JudgeCall -> POST ENDPOINT/chat/completions -> JudgeReply
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/work_queue.h"
#include "http/http_peer.h"
#include "judge/judge_config.h"
#include "judge/judge_port.h"

namespace tidemill {

// The body of the request for a chat completion.
std::string QuestionBody(const JudgeConfig& judge, const JudgeCall& call);
// kUnavailable: the answer is no chat completion; says what is wrong with it.
Result<JudgeReply> ReadChatCompletion(std::string_view body);

class HttpJudgePort final : public JudgePort {
 public:
  // kInvalid names the judge: an address that is none, a key that is not there.
  static Result<std::unique_ptr<HttpJudgePort>> Make(const std::vector<JudgeConfig>& judges);
  // Ends what is under way.
  ~HttpJudgePort() override;

  void Submit(JudgeCall call) override;
  Mailbox<JudgeDone>& events() override { return events_; }

 private:
  struct Endpoint {
    JudgeConfig keys;
    HttpUrl url;
    std::string key;
    std::vector<std::unique_ptr<HttpPeer>> peers;
    std::unique_ptr<WorkQueue<JudgeCall>> queue;  // last: its threads use all of the above
  };
  static constexpr size_t kCallsMax = 1 << 20;

  HttpJudgePort() : events_(kCallsMax) {}
  void Answer(const Endpoint& endpoint, HttpPeer& peer, const JudgeCall& call);
  static JudgeDone Ask(const Endpoint& endpoint, HttpPeer& peer, const JudgeCall& call);

  Mailbox<JudgeDone> events_;
  std::map<std::string, Endpoint> endpoints_;  // by the judge's name; as Make left it
};

}  // namespace tidemill
