// tidemill dead: the messages of a run on its broker that could not be delivered or understood.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "bus/broker.h"
#include "cli/commands.h"
#include "core/text.h"
#include "observe/message_json.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kAll = 1 << 20;  // more than the dead letters of a run can be

struct DeadArguments {
  std::string url, run, topic;
  std::vector<std::string> ids;
  size_t limit = 100;
  bool all = false, json = false;
};

std::string TimeText(int64_t ms) {
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &parts);
  return text;
}

Json LetterJson(const DeadLetterEntry& letter) {
  return {{"id", letter.id},
          {"topic", letter.topic},
          {"reason", letter.reason},
          {"deliveries", letter.deliveries},
          {"died", TimeText(letter.died_ms)},
          {"died_ms", letter.died_ms},
          {"bytes", letter.body.size()}};
}

// The letter with its message, or why that cannot be shown.
Json WholeLetterJson(const DeadLetterEntry& letter) {
  Json json = LetterJson(letter);
  json["message"] = MessageOfTopic(letter.topic);
  if (!letter.body_ref.empty() && letter.body.empty()) {
    json["unreadable"] = "the body is not on the server: " + letter.body_ref;
    return json;
  }
  Result<Json> body = DecodeMessage(letter.topic, letter.body);
  if (body.ok()) {
    json["body"] = std::move(*body);
  } else {
    json["unreadable"] = body.status().message();
  }
  return json;
}

int List(RunInspector& inspector, const DeadArguments& arguments) {
  const Result<std::vector<DeadLetterEntry>> letters =
      inspector.DeadLetters(arguments.run, {.topic = arguments.topic, .limit = arguments.limit});
  if (!letters.ok()) return Fail(letters.status());
  if (arguments.json) {
    Json list = Json::array();
    for (const DeadLetterEntry& letter : *letters) list.push_back(LetterJson(letter));
    PrintJson({{"run", arguments.run}, {"letters", list}});
    return 0;
  }
  if (letters->empty()) {
    std::printf("no dead letters\n");
    return 0;
  }
  std::printf("%-22s %-20s %-24s %10s  %s\n", "ID", "DIED", "TOPIC", "DELIVERIES", "REASON");
  for (const DeadLetterEntry& letter : *letters) {
    std::printf("%-22s %-20s %-24s %10u  %s\n", letter.id.c_str(), TimeText(letter.died_ms).c_str(),
                ForTerminal(letter.topic).c_str(), letter.deliveries,
                ForTerminal(letter.reason).c_str());
  }
  if (letters->size() == arguments.limit) {
    std::printf("showing the first %zu; use --limit for more\n", arguments.limit);
  }
  return 0;
}

int Show(RunInspector& inspector, const DeadArguments& arguments) {
  Json list = Json::array();
  for (const std::string& id : arguments.ids) {
    const Result<DeadLetterEntry> letter = inspector.DeadLetter(arguments.run, id);
    if (!letter.ok()) return Fail(letter.status());
    list.push_back(WholeLetterJson(*letter));
  }
  if (arguments.json) {
    PrintJson({{"run", arguments.run}, {"letters", list}});
  } else {
    for (const Json& letter : list) {
      const std::string text = letter.dump(2, ' ', false, Json::error_handler_t::replace);
      std::printf("%s\n", ForTerminal(text).c_str());
    }
  }
  return 0;
}

// Retries or drops the letters named, or all of them (of a topic).
int End(RunInspector& inspector, const DeadArguments& arguments, bool retry) {
  std::vector<std::string> ids = arguments.ids;
  if (arguments.all == !ids.empty()) {
    return Fail(Invalid("give the ids of dead letters, or --all"));
  }
  if (arguments.all) {
    const Result<std::vector<DeadLetterEntry>> letters =
        inspector.DeadLetters(arguments.run, {.topic = arguments.topic, .limit = kAll});
    if (!letters.ok()) return Fail(letters.status());
    for (const DeadLetterEntry& letter : *letters) ids.push_back(letter.id);
  }
  size_t done = 0;
  Json failed = Json::array();
  for (const std::string& id : ids) {
    const Status ended =
        retry ? inspector.Retry(arguments.run, id) : inspector.Drop(arguments.run, id);
    if (ended.code() == Code::kInvalid || ended.code() == Code::kUnavailable) return Fail(ended);
    if (ended.ok()) {
      ++done;
      continue;
    }
    failed.push_back({{"id", id}, {"why", ended.message()}});
    Fail(ended);
  }
  const char* word = retry ? "retried" : "dropped";
  if (arguments.json) {
    PrintJson({{"run", arguments.run}, {word, done}, {"failed", failed}});
  } else {
    std::printf("%zu %s\n", done, word);
  }
  return failed.empty() ? 0 : 1;
}

int RunDead(const std::string& word, const DeadArguments& arguments) {
  const Result<std::unique_ptr<RunInspector>> connected = ConnectInspector(arguments.url);
  if (!connected.ok()) return Fail(connected.status());
  RunInspector& inspector = **connected;
  if (const Status there = inspector.CheckRun(arguments.run); !there.ok()) return Fail(there);
  if (word == "list") return List(inspector, arguments);
  if (word == "show") return Show(inspector, arguments);
  return End(inspector, arguments, word == "retry");
}

}  // namespace

void AddDeadCommand(CLI::App& app, Exit& exit) {
  CLI::App* dead = app.add_subcommand(
      "dead", "Dead letters: messages of a run on its broker that could not be processed");
  dead->require_subcommand(1);
  auto arguments = std::make_shared<DeadArguments>();
  const auto add = [&](const std::string& word, const char* what) {
    CLI::App* command = dead->add_subcommand(word, what);
    command->add_option("--bus", arguments->url, kBusUrlForm)->envname(kBusVariable)->required();
    command->add_option("--run", arguments->run, "Name of the run; default: TIDEMILL_RUN")
        ->envname(kRunVariable)
        ->required();
    command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
    command->callback([word, arguments, &exit] { exit.code = RunDead(word, *arguments); });
    return command;
  };
  CLI::App* list = add("list", "List dead letters, oldest first");
  list->add_option("--topic", arguments->topic, "Only dead letters of this topic");
  list->add_option("--limit", arguments->limit, "Maximum number to show")
      ->check(CLI::Range(size_t{1}, kAll))
      ->capture_default_str();
  add("show", "Show dead letters with their decoded messages")
      ->add_option("id", arguments->ids, "Ids as shown by list")
      ->required();
  for (const bool retry : {true, false}) {
    CLI::App* end = retry ? add("retry", "Publish messages again on their topics")
                          : add("drop", "Delete dead letters");
    end->add_option("id", arguments->ids, "Ids as shown by list");
    end->add_flag("--all", arguments->all, "All dead letters");
    end->add_option("--topic", arguments->topic, "With --all: only dead letters of this topic");
  }
}

}  // namespace tidemill
