#include "live/redaction.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "live/live_run.h"
#include "store/session_reader.h"
#include "testing/live_fixture.h"
#include "testing/test_kit.h"

namespace tidemill {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Letters(Random& random, size_t count, const std::string& from) {
  std::string text;
  while (text.size() < count) text += from[random.Below(from.size())];
  return text;
}

const std::string kHex = "0123456789abcdef", kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const std::string kAny = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// One of each shape, drawn anew; put together here so that no scanner takes this file for a leak.
// Each ends with at least 12 characters that were drawn.
std::vector<std::string> SomeSecrets(Random& random) {
  const auto any = [&](size_t count) { return Letters(random, count, kAny); };
  const auto hex = [&](size_t count) { return Letters(random, count, kHex); };
  const auto upper = [&](size_t count) { return Letters(random, count, kUpper); };
  const std::string block = any(64) + "\n" + any(40) + "==\n";
  return {"sk-" + ("ant-api03-" + any(40)),
          "sk-" + ("proj-" + any(30) + "7"),
          "sk-" + ("9" + any(40)),
          "tmk-" + hex(64),
          "AKIA" + upper(16),
          "aws_secret_access_key = " + any(40),
          "ghp_" + any(36),
          "github_" + ("pat_" + any(50)),
          "glpat-" + any(20),
          "glrt-" + any(20),
          "xoxb-" + any(24),
          "xapp-" + ("1-A" + upper(10) + "-" + any(40)),
          "AIza" + any(35),
          "GOCSPX" + ("-" + any(28)),
          "1//0" + any(60),
          "sk_" + ("live_" + any(24)),
          "whsec" + ("_" + any(32)),
          "hf_" + any(34),
          "npm_" + any(36),
          "SG." + any(22) + "." + any(43),
          "key-" + hex(32),
          "gsk_" + any(48),
          "shpss_" + hex(32),
          "eyJ" + any(20) + ".eyJ" + any(30) + "." + any(40),
          "Bearer " + any(40),
          "Basic " + ("aA1" + any(24)) + "==",
          "Authorization: Basic " + any(16),
          "hooks.slack." + ("com/services/T" + upper(8) + "/B" + upper(8) + "/" + any(24)),
          "discord.com/api/" + ("webhooks/" + Letters(random, 18, "123456789") + "/" + any(68)),
          "M" + any(23) + "." + any(6) + "." + any(38),
          Letters(random, 10, "123456789") + ":AA" + any(33),
          "SK" + hex(32),
          "AccountKey=" + any(86) + "==",
          "SharedAccessKey=" + any(43) + "=",
          "?sv=2022-11-02&sig=" + any(43) + "%3D",
          any(3) + "8Q~" + any(34),
          "hvs." + any(90),
          "dapi" + hex(32),
          "AGE-SECRET" + ("-KEY-1" + upper(58)),
          "x-api-key: 7" + any(30),
          "Private-Token: 7" + any(20),
          "Cookie: theme=dark; session=" + any(32),
          "Set-Cookie: sid=" + any(40),
          "curl -b sid=" + any(24) + " https://example.com",
          R"("auth": "7)" + any(30) + "=\"",
          "machine example.com login ada password " + any(14),
          "curl -sS -u ada:" + any(14) + " https://example.com",
          "curl --user 'ada:" + any(14),
          "jdbc:postgresql://db/app?user=ada&password=" + any(14),
          "jdbc:oracle:thin:ada/" + any(14) + "@//db:1521/app",
          "curl -sS -uada:" + any(24) + " https://example.com",
          "Authorization: token " + any(40),
          "mysql -u root -p" + any(30),
          "sshpass -p '" + any(30),
          "docker login -u ada -p " + any(40),
          "deploy --token 7" + any(30),
          "//registry.npmjs.org/:_authToken=" + any(36),
          "POSTGRES_PASSWORD: 7" + any(30),
          "client_secret=7" + any(30),
          "DB_PASSWORD=" + any(14),
          "export CLIENT_SECRET='" + any(14),
          "API_KEY = " + any(20),
          R"("password": "7)" + any(14) + "\"",
          "api_key='7" + any(20) + "'",
          "postgres://admin:" + any(16) + "@db",
          "-----BEGIN RSA PRIVATE KEY-----\n" + block + "-----END RSA PRIVATE KEY-----"};
}

Redaction Standard(const std::vector<std::string>& patterns = {}) {
  auto made = Redaction::Make(patterns);
  TM_CHECK(made.ok(), made.status().message());
  return std::move(*made);
}

TEST(Redaction, EveryShapeIsFoundWhereverItStands) {
  Random random(3);
  const Redaction redaction = Standard();
  for (const std::string& secret : SomeSecrets(random)) {
    for (const std::string before : {"", "key=", "\"", "\n", "\\n", "é "}) {
      for (const std::string after : {"", "\"", "\n", " ok"}) {
        std::string text = before + secret + after;
        SecretSet found;
        EXPECT_EQ(redaction.Clean(text, found), 1u) << before << secret << after;
        EXPECT_THAT(text, HasSubstr(kRedactedMark));
        const size_t drawn = secret.find(" https:");
        const size_t end = drawn == std::string::npos ? secret.size() : drawn;
        EXPECT_THAT(text, Not(HasSubstr(secret.substr(end - 14, 8)))) << secret << " -> " << text;
      }
    }
  }
}

// What hides a shape from a pattern: its letters as URLs, JSON and C write them.
std::vector<std::string> Disguised(const std::string& secret) {
  std::string percent, json, c, twice, html, html_hex, octal;
  for (const char letter : secret) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter <= ' ';
    percent += plain ? std::string(1, letter) : fmt::format("%{:02X}", letter);
    twice += plain ? std::string(1, letter) : fmt::format("%25{:02x}", letter);
    json += plain ? std::string(1, letter) : fmt::format("\\u{:04x}", letter);
    c += plain ? std::string(1, letter) : fmt::format("\\x{:02x}", letter);
    html += plain ? std::string(1, letter) : fmt::format("&#{};", static_cast<int>(letter));
    html_hex += plain ? std::string(1, letter) : fmt::format("&#x{:x};", letter);
    octal += plain ? std::string(1, letter) : fmt::format("\\{:03o}", letter);
  }
  return {percent, json, c, twice, html, html_hex, octal};
}

TEST(Redaction, AShapeIsFoundInEscapesToo) {
  Random random(5);
  const Redaction redaction = Standard();
  const std::string key = "sk-" + ("ant-api03-" + Letters(random, 40, kAny)),
                    jwt = "eyJ" + Letters(random, 20, kAny) + ".eyJ" + Letters(random, 30, kAny) +
                          "." + Letters(random, 40, kAny),
                    hook = "hooks.slack." + ("com/services/T1/B1/" + Letters(random, 24, kAny));
  for (const std::string& secret : {key, jwt, hook}) {
    for (const std::string& disguised : Disguised(secret)) {
      std::string text = "a 100% " + disguised + " \\u00e9 b";
      SecretSet found;
      EXPECT_EQ(redaction.Clean(text, found), 1u) << disguised;
      EXPECT_THAT(text, testing::MatchesRegex("a 100% .?redacted:[a-z-]*. .*u00e9 b")) << text;
      ASSERT_EQ(found.size(), 1u);
      EXPECT_EQ(*found.begin(), disguised);
    }
  }
  std::string slashes =
      "https:\\/\\/hooks.slack.com\\/services\\/T1\\/B1\\/" + std::string(24, 'k');
  SecretSet found;
  EXPECT_EQ(redaction.Clean(slashes, found), 1u) << slashes;
}

TEST(Redaction, ALineOfPgpassIsFound) {
  std::string text = "see:\ndb.example.com:5432:app:ada:correcthorse\n";
  SecretSet found;
  EXPECT_EQ(Standard().Clean(text, found), 1u);
  EXPECT_EQ(text, "see:\ndb.example.com:5432:app:ada:[redacted:pgpass]\n");
}

TEST(Redaction, WhatCannotBeSearchedIsKeptOut) {
  const Redaction redaction = Standard({"(a+)+[bc]"});
  const std::string hard(64, 'a');
  std::string text = hard;
  SecretSet found;
  EXPECT_EQ(redaction.Clean(text, found), 1u);
  EXPECT_EQ(text, "[redacted:unsearchable]");
  EXPECT_TRUE(found.contains(hard));
  EXPECT_THAT(redaction.CleanName(hard), testing::StartsWith("redacted-"));
  std::vector<TokenId> ids(hard.begin(), hard.end());
  EXPECT_EQ(redaction.Tokens(ids, 10, {}, [](TokenId id) { return std::string(1, char(id)); }), 1u);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kRedactedToken), 54);
}

TEST(Redaction, OrdinaryTextStaysAsItIs) {
  const Redaction redaction = Standard();
  for (const std::string text :
       {"for (int i = 0; i < n; ++i) task-0123456789012345678901234567 += x;",
        "risk-adjusted-return-2024-of-all-portfolios", "https://example.com:8080/path?q=a@b",
        "git clone git@github.com:owner/name.git", "sk-learn is not scikit-learn",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "Authorization: Bearer $TOKEN", "-----BEGIN PUBLIC KEY-----",
        // Near each shape, and none.
        "see https://hooks.slack.com/services for more", "the prefix GOCSPX- is Google's",
        "whsec_test", "Basic understanding of authentication", "basic authentication2",
        "Authorization: Basic $CREDENTIALS", "SharedAccessKey=$KEY", "AccountKey=;EndpointSuffix=x",
        "page?sig=short", "10:AA is a time", "https://t.me/bot123", "https://discord.com/api/v10",
        "M.a.b", "SKU0123456789abcdef", "hvs.length > 0", "dapi.query(0123456789)",
        "AGE-SECRET-KEY-1", "x-api-key: $KEY", "x-api-key: <your key>", "headers['x-api-key']",
        "Cookie: theme=dark", "A cookie: flour=2 cups", "Set-Cookie: a=b; Path=/; HttpOnly",
        "{\"auth\": \"authentication\"}", "{\"auth\": {\"type\": \"http\"}}",
        "the machine has a login and a password", "docker run -u 1000:1000 debian",
        "curl -u \"$NAME:$PASSWORD\" https://example.com", "git push -u origin main:main",
        "jdbc:postgresql://db:5432/app?user=ada", "PASSWORD=", "PASSWORD=$DB_PASSWORD",
        "PASSWORD=${PASSWORD:-none}", "PASSWORD = getpass.getpass()", "API_KEY=None",
        "SECRET_KEY = os.environ[\"SECRET_KEY\"]", "SECRET_KEY = config.SECRET_KEY",
        "if PASSWORD == stored: pass", "MAX_TOKENS=4096", "PWD=/home/ada/src",
        "\"password\": \"string\"", "password = \"secret\"", "{\"password\": {\"minLength\": 8}}",
        "?password=<yours>&x=1", "--password-file=/run/secrets/db1", "key-0123456789abcdef",
        "100%25 of 2%2D3", "a\\u002db \\x41 \\/", "R&amp;D &#45; &#x2d; \\055",
        // Near the words of command lines and settings.
        "mkdir -p a1b2/c3d4", "docker run -p 8080:80 image1", "mysql -u root -p", "curl -url",
        "install --token-file=a1 --password", "PASSWORD: required", "MAX_TOKENS: 4096",
        "API_KEY: ${API_KEY}", "api_key=config.keys[0]", "file.c:12:5:error:x1",
        "_auth = request"}) {
    std::string clean = text;
    SecretSet found;
    EXPECT_EQ(redaction.Clean(clean, found), 0u) << clean;
    EXPECT_EQ(clean, text);
  }
}

TEST(Redaction, APatternOfOnesOwnIsUsedAndAWrongOneIsNamed) {
  std::string text = "patient P-123456 was seen";
  SecretSet found;
  EXPECT_EQ(Standard({"P-[0-9]{6}"}).Clean(text, found), 1u);
  EXPECT_EQ(text, "patient [redacted:pattern-0] was seen");
  EXPECT_THAT(Redaction::Make({"ok", "(open"}).status().message(), HasSubstr("live.redact[1]"));
  EXPECT_THAT(Redaction::Make({"x*"}).status().message(), HasSubstr("empty text"));
}

class RedactedWorld : public testing::Test {
 protected:
  static LiveOptions Options() {
    LiveOptions options;
    options.redaction = std::make_shared<const Redaction>(Standard());
    return options;
  }
  std::string Text(const std::vector<TokenId>& ids) const {
    std::string text;
    for (const TokenId id : ids) text += policy_.tokenizer.TokenBytes(id);
    return text;
  }

  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  LiveWorld world_{policy_, Options()};
  const std::string secret_ = "sk-" + std::string("ant-api03-abcdefghijklmnop0123456789");
};

TEST_F(RedactedWorld, TheModelIsShownWhatTheClientSendsAndTheStoreIsNot) {
  WireJson messages = WireJson::array({UserMessage("hello")});
  messages.push_back(world_.Say(world_.Ask(RequestOf(messages)), "before"));
  messages.push_back(UserMessage("my key is " + secret_));
  messages.push_back(world_.Say(world_.Ask(RequestOf(messages)), "I keep " + secret_ + " safe"));
  messages.push_back(UserMessage("go on"));
  world_.Restart();
  const Asked asked = world_.Ask(RequestOf(messages));
  const std::string shown = Text(asked.prompt.prompts[0]);
  EXPECT_THAT(shown, HasSubstr("my key is " + secret_ + "<|im_end|>"));
  EXPECT_THAT(shown, HasSubstr("I keep " + secret_ + " safe<|im_end|>"));
  EXPECT_THAT(shown, Not(HasSubstr(kRedactedMark)));
  world_.Say(asked, "after");
  world_.CloseAll();
  ASSERT_EQ(world_.store.sessions.size(), 1u) << "the conversation is one session";
  const auto& turns = world_.store.turns.begin()->second;
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].redacted(), 0u);
  EXPECT_EQ(world_.recorder->counters().trained,
            static_cast<uint64_t>(turns[0].answer().ids_size()));
  EXPECT_EQ(world_.recorder->counters().secret,
            static_cast<uint64_t>(turns[1].answer().ids_size() + turns[2].answer().ids_size()));
}

TEST_F(RedactedWorld, ASecretThatBeginsInThePromptAndEndsInTheAnswerIsWhole) {
  ChatRequest request = RequestOf(WireJson::array());
  request.api = Api::kCompletions;
  request.prompts = {{"complete: " + secret_.substr(0, 30), {}}};
  const Asked asked = world_.Ask(request);
  const std::string rest = secret_.substr(30);
  EXPECT_TRUE(world_.Answer(asked, DrawIds(policy_, rest, world_.random), nullptr).ok());
  const v1::SessionTurn& turn = world_.store.turns.begin()->second.at(0);
  EXPECT_TRUE(turn.output_redacted());
  std::vector<TokenId> ids(turn.prompt_ids().begin(), turn.prompt_ids().end());
  ids.insert(ids.end(), turn.answer().ids().begin(), turn.answer().ids().end());
  EXPECT_THAT(Text(ids), Not(HasSubstr(secret_.substr(12, 6))));
  EXPECT_THAT(Text(ids), Not(HasSubstr(rest)));
}

TEST_F(RedactedWorld, ANameThatIsASecretIsNotStored) {
  const std::map<std::string, std::string> headers = {{"x-session-id", secret_},
                                                      {"user-agent", secret_}};
  world_.Say(world_.Ask(RequestOf(WireJson::array({UserMessage("a")})), headers), "x");
  world_.Say(world_.Ask(RequestOf(WireJson::array({UserMessage("b")})), headers), "y");
  ASSERT_EQ(world_.store.sessions.size(), 1u) << "it names the same session all the same";
  EXPECT_THAT(world_.store.sessions.begin()->second.DebugString(),
              Not(HasSubstr(secret_.substr(8))));
}

// Conversations with secrets in every place a client or the model can put one, on disk.
class SecretsOnDisk : public testing::TestWithParam<uint64_t> {
 protected:
  // Text with a secret in it, now and then.
  std::string Words() {
    std::string text = "word " + std::to_string(random_.Below(1000)) + " ";
    if (!random_.Chance(0.4)) return text;
    const std::vector<std::string> some = SomeSecrets(random_);
    planted_.push_back(some[random_.Below(some.size())]);
    return text + planted_.back() + (random_.Chance(0.5) ? " end" : "\nend");
  }
  WireJson Call() {
    return {{"name", "bash"}, {"arguments", {{"command", Words()}, {Words(), 1}}}};
  }

  void Talk(LiveRun& run) {
    WireJson messages = WireJson::array({UserMessage(Words())});
    for (int turn = 0; turn < 5; ++turn) {
      const ChatRequest request = RequestOf(messages, true);
      const Tenant tenant{.name = "t", .consent = Consent::kTrain};
      const std::map<std::string, std::string> headers = {{"x-session-id", Words()}};
      auto prompt = run.Prepare({.request = request,
                                 .tenant = tenant,
                                 .headers = headers,
                                 .request_id = "r",
                                 .body_sha256 = Sha256Hex(messages.dump()),
                                 .wall_ms = clock_.WallMs()});
      ASSERT_TRUE(prompt.ok()) << prompt.status().message();
      std::string text = "<think>\n" + Words() + "\n</think>\n\n" + Words();
      if (random_.Chance(0.5)) text += "\n<tool_call>\n" + Call().dump() + "\n</tool_call>";
      const WireJson message = ReadMessage(policy_, text);
      std::promise<Status> stored;
      run.Finished(
          LiveWorld::Turn({*prompt, Ok()}, DrawIds(policy_, text, random_), message, {}, 0),
          [&](Status status) { stored.set_value(std::move(status)); });
      ASSERT_TRUE(stored.get_future().get().ok());
      messages.push_back(message);
      messages.push_back(random_.Chance(0.5) ? UserMessage(Words())
                                             : WireJson{{"role", "tool"}, {"content", Words()}});
    }
  }

  std::string EverythingStored(const std::string& folder) const {
    std::string all;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path(), std::ios::binary);
      std::stringstream bytes;
      bytes << in.rdbuf();
      all += bytes.str();
    }
    // The bodies are compressed: what they say, and what their ids say.
    const auto reader = SessionReader::Open(folder + "/run.db");
    TM_CHECK(reader.ok(), reader.status().message());
    const auto rows = (*reader)->List({}, 1000);
    for (const SessionRow& row : *rows) {
      const auto stored = (*reader)->Read(row.session.number());
      all += stored->session.DebugString();
      for (const v1::SessionTurn& turn : stored->turns) {
        all += turn.SerializeAsString();
        for (const auto* ids : {&turn.prompt_ids(), &turn.answer().ids()}) {
          all += "\n";
          for (const uint32_t id : *ids) {
            all += policy_.tokenizer.TokenBytes(static_cast<TokenId>(id));
          }
        }
      }
    }
    return all;
  }

  TemporaryDirectory dir_;
  RealClock clock_;
  Random random_{GetParam()};
  ServedPolicy policy_ = TestPolicy(kTestTemplate);
  std::vector<std::string> planted_;
};

TEST_P(SecretsOnDisk, NoneIsThere) {
  LiveOptions options;
  options.redaction = std::make_shared<const Redaction>(Standard());
  for (int process = 0; process < 2; ++process) {
    auto run = LiveRun::Open(dir_.path(), "r", "", policy_, clock_, options);
    ASSERT_TRUE(run.ok()) << run.status().message();
    for (int i = 0; i < 3; ++i) Talk(**run);
    if (process == 0) continue;
    const std::string all = EverythingStored(dir_ / "r");  // with the log of a run that goes on
    ASSERT_GT(planted_.size(), 10u);
    EXPECT_THAT(all, HasSubstr("word ")) << "the search sees what is stored";
    for (const std::string& secret : planted_) {
      // A part from its middle; the beginning may be what gives its kind away.
      const std::string part = secret.substr(secret.size() / 2, 10);
      EXPECT_EQ(all.find(part), std::string::npos) << "seed " << GetParam() << ": " << secret;
      const WireJson escaped = part;
      EXPECT_EQ(all.find(escaped.dump().substr(1, part.size())), std::string::npos);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SecretsOnDisk, testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace tidemill
