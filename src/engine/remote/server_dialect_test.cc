// The words of each kind of server, against recorded answers.
#include "engine/remote/server_dialect.h"

#include <gtest/gtest.h>

#include "engine/remote/wire_reading.h"

namespace tidemill {
namespace {

// As vLLM 0.32 streams: the versions come with the last token, the cached tokens behind it.
constexpr char kVllmStream[] =
    "data: "
    "{\"request_id\":\"generate-tokens-a\",\"choices\":[{\"index\":0,\"logprobs\":{\"content\""
    ":[{\"token_id\":5,\"logprob\":-1.5,\"rank\":2,\"top_logprobs\":[{\"token_id\":5,\"logprob\":-"
    "1.5"
    ",\"rank\":2}]}]},\"finish_reason\":null,\"stop_reason\":null,\"token_ids\":[5],"
    "\"weight_versions\":null}]}\n\n"
    "data: "
    "{\"request_id\":\"generate-tokens-a\",\"choices\":[{\"index\":0,\"logprobs\":{\"content\""
    ":[{\"token_id\":7,\"logprob\":-0.25,\"rank\":1,\"top_logprobs\":[]}]},\"finish_reason\":"
    "\"stop\""
    ",\"stop_reason\":7,\"token_ids\":[7],\"weight_versions\":[{\"version\":\"8\",\"start\":0,"
    "\"end\":1},{\"version\":\"9\",\"start\":1,\"end\":2}]}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"prompt_tokens_details\":"
    "{\"cached_tokens\":128}}}\n\n"
    "data: [DONE]\n\n";

ServedPart Joined(ServedReader& reader, std::string_view text, size_t cut) {
  ServedPart all;
  for (size_t at = 0; at < text.size(); at += cut) {
    Result<ServedPart> part = reader.Read(text.substr(at, cut));
    EXPECT_TRUE(part.ok()) << part.status().message();
    if (!part.ok()) return all;
    all.ids.insert(all.ids.end(), part->ids.begin(), part->ids.end());
    all.logprobs.insert(all.logprobs.end(), part->logprobs.begin(), part->logprobs.end());
    if (part->end) all.end = part->end, all.versions = part->versions;
    if (part->cached_tokens) all.cached_tokens = part->cached_tokens;
  }
  return all;
}

TEST(ServerDialect, AVllmStreamIsReadHoweverItIsCut) {
  for (size_t cut = 1; cut < 400; cut += 13) {
    const auto reader = NewVllmDialect()->NewReader();
    const ServedPart all = Joined(*reader, kVllmStream, cut);
    EXPECT_EQ(all.ids, (std::vector<TokenId>{5, 7}));
    EXPECT_EQ(all.logprobs, (std::vector<float>{-1.5f, -0.25f}));
    ASSERT_EQ(all.end, ServedEnd::kStop);
    ASSERT_EQ(all.versions.size(), 2u);
    EXPECT_EQ(all.versions[1].version, "9");
    EXPECT_EQ(all.versions[1].start, 1u);
    EXPECT_EQ(all.cached_tokens, 128u);
  }
}

TEST(ServerDialect, AnSglangAnswerIsReadWholeGrowingAndPieceByPiece) {
  const std::string meta =
      "\"weight_versions\":[{\"version\":\"3\",\"start\":0,\"end\":2}],\"cached_tokens\":4";
  const std::string first =
      "{\"output_ids\":[5],\"meta_info\":{\"completion_tokens\":1,\"finish_reason\":null,"
      "\"output_token_logprobs\":[[-1.5,5,null]]}}";
  const std::string grown =
      "{\"output_ids\":[5,7],\"meta_info\":{\"completion_tokens\":2,\"finish_reason\":{\"type\":"
      "\"length\",\"length\":2},\"output_token_logprobs\":[[-1.5,5,null],[-0.25,7,null]]," +
      meta + "}}";
  const std::string rest =
      "{\"output_ids\":[7],\"meta_info\":{\"completion_tokens\":2,\"finish_reason\":{\"type\":"
      "\"length\",\"length\":2},\"output_token_logprobs\":[[-0.25,7,null]]," +
      meta + "}}";
  const auto expect = [](const ServedPart& all) {
    EXPECT_EQ(all.ids, (std::vector<TokenId>{5, 7}));
    EXPECT_EQ(all.logprobs, (std::vector<float>{-1.5f, -0.25f}));
    EXPECT_EQ(all.end, ServedEnd::kLength);
    ASSERT_EQ(all.versions.size(), 1u);
    EXPECT_EQ(all.cached_tokens, 4u);
  };
  for (const std::string& last : {grown, rest}) {
    const auto reader = NewSglangDialect()->NewReader();
    expect(Joined(*reader, "data: " + first + "\n\ndata: " + last + "\n\ndata: [DONE]\n\n", 9));
  }
  const auto reader = NewSglangDialect()->NewReader();
  EXPECT_TRUE(Joined(*reader, grown, 11).ids.empty());
  const Result<ServedPart> whole = reader->Finish();
  ASSERT_TRUE(whole.ok());
  expect(*whole);
}

TEST(ServerDialect, AnswersThatCannotBeAreFailuresWithTheReason) {
  const std::vector<std::string> wrong = {
      "{\"choices\":3}",
      "[1]",
      "{\"choices\":[{\"token_ids\":[5]}]}",
      "{\"choices\":[{\"token_ids\":[5],\"logprobs\":{\"content\":[]}}]}",
      "{\"choices\":[{\"token_ids\":[-5],\"logprobs\":{\"content\":[{\"logprob\":-1}]}}]}",
      "{\"choices\":[{\"token_ids\":[5],\"logprobs\":{\"content\":[{\"logprob\":2}]}}]}",
      "{\"choices\":[{\"token_ids\":[5],\"logprobs\":{\"content\":[{\"logprob\":null}]}}]}",
      "{\"choices\":[{\"token_ids\":[],\"finish_reason\":\"tired\"}]}",
      "{\"choices\":[{\"finish_reason\":\"stop\",\"weight_versions\":[{\"version\":8}]}]}",
      "{\"error\":{\"message\":\"EngineDeadError\"}}",
      "nonsense"};
  for (const std::string& text : wrong) {
    const auto reader = NewVllmDialect()->NewReader();
    const Result<ServedPart> part = reader->Read("data: " + text + "\n\n");
    EXPECT_EQ(part.status().code(), Code::kUnavailable) << text;
  }
}

TEST(ServerDialect, AVllmServerWithoutWhatIsNeededIsRefusedWithTheFlag) {
  const auto vllm = NewVllmDialect();
  ServerAbilities abilities;
  EXPECT_EQ(vllm->ReadGreeting(0, 503, "", abilities).code(), Code::kUnavailable);
  const Status dev = vllm->ReadGreeting(2, 404, "", abilities);
  EXPECT_EQ(dev.code(), Code::kInvalid);
  EXPECT_NE(dev.message().find("VLLM_SERVER_DEV_MODE"), std::string::npos);
  EXPECT_NE(vllm->ReadGreeting(3, 500, "", abilities).message().find("--weight-transfer-config"),
            std::string::npos);
  EXPECT_NE(vllm->ReadScore(403, "").status().message().find("--enable-scale-out"),
            std::string::npos);
  EXPECT_NE(vllm->ReadScore(400, "priority").status().message().find("--scheduling-policy"),
            std::string::npos);
  // Log-probabilities of the model instead of those that are drawn from.
  const std::string raw =
      "{\"choices\":[{\"token_ids\":[1],\"logprobs\":{\"content\":[{\"logprob\":-0.5}]},"
      "\"finish_reason\":\"length\"}],\"prompt_token_ids\":[1],\"prompt_logprobs\":[null]}";
  EXPECT_NE(vllm->ReadScore(200, raw).status().message().find("--logprobs-mode"),
            std::string::npos);
  const std::string models = "{\"data\":[{\"id\":\"m\",\"max_model_len\":4096}]}";
  ASSERT_TRUE(vllm->ReadGreeting(1, 200, models, abilities).ok());
  EXPECT_EQ(abilities.max_context, 4096);
}

TEST(ServerDialect, ThePrefetchIsAskedAgainUntilEveryRankHasTheFile) {
  const auto vllm = NewVllmDialect();
  const ControlCall call = vllm->Update(WeightFiles(), CacheOnSwap::kKeep, false).front();
  EXPECT_EQ(*vllm->ReadUpdate(call, 200, R"({"results":["ready","reading"]})"),
            ControlOutcome::kAgain);
  EXPECT_EQ(*vllm->ReadUpdate(call, 200, R"({"results":["ready","ready"]})"),
            ControlOutcome::kDone);
  EXPECT_EQ(vllm->ReadUpdate(call, 200, R"({"results":["its checksum is 1"]})").status().code(),
            Code::kUnavailable);
}

TEST(ServerDialect, AnUpdateFreezesBeforeItChangesAnythingAndResumesLast) {
  using When = ControlCall::When;
  for (const auto& dialect : {NewVllmDialect(), NewSglangDialect()}) {
    for (const bool repair : {false, true}) {
      const auto calls = dialect->Update(WeightFiles(), CacheOnSwap::kRebuild, repair);
      EXPECT_EQ(calls.back().when, When::kResume);
      bool frozen = false;
      for (const ControlCall& call : calls) {
        if (call.when == When::kFrozen) frozen = true;
        EXPECT_TRUE(frozen || call.what != "updating");
      }
    }
  }
}

TEST(ServerDialect, LoadIsReadFromMetrics) {
  EXPECT_EQ(NewVllmDialect()->ReadLoad(200,
                                       "# TYPE vllm:num_requests_running gauge\n"
                                       "vllm:num_requests_running{engine=\"0\"} 3.0\n"
                                       "vllm:num_requests_running{engine=\"1\"} 2.0\n"
                                       "vllm:num_requests_waiting{engine=\"0\"} 1.0\n"),
            6u);
  EXPECT_EQ(NewVllmDialect()->ReadLoad(200, "vllm:num_requests_waiting 1"), std::nullopt);
}

}  // namespace
}  // namespace tidemill
