// A teacher behind an OpenAI-compatible endpoint that scores given ids: a few threads, every one
// with a connection it keeps.
//
//   TeacherCall -> POST ENDPOINT/completions (prompt: ids, echo, logprobs) -> log-probabilities
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/work_queue.h"
#include "http/http_peer.h"
#include "model/tokenizer.h"
#include "teacher/teacher_config.h"
#include "teacher/teacher_port.h"

namespace tidemill {

// The body of the request for the scores of `ids`.
std::string EchoRequest(const std::string& model, const std::vector<TokenId>& ids);

// The endpoint's scores of each id.
struct EchoedTokens {
  std::vector<std::string> texts;
  std::vector<float> logprobs;
  std::vector<uint8_t> known;  // 0: it gave none, as for a token outside its top-k
};
// kUnavailable: the answer is no completion with the scores of `count` ids; says what is wrong.
Result<EchoedTokens> ReadEcho(std::string_view body, size_t count);

// kInvalid: an id that the endpoint reads as another text than `tokens` does.
Status CheckEchoed(const EchoedTokens& echoed, const std::vector<TokenId>& ids,
                   const Tokenizer& tokens);

class HttpTeacher final : public TeacherPort {
 public:
  // Asks the endpoint once. kInvalid names the key: an address that is none, a key that is not
  // there, an endpoint with another tokenizer. kUnavailable: it does not answer.
  static Result<std::unique_ptr<HttpTeacher>> Make(const TeacherConfig& keys,
                                                   const Tokenizer& tokens);
  // Ends what is under way.
  ~HttpTeacher() override;

  void Submit(TeacherCall call) override;
  Mailbox<TeacherDone>& events() override { return events_; }

 private:
  explicit HttpTeacher(const TeacherConfig& keys)
      : keys_(keys), events_(keys.concurrency), queue_(keys.concurrency) {}
  void Answer(HttpPeer& peer, const TeacherCall& call);
  Result<EchoedTokens> Ask(HttpPeer& peer, const std::vector<TokenId>& ids) const;
  Status CheckTokenizer(const Tokenizer& tokens);

  const TeacherConfig keys_;
  HttpUrl url_;
  std::string key_;
  Mailbox<TeacherDone> events_;
  std::vector<std::unique_ptr<HttpPeer>> peers_;
  WorkQueue<TeacherCall> queue_;  // last: its threads use all of the above
};

}  // namespace tidemill
