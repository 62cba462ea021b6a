// tidemill runs: what runs there are, how they went, and what their episodes looked like.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "cli/commands.h"
#include "cli/runs_compare.h"
#include "cli/runs_export.h"
#include "cli/transcript.h"
#include "conversation/model_template.h"
#include "core/fate.h"
#include "core/text.h"
#include "model/tokenizer.h"
#include "run/run_config.h"
#include "run/run_path.h"
#include "run/run_summary.h"
#include "store/run_directory.h"
#include "store/run_notes.h"
#include "store/run_reader.h"

namespace tidemill {
namespace {

using Json = nlohmann::ordered_json;

struct RunsArguments {
  std::string folder = "runs";
  std::string run;
  std::string other;
  uint32_t worst = 0, best = 0, newest = 0;
  std::string task, eval, out, purpose, fate, format = "records";
  double min_reward = -1e300;
  uint64_t offset = 0, limit = 0;
  std::vector<std::string> tags, untags;
  std::optional<std::string> note;
  bool solved = false;
  bool json = false;
};

Json SummaryOf(const RunDirectory& directory, bool writing) {
  const Result<std::string> text = SummaryNow(directory, writing);
  if (!text.ok()) return Json::object();
  Json json = Json::parse(*text, nullptr, false);
  return json.is_object() ? json : Json::object();
}

// "75.4 %"; of an evaluation that goes on or was stopped there is no rate yet.
std::string RateOf(const Json& summary, const char* eval) {
  if (!summary.contains("eval") || !summary["eval"].contains(eval)) return "-";
  const Json& one = summary["eval"][eval];
  if (!one.value("complete", true)) return "partial";
  if (!one.contains("pass_rate") || !one["pass_rate"].is_number()) return "unscored";
  return fmt::format("{:.1f} %", 100 * one["pass_rate"].get<double>());
}

int List(const RunsArguments& arguments) {
  const bool given = arguments.folder != RunsArguments().folder;
  if (given && !std::filesystem::is_directory(arguments.folder))
    return Fail(NotFound(arguments.folder + ": no such folder"));
  const Result<std::vector<RunInfo>> runs = RunDirectory::List(arguments.folder);
  if (!runs.ok()) return Fail(runs.status());
  Json list = Json::array();
  if (!arguments.json) {
    std::printf("%-24s %-12s %8s %9s %9s %9s  %s\n", "run", "state", "steps", "episodes", "before",
                "after", "tags");
  }
  for (const RunInfo& info : *runs) {
    const Result<RunDirectory> directory = RunDirectory::OpenToRead(arguments.folder, info.name);
    if (!directory.ok()) continue;
    const Json summary = SummaryOf(*directory, info.writing);
    const std::string state = info.writing ? "running" : summary.value("status", "unreadable");
    const Result<RunNotes> read = ReadRunNotes(directory->path());
    const RunNotes notes = read.ok() ? *read : RunNotes{};
    const auto has = [&](const std::string& tag) {
      return std::find(notes.tags.begin(), notes.tags.end(), tag) != notes.tags.end();
    };
    if (!std::all_of(arguments.tags.begin(), arguments.tags.end(), has)) continue;
    if (arguments.json) {
      list.push_back({{"run", info.name},
                      {"state", state},
                      {"tags", notes.tags},
                      {"note", notes.note},
                      {"summary", summary}});
      continue;
    }
    std::printf("%-24s %-12s %8d %9d %9s %9s  %s\n", info.name.c_str(), state.c_str(),
                summary.value("steps", 0), summary.value("episodes", 0),
                RateOf(summary, "before").c_str(), RateOf(summary, "after").c_str(),
                ForTerminal(fmt::format("{}", fmt::join(notes.tags, " "))).c_str());
  }
  if (arguments.json) PrintJson({{"runs", list}});
  return 0;
}

// Changes what is given and shows what there is then.
int Note(const RunsArguments& arguments) {
  const Result<RunDirectory> directory = RunDirectory::OpenToRead(arguments.folder, arguments.run);
  if (!directory.ok()) return Fail(directory.status());
  Result<RunNotes> notes = ReadRunNotes(directory->path());
  if (!notes.ok()) return Fail(notes.status());
  for (const std::string& tag : arguments.untags) {
    if (std::erase(notes->tags, tag) == 0) {
      return Fail(Invalid("run " + arguments.run + " has no tag \"" + tag + "\""));
    }
  }
  notes->tags.insert(notes->tags.end(), arguments.tags.begin(), arguments.tags.end());
  if (arguments.note) notes->note = *arguments.note;
  if (!arguments.tags.empty() || !arguments.untags.empty() || arguments.note) {
    if (const Status status = WriteRunNotes(directory->path(), *notes); !status.ok()) {
      return Fail(status);
    }
    notes = ReadRunNotes(directory->path());
    if (!notes.ok()) return Fail(notes.status());
  }
  if (arguments.json) {
    PrintJson({{"run", arguments.run}, {"tags", notes->tags}, {"note", notes->note}});
  } else {
    std::printf("tags: %s\n%s%s", fmt::format("{}", fmt::join(notes->tags, " ")).c_str(),
                ForTerminal(notes->note).c_str(), notes->note.empty() ? "" : "\n");
  }
  return 0;
}

int Show(const RunsArguments& arguments) {
  const Result<RunDirectory> directory = RunDirectory::OpenToRead(arguments.folder, arguments.run);
  if (!directory.ok()) return Fail(directory.status());
  bool writing = false;
  const Result<std::vector<RunInfo>> runs = RunDirectory::List(arguments.folder);
  if (!runs.ok()) return Fail(runs.status());
  for (const RunInfo& info : *runs)
    writing = writing || (info.name == arguments.run && info.writing);
  const Result<std::string> summary = SummaryNow(*directory, writing);
  if (!summary.ok()) return Fail(summary.status());
  std::fputs(arguments.json ? summary->c_str() : ForTerminal(SummaryText(*summary)).c_str(),
             stdout);
  return 0;
}

// Where the tokenizer of the run's policy is; nothing: the run's config cannot be read.
std::optional<std::string> TokenizerPathOf(const RunDirectory& directory) {
  RunConfig config;
  Binder binder;
  BindRunConfig(config, binder);
  if (!binder.LoadFile(directory.config_path()).ok()) return std::nullopt;
  return config.model.tokenizer_path();
}

// With the tokenizer of the run's policy; without it ids are shown.
TextOfIds TextOfRun(const RunDirectory& directory) {
  if (const auto path = TokenizerPathOf(directory)) {
    Result<Tokenizer> tokenizer = Tokenizer::Read(*path);
    if (tokenizer.ok()) {
      return
          [tokenizer = *tokenizer](std::span<const int32_t> ids) { return tokenizer.Decode(ids); };
    }
  }
  return [](std::span<const int32_t> ids) { return fmt::format("{}", fmt::join(ids, " ")); };
}

// Nothing: there is no tokenizer, and so no text.
std::optional<ConversationReader> ConversationsOf(const RunDirectory& directory) {
  const auto path = TokenizerPathOf(directory);
  if (!path) return std::nullopt;
  const Result<Tokenizer> tokenizer = Tokenizer::Read(*path);
  if (!tokenizer.ok()) return std::nullopt;
  const Result<ModelTemplate> chat = ReadModelTemplate(*path);
  const bool known = chat.ok() && !chat->fallback;
  return ConversationReader(*tokenizer, known ? chat->chat.source() : std::string_view());
}

// kNotFound: the run has no evaluation, or no episode of a task, of that name. A name that was
// mistyped must not look like episodes that are not there.
Status CheckNames(RunReader& reader, const RunsArguments& arguments) {
  if (!arguments.eval.empty()) {
    TM_ASSIGN_OR_RETURN(const std::vector<EvalResult> evals, reader.Evals());
    std::vector<std::string> names;
    for (const EvalResult& eval : evals) names.push_back(eval.eval_name);
    if (std::find(names.begin(), names.end(), arguments.eval) == names.end()) {
      return NotFound(
          fmt::format("run {} has no evaluation \"{}\"; it has {}", arguments.run, arguments.eval,
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
  }
  if (arguments.task.empty()) return Ok();
  EpisodeFilter filter;
  filter.task = arguments.task;
  TM_ASSIGN_OR_RETURN(const EpisodePage page,
                      reader.Episodes(filter, EpisodeSort::kNewest, {0, 1}));
  if (page.total > 0) return Ok();
  return NotFound(
      fmt::format("run {} has no episode of task \"{}\"", arguments.run, arguments.task));
}

int Episodes(const RunsArguments& arguments) {
  const Result<RunDirectory> directory = RunDirectory::OpenToRead(arguments.folder, arguments.run);
  if (!directory.ok()) return Fail(directory.status());
  const auto reader = RunReader::Open(directory->db_path());
  if (!reader.ok()) return Fail(reader.status());
  if (const Status known = CheckNames(**reader, arguments); !known.ok()) return Fail(known);
  EpisodeFilter filter;
  if (!arguments.task.empty()) filter.task = arguments.task;
  if (!arguments.eval.empty()) filter.eval_name = arguments.eval;
  EpisodeSort sort = EpisodeSort::kNewest;
  uint32_t count = arguments.newest;
  if (arguments.worst > 0) sort = EpisodeSort::kWorst, count = arguments.worst;
  if (arguments.best > 0) sort = EpisodeSort::kBest, count = arguments.best;
  const Result<EpisodePage> page = (*reader)->Episodes(filter, sort, {0, count == 0 ? 5 : count});
  if (!page.ok()) return Fail(page.status());
  const TextOfIds text_of = TextOfRun(*directory);
  Json list = Json::array();
  for (const EpisodeRow& row : page->rows) {
    const Result<EpisodeDetail> episode = (*reader)->Episode(row.group, row.member);
    if (!episode.ok()) return Fail(episode.status());
    const std::string text = TranscriptText(*episode, text_of);
    if (!arguments.json)
      std::printf("%s\n", ForTerminal(text).c_str());
    else
      list.push_back({{"task", row.task},
                      {"group", row.group},
                      {"member", row.member},
                      {"reward", row.reward ? Json(*row.reward) : Json()},
                      {"transcript", text}});
  }
  if (arguments.json) {
    const Json json = {{"total", page->total}, {"episodes", list}};
    PrintJson(json);
  } else {
    std::printf("%zu of %lu episodes\n", page->rows.size(), page->total);
  }
  return 0;
}

int Export(const RunsArguments& arguments) {
  const Result<RunDirectory> directory = RunDirectory::OpenToRead(arguments.folder, arguments.run);
  if (!directory.ok()) return Fail(directory.status());
  const auto reader = RunReader::Open(directory->db_path());
  if (!reader.ok()) return Fail(reader.status());
  if (const Status known = CheckNames(**reader, arguments); !known.ok()) return Fail(known);
  ExportOptions options;
  options.run = arguments.run;
  options.out = arguments.out;
  const Result<ExportFormat> format = ParseExportFormat(arguments.format);
  if (!format.ok()) return Wrong(format.status());
  options.format = *format;
  options.offset = arguments.offset;
  options.limit = arguments.limit;
  EpisodeFilter& filter = options.filter;
  if (!arguments.task.empty()) filter.task = arguments.task;
  if (!arguments.eval.empty()) filter.eval_name = arguments.eval;
  if (!arguments.fate.empty()) filter.fate = FateNamed(arguments.fate);
  if (!arguments.purpose.empty())
    filter.purpose = arguments.purpose == "eval" ? v1::PURPOSE_EVAL : v1::PURPOSE_TRAIN;
  if (arguments.solved) filter.solved = true;
  if (arguments.min_reward > -1e300) filter.reward_min = arguments.min_reward;
  const std::optional<ConversationReader> conversations = ConversationsOf(*directory);
  const Result<ExportCounts> written =
      ExportEpisodes(**reader, options, conversations ? &*conversations : nullptr);
  if (!written.ok()) return Fail(written.status());
  if (arguments.json)
    PrintJson({{"out", arguments.out},
               {"episodes", written->episodes},
               {"sequences", written->sequences}});
  else
    std::printf("%s: %lu episodes in %lu sequences\n", arguments.out.c_str(), written->episodes,
                written->sequences);
  return 0;
}

int Compare(const RunsArguments& arguments) {
  Json both[2];
  const auto [folder, other] = SplitRunPath(arguments.other, arguments.folder);
  std::string names[2] = {arguments.run, other};
  const std::string folders[2] = {arguments.folder, folder};
  for (int i = 0; i < 2; ++i) {
    const Result<RunDirectory> directory = RunDirectory::OpenToRead(folders[i], names[i]);
    if (!directory.ok()) return Fail(directory.status());
    Result<Json> compared = ComparedRun(*directory);
    if (!compared.ok()) return Fail(compared.status());
    both[i] = std::move(*compared);
  }
  // Two runs of one name are told apart by their folders.
  if (names[0] == names[1] && folders[0] != folders[1]) {
    for (int i = 0; i < 2; ++i) both[i]["run"] = names[i] = folders[i] + "/" + names[i];
  }
  if (arguments.json) {
    PrintJson({{names[0], both[0]}, {names[1], both[1]}});
  } else {
    std::fputs(ForTerminal(CompareText(both[0], both[1])).c_str(), stdout);
  }
  return 0;
}

// `arguments` must outlive the words of the command.
void AddExportOptions(CLI::App& exported, RunsArguments& arguments) {
  exported.add_option("run", arguments.run, "Run, name or folder")->required();
  exported
      .add_option("--out", arguments.out,
                  "FILE.jsonl, or FILE.jsonl.zst to compress it; FILE.parquet")
      ->required();
  exported
      .add_option("--format", arguments.format,
                  "records (every field), openai, sharegpt, atif or parquet")
      ->capture_default_str();
  exported.add_option("--task", arguments.task, "Only this task");
  exported.add_option("--eval", arguments.eval,
                      "Only the evaluation of this name that counts, as in `runs show`");
  exported.add_option("--purpose", arguments.purpose, "Only train or only eval")
      ->check(CLI::IsMember({"train", "eval"}));
  exported.add_flag("--solved", arguments.solved, "Only episodes that solved their task");
  exported.add_option("--min-reward", arguments.min_reward,
                      "Only episodes with this reward or more");
  std::vector<std::string> fates;
  for (const FateRow& row : kFates) fates.emplace_back(row.name);
  exported.add_option("--fate", arguments.fate, "Only episodes with this fate")
      ->check(CLI::IsMember(fates));
  exported.add_option("--offset", arguments.offset, "Leave out so many of the oldest");
  exported.add_option("--limit", arguments.limit, "Write so many episodes at most; 0: all");
}

}  // namespace

void AddRunsCommand(CLI::App& app, Exit& exit) {
  CLI::App* runs = app.add_subcommand("runs", "List and inspect runs");
  runs->require_subcommand(1);
  auto arguments = std::make_shared<RunsArguments>();
  runs->add_option("--folder", arguments->folder, "Folder that holds the runs")
      ->capture_default_str();
  auto add = [&](const char* name, const char* text, int (*run)(const RunsArguments&)) {
    CLI::App* command = runs->add_subcommand(name, text);
    command->add_flag("--json", arguments->json, "Print one JSON object on standard output");
    command->callback([arguments, run, &exit] {
      if (!arguments->run.empty()) {
        std::tie(arguments->folder, arguments->run) =
            SplitRunPath(arguments->run, arguments->folder);
      }
      exit.code = run(*arguments);
    });
    command->fallthrough();
    return command;
  };
  add("list", "List all runs with pass rates before and after", List)
      ->add_option("--tag", arguments->tags, "Only runs with this tag; may be repeated")
      ->allow_extra_args(false);
  CLI::App* note = add("note", "Show or change the tags and the note of a run", Note);
  note->add_option("run", arguments->run, "Name of the run")->required();
  note->add_option("--tag", arguments->tags, "Add a tag; may be repeated")->allow_extra_args(false);
  note->add_option("--untag", arguments->untags, "Remove a tag; may be repeated")
      ->allow_extra_args(false);
  note->add_option("--note", arguments->note, "Replace the note; \"\" removes it");
  add("show", "Show the summary of a run", Show)
      ->add_option("run", arguments->run, "Run, name or folder")
      ->required();
  CLI::App* episodes = add("episodes", "Show transcripts", Episodes);
  episodes->add_option("run", arguments->run, "Run, name or folder")->required();
  episodes->add_option("--worst", arguments->worst, "Number of episodes with the lowest rewards");
  episodes->add_option("--best", arguments->best, "Number of episodes with the highest rewards");
  episodes->add_option("--newest", arguments->newest, "Number of most recent episodes");
  episodes->add_option("--task", arguments->task, "Only this task");
  episodes->add_option("--eval", arguments->eval,
                       "Only the evaluation of this name that counts, as in `runs show`");
  CLI::App* exported = add("export", "Write episodes with their tokens as JSON lines", Export);
  AddExportOptions(*exported, *arguments);
  CLI::App* compare = add("compare", "Compare two runs", Compare);
  compare->add_option("run", arguments->run, "First run, name or folder")->required();
  compare->add_option("other", arguments->other, "Second run, name or folder")->required();
}

}  // namespace tidemill
