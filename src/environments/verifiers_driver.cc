// verifiers 0.4: an environment's server on a ZeroMQ socket, in MessagePack. It leads the episode
// itself, its agents ask the gateway with the episode's key:
//
//   socket -> run {task_data, client, model, sampling} -> delta* -> reply
//
//   chat: its agents' requests go to the gateway as they are (client "eval")
//   tokens: it renders the prompts and asks for ids at the token route (client "train")
//
// Nothing that comes is executed or unpickled: arrays stay bytes.
#include <utility>

#include "core/hash.h"
#include "environments/chat_talk.h"
#include "environments/environment_driver.h"
#include "environments/msgpack.h"
#include "environments/verifiers_episode.h"
#include "environments/zero_mq.h"

namespace tidemill {
namespace {

constexpr size_t kRunIdDigits = 32;

class VerifiersDriver final : public EpisodeDriver {
 public:
  // Requests are named across all clients of a server: as unique as the episode's key, and nothing
  // is learned of it.
  explicit VerifiersDriver(EpisodeSheet sheet)
      : sheet_(std::move(sheet)),
        run_id_(Sha256Hex(sheet_.model_key).substr(0, kRunIdDigits)),
        reader_({}) {}

  bool UsesStream() const override { return true; }
  bool AsksModelItself() const override { return true; }

  DriverStep Begin() override {
    auto row = ParseEnvironmentJson(sheet_.task.environment().row_json());
    if (!row.ok() || !row->is_object()) {
      return FailEpisode{Failure::kMasked, "the task's row is no object"};
    }
    EnvironmentJson sampling = {{"temperature", sheet_.temperature},
                                {"max_tokens", sheet_.max_turn_tokens}};
    const EnvironmentJson run = {{"task_data", std::move(*row)},
                                 {"client", Client()},
                                 {"model", "policy"},
                                 {"sampling", std::move(sampling)}};
    output_ = ZeroMqHello("DEALER");
    waiting_ = ZeroMqMessage({run_id_, "run", WriteMsgpack(run)});
    return Await{};
  }

  DriverStep OnAnswer(const EnvironmentAnswer&) override { return Unasked(); }
  DriverStep OnModel(const EnvironmentAnswer&) override { return Unasked(); }

  std::optional<DriverStep> OnBytes(std::string_view bytes) override {
    const Status read = reader_.Add(bytes);
    output_ += reader_.TakeReplies();
    if (!read.ok()) return FailEpisode{Failure::kConnection, read.message()};
    if (reader_.ready()) output_ += std::exchange(waiting_, {});
    std::optional<DriverStep> next;
    for (const ZeroMqParts& parts : reader_.TakeMessages()) {
      if (next && std::holds_alternative<Await>(*next)) next.reset();
      if (!next) next = OnMessage(parts);
    }
    return next;
  }

  std::string TakeOutput() override { return std::exchange(output_, {}); }
  // Ends the run: nothing more is asked of the model for it.
  std::string Farewell() override {
    if (over_ || !reader_.ready()) return {};
    const EnvironmentJson cancel = {{"request_id", run_id_}};
    return ZeroMqMessage({run_id_ + "-cancel", "cancel", WriteMsgpack(cancel)});
  }

 private:
  static DriverStep Unasked() {
    return FailEpisode{Failure::kConnection, "it answers without being asked"};
  }

  // The key goes in both headers: one of them is replaced by what the server's own environment
  // has, and which one depends on the API that its agent speaks.
  EnvironmentJson Client() const {
    const bool tokens = sheet_.mode == "tokens";
    return {{"type", tokens ? "train" : "eval"},
            {"base_url", sheet_.model_url + "/v1"},
            {"api_key_var", "TIDEMILL_NO_KEY"},
            {"headers",
             {{"x-api-key", sheet_.model_key}, {"Authorization", "Bearer " + sheet_.model_key}}}};
  }

  DriverStep OnMessage(const ZeroMqParts& parts) {
    if (parts.size() != 3 || parts[0] != run_id_ || (parts[1] != "delta" && parts[1] != "reply")) {
      return FailEpisode{Failure::kConnection, "it sends what is no answer to run"};
    }
    const Result<EnvironmentJson> body = ReadMsgpack(parts[2]);
    if (!body.ok() || !body->is_object()) {
      return FailEpisode{Failure::kConnection,
                         "it sends no MessagePack: " + body.status().message()};
    }
    if (parts[1] == "reply") return OnReply(*body);
    const Status applied = episode_.Apply(*body);
    if (!applied.ok()) return FailEpisode{Failure::kConnection, applied.message()};
    return Await{};
  }

  DriverStep OnReply(const EnvironmentJson& reply) {
    over_ = true;
    const auto success = reply.find("success");
    if (success == reply.end() || *success != true) {
      const auto error = reply.find("error");
      return FailEpisode{Failure::kEnvironment, error != reply.end() && error->is_string()
                                                    ? error->get<std::string>().substr(0, 500)
                                                    : "it says that the run failed"};
    }
    Result<EndEpisode> end = episode_.Finish(reply, sheet_.name);
    if (end.ok()) return std::move(*end);
    return FailEpisode{
        end.status().code() == Code::kUnavailable ? Failure::kEnvironment : Failure::kConnection,
        end.status().message()};
  }

  const EpisodeSheet sheet_;
  const std::string run_id_;
  ZeroMqReader reader_;
  VerifiersEpisode episode_;
  std::string output_, waiting_;  // for the end of the handshake
  bool over_ = false;
};

}  // namespace

std::unique_ptr<EpisodeDriver> NewVerifiersDriver(EpisodeSheet sheet) {
  return std::make_unique<VerifiersDriver>(std::move(sheet));
}

}  // namespace tidemill
