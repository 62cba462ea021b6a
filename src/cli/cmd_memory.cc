// tidemill memory list|show|search|delete|export: the cases of a run.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/clock.h"
#include "core/text.h"
#include "memory/case_bank.h"
#include "run/run_path.h"
#include "store/case_reader.h"
#include "store/run_db.h"
#include "store/run_directory.h"

namespace tidemill {
namespace {

using MemoryJson = nlohmann::ordered_json;

struct MemoryArguments {
  std::string folder = "runs";
  std::string run, scope, text, out;
  uint64_t number = 0;
  size_t limit = 20;
  EraseCases erased;
  bool json = false;
};

Result<std::vector<CasesState::Learned>> CasesOf(const MemoryArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToRead(folder, name));
  return ReadCases(directory.db_path());
}

// All cases of the run: what is stored is never forgotten, only no longer shown.
std::unique_ptr<const CaseBank> BankOf(const std::vector<CasesState::Learned>& cases) {
  auto bank = std::make_unique<CaseBank>(MemoryConfig{.capacity = UINT32_MAX});
  for (const CasesState::Learned& one : cases) bank->Apply(one.number, one.record);
  return bank;
}

MemoryJson CaseJson(uint64_t number, const Case& one, const CaseBank& bank) {
  const CaseValues::Interval worth = bank.values().Worth(number);
  const CaseWorth* uses = bank.values().Find(number);
  return {{"number", number},
          {"scope", one.record.scope()},
          {"task", one.record.id().task()},
          {"prompt", one.record.prompt()},
          {"answer", one.record.answer()},
          {"solved", one.record.solved()},
          {"reward", one.record.reward()},
          {"copies", one.copies},
          {"at_ms", one.record.at_ms()},
          {"newest_ms", one.newest_ms},
          {"shown", uses != nullptr ? uses->shown : 0},
          {"shown_solved", uses != nullptr ? uses->shown_solved : 0},
          {"worth", worth.mean},
          {"worth_half", worth.half},
          {"outdated", one.newest <= one.void_until}};
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return ForTerminal(Beginning(text, 60));
}

void PrintCase(uint64_t number, const Case& one, const CaseBank& bank, bool json) {
  if (json) {
    PrintJson(CaseJson(number, one, bank));
    return;
  }
  const CaseValues::Interval worth = bank.values().Worth(number);
  const CaseWorth* uses = bank.values().Find(number);
  std::printf("%6llu  %-6s  x%-4llu  shown %-5llu  worth %+.2f ±%.2f  %s => %s\n",
              static_cast<unsigned long long>(number), one.record.solved() ? "right" : "failed",
              static_cast<unsigned long long>(one.copies),
              static_cast<unsigned long long>(uses != nullptr ? uses->shown : 0), worth.mean,
              worth.half, OneLine(one.record.prompt()).c_str(),
              OneLine(one.record.answer()).c_str());
}

int ListCases(const MemoryArguments& arguments) {
  const auto cases = CasesOf(arguments);
  if (!cases.ok()) return Fail(cases.status());
  const std::unique_ptr<const CaseBank> made = BankOf(*cases);
  const CaseBank& bank = *made;
  size_t shown = 0;
  for (auto it = bank.cases().rbegin(); it != bank.cases().rend() && shown < arguments.limit;
       ++it) {
    if (!arguments.scope.empty() && it->second.record.scope() != arguments.scope) continue;
    PrintCase(it->first, it->second, bank, arguments.json);
    ++shown;
  }
  if (!arguments.json) {
    std::printf("%zu cases from %zu episodes\n", bank.cases().size(), cases->size());
  }
  return 0;
}

int ShowCase(const MemoryArguments& arguments) {
  const auto cases = CasesOf(arguments);
  if (!cases.ok()) return Fail(cases.status());
  const std::unique_ptr<const CaseBank> made = BankOf(*cases);
  const CaseBank& bank = *made;
  const Case* one = bank.Find(arguments.number);
  if (one == nullptr) {
    return Fail(NotFound("no case " + std::to_string(arguments.number) +
                         ": it was never there, was erased, or is a copy of another"));
  }
  PrintCase(arguments.number, *one, bank, arguments.json);
  if (arguments.json) return 0;
  std::printf("\n%s\n\n%s\n", Shown(one->record.prompt()).c_str(),
              Shown(one->record.answer()).c_str());
  for (const v1::ToolNote& tool : one->record.tools()) {
    std::printf("turn %u: %s %s: %s\n", tool.turn(), Shown(tool.tool()).c_str(),
                Shown(tool.arguments_json()).c_str(), OneLine(tool.text()).c_str());
  }
  return 0;
}

int SearchCases(const MemoryArguments& arguments) {
  const auto cases = CasesOf(arguments);
  if (!cases.ok()) return Fail(cases.status());
  const std::unique_ptr<const CaseBank> made = BankOf(*cases);
  const CaseBank& bank = *made;
  const auto found = bank.Choose({.scope = arguments.scope, .prompt = arguments.text},
                                 {.how = Retrieval::kLexical, .cases = arguments.limit});
  for (const uint64_t number : found[0]) {
    PrintCase(number, *bank.Find(number), bank, arguments.json);
  }
  return 0;
}

Status DeleteCases(const MemoryArguments& arguments) {
  const auto [folder, name] = SplitRunPath(arguments.run, arguments.folder);
  // A run that is going on holds its cases in memory: it must end first.
  TM_ASSIGN_OR_RETURN(const RunDirectory directory, RunDirectory::OpenToResume(folder, name));
  const RealClock clock;
  TM_ASSIGN_OR_RETURN(const std::unique_ptr<RunDb> db, RunDb::Open(directory.db_path(), clock));
  TM_RETURN_IF_ERROR(db->ApplyOne(arguments.erased));
  return db->Compact();
}

int ExportCases(const MemoryArguments& arguments) {
  const auto cases = CasesOf(arguments);
  if (!cases.ok()) return Fail(cases.status());
  const std::unique_ptr<const CaseBank> made = BankOf(*cases);
  const CaseBank& bank = *made;
  std::ofstream file(arguments.out, std::ios::binary | std::ios::trunc);
  for (const auto& [number, one] : bank.cases()) {
    file << CaseJson(number, one, bank).dump(-1, ' ', false, MemoryJson::error_handler_t::replace)
         << '\n';
  }
  file.flush();
  if (!file) return Fail(Unavailable(arguments.out + ": cannot write it"));
  std::printf("%s: %zu cases\n", arguments.out.c_str(), bank.cases().size());
  return 0;
}

CLI::App* AddOne(CLI::App& memory, const char* name, const char* doc, MemoryArguments& arguments) {
  CLI::App* command = memory.add_subcommand(name, doc);
  command->add_option("RUN", arguments.run, "Run name, or path of its directory")->required();
  command->add_option("--folder", arguments.folder, "Folder of the runs")->capture_default_str();
  return command;
}

void AddDelete(CLI::App& memory, MemoryArguments& a, Exit& exit) {
  CLI::App* command = AddOne(
      memory, "delete", "Erase cases of a run that is not running, by where they came from", a);
  command->add_option("--number", a.erased.number, "One case");
  command->add_option("--scope", a.erased.scope, "Cases of a scope");
  command->add_option("--tenant", a.erased.tenant, "Cases of a tenant's sessions");
  command->add_option("--session", a.erased.session, "Cases of a session");
  command->add_option("--task", a.erased.task, "Cases of a task");
  command->callback([&a, &exit] {
    const Status status = DeleteCases(a);
    if (!status.ok()) exit.code = Fail(status);
  });
}

}  // namespace

void AddMemoryCommand(CLI::App& app, Exit& exit) {
  CLI::App* memory = app.add_subcommand("memory", "The cases a run has learned");
  memory->require_subcommand(1);
  // Shared: the options write to it, the callbacks read it, and both outlive this function.
  auto shared = std::make_shared<MemoryArguments>();
  MemoryArguments& a = *shared;
  CLI::App* list = AddOne(*memory, "list", "The newest cases with what they were worth", a);
  CLI::App* show = AddOne(*memory, "show", "One case in full", a);
  CLI::App* search = AddOne(*memory, "search", "Cases that share words with a text", a);
  CLI::App* out = AddOne(*memory, "export", "All cases as JSONL", a);
  AddDelete(*memory, a, exit);
  for (CLI::App* command : {list, search}) {
    command->add_option("--scope", a.scope, "Cases of this scope");
    command->add_option("--limit", a.limit, "Cases at most")->capture_default_str();
  }
  for (CLI::App* command : {list, show, search}) {
    command->add_flag("--json", a.json, "Print a JSON object per line");
  }
  show->add_option("NUMBER", a.number, "Number of the case")->required();
  search->add_option("TEXT", a.text, "Words to look for")->required();
  out->add_option("--out", a.out, "Output file (JSONL)")->required();
  list->callback([shared, &exit] { exit.code = ListCases(*shared); });
  show->callback([shared, &exit] { exit.code = ShowCase(*shared); });
  search->callback([shared, &exit] { exit.code = SearchCases(*shared); });
  out->callback([shared, &exit] { exit.code = ExportCases(*shared); });
}

}  // namespace tidemill
