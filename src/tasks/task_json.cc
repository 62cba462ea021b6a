#include "tasks/task_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/paths.h"
#include "tasks/object_reader.h"
#include "tasks/path_patterns.h"
#include "tasks/task_file.h"
#include "tasks/task_json_parts.h"

namespace tidemill {
namespace {

using nlohmann::json;

constexpr size_t kIdBytesMax = 200;
constexpr uint64_t kTurnsMax = 10'000;

const std::vector<std::pair<std::string, int>>& CompareWords() {
  static const std::vector<std::pair<std::string, int>> words = {
      {"trimmed", v1::Grading::COMPARE_TRIMMED}, {"exact", v1::Grading::COMPARE_EXACT}};
  return words;
}

const std::vector<std::pair<std::string, int>>& ModeWords() {
  static const std::vector<std::pair<std::string, int>> words = {
      {"process", v1::Grading::MODE_PROCESS},
      {"lines", v1::Grading::MODE_LINES},
      {"python", v1::Grading::MODE_PYTHON}};
  return words;
}

void ReadCases(ObjectReader& parent, v1::Grading& grading, std::vector<std::string>& errors) {
  const json* value = parent.Child("cases");
  if (value == nullptr) return;
  if (!value->is_array()) {
    return parent.Fail("cases", "must be an array of tests, got " + Shown(*value));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    ObjectReader reader((*value)[i], parent.PathOf("cases[" + std::to_string(i) + "]"), errors);
    if (!reader.IsObject()) continue;
    v1::TestCase& test = *grading.add_cases();
    reader.Require("expected", "what the program must print, as a string");
    reader.String("name", *test.mutable_name());
    reader.String("input", *test.mutable_input());
    reader.String("expected", *test.mutable_expected());
    reader.RefuseOthers();
    if (grading.mode() != v1::Grading::MODE_LINES && grading.mode() != v1::Grading::MODE_PYTHON) {
      continue;
    }
    // A line more or less would shift every later answer against its case.
    if (test.input().find('\n') != std::string::npos) {
      reader.Fail("input",
                  "must be one line without its end where \"mode\" is \"lines\" or \"python\"");
    }
    if (test.expected().find('\n') != std::string::npos) {
      reader.Fail("expected",
                  "must be one line without its end where \"mode\" is \"lines\" or \"python\"");
    }
  }
}

void ReadSources(ObjectReader& reader, v1::Grading& grading) {
  if (!reader.Has("sources")) {
    reader.Strings("sources", [](const std::string&) {});
    return;
  }
  grading.clear_sources();
  reader.Strings("sources", [&](std::string path) {
    if (const Status right = CheckPath(path); !right.ok()) reader.Fail("sources", right.message());
    grading.add_sources(std::move(path));
  });
}

// Code of the agent's that runs with the tests could end or patch them: only a second run that must
// not pass tells.
void CheckCommand(ObjectReader& reader, const v1::Grading& grading) {
  if (grading.run().empty()) {
    return reader.Fail("command",
                       "must name a program and its arguments, for example [\"make\", "
                       "\"check\"]");
  }
  if (grading.trusted() || !grading.canary().empty() || grading.has_harness_from()) return;
  for (const v1::File& file : grading.harness()) {
    if (IsPythonTest(file.path())) return;
  }
  reader.Fail("canary",
              "is missing: files with which the command must fail, so that a submission "
              "that ends or patches the tests is found out. \"trusted\": true where the "
              "command runs no code of the agent's");
}

// The rules for any grading that was read without mistakes of form.
void CheckGrading(ObjectReader& reader, const v1::Grading& grading, bool needs_tests) {
  if (grading.mode() == v1::Grading::MODE_COMMAND) return CheckCommand(reader, grading);
  if (!needs_tests && grading.run().empty() && grading.cases().empty()) return;
  if (grading.sources().empty()) {
    reader.Fail("sources",
                "must name at least one of the agent's files; nothing else enters the box");
  }
  if (grading.mode() == v1::Grading::MODE_PYTHON) {
    if (!grading.run().empty() || !grading.build().empty() || !grading.harness().empty()) {
      reader.Fail("mode", "\"python\" needs no harness, build or run: cases are expressions");
    } else if (grading.sources_size() > 1) {
      reader.Fail("sources", "must name one file, the module with the answer");
    }
  } else if (grading.run().empty()) {
    reader.Fail("run", "must name a program and its arguments, for example [\"./a.out\"]");
  }
  if (grading.cases().empty()) reader.Fail("cases", "must have at least one test");
  for (const v1::File& file : grading.harness()) {
    const auto& sources = grading.sources();
    if (std::find(sources.begin(), sources.end(), file.path()) != sources.end()) {
      reader.Fail("sources", "\"" + file.path() + "\" is also a file of the harness; the agent's " +
                                 "would replace it");
    }
  }
}

// {"source": "int f(int a) {..}", "function": "f", "low": -9, "high": 9}
void ReadSpecification(ObjectReader& parent, v1::Grading& grading,
                       std::vector<std::string>& errors) {
  const json* value = parent.Child("specification");
  if (value == nullptr) return;
  ObjectReader reader(*value, parent.PathOf("specification"), errors);
  if (!reader.IsObject()) return;
  v1::Specification& specification = *grading.mutable_specification();
  reader.Require("source", "C text that defines the function, as a string");
  reader.String("source", *specification.mutable_source());
  reader.String("function", *specification.mutable_function());
  const auto bound = [&](const char* name, auto set) {
    const json* number = reader.Child(name);
    if (number == nullptr) return;
    if (!number->is_number_integer()) {
      return reader.Fail(name, "must be a whole number, got " + Shown(*number));
    }
    set(number->get<int64_t>());
  };
  bound("low", [&](int64_t low) { specification.set_low(low); });
  bound("high", [&](int64_t high) { specification.set_high(high); });
  if (specification.low() > specification.high()) reader.Fail("high", "must not be below \"low\"");
  reader.RefuseOthers();
}

// `grading` holds the defaults of what the object leaves out.
void ReadGrading(const json& value, const std::string& path, v1::Grading& grading, bool needs_tests,
                 std::vector<std::string>& errors) {
  ObjectReader reader(value, path, errors);
  if (!reader.IsObject()) return;
  const size_t before = errors.size();
  ReadSources(reader, grading);
  if (reader.Has("harness")) grading.clear_harness();
  ReadTaskFiles(reader, "harness", grading.mutable_harness(), errors);
  ReadTaskWords(reader, "build", grading.mutable_build());
  ReadTaskWords(reader, "run", grading.mutable_run());
  ReadCommandGrading(reader, grading, errors);
  int compare = grading.compare();
  reader.OneOf("compare", CompareWords(), compare);
  grading.set_compare(static_cast<v1::Grading::Compare>(compare));
  int mode = grading.mode();
  reader.OneOf("mode", ModeWords(), mode);
  grading.set_mode(static_cast<v1::Grading::Mode>(mode));
  ReadTaskLimits(reader, *grading.mutable_limits(), errors);
  ReadCases(reader, grading, errors);
  ReadSpecification(reader, grading, errors);
  reader.RefuseOthers();
  if (errors.size() == before) CheckGrading(reader, grading, needs_tests);
}

bool PlainName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return c > ' ' && c != 0x7f; });
}

void ReadNames(ObjectReader& reader, const char* name,
               google::protobuf::RepeatedPtrField<std::string>* names) {
  std::set<std::string> seen;
  reader.Strings(name, [&](std::string word) {
    if (!PlainName(word)) {
      reader.Fail(name, "must be names without white space, got \"" + word + "\"");
    } else if (!seen.insert(word).second) {
      reader.Fail(name, "has \"" + word + "\" twice");
    } else {
      *names->Add() = std::move(word);
    }
  });
}

void ReadAnswer(ObjectReader& reader, v1::Task& task) {
  reader.String("answer_file", *task.mutable_answer_file());
  reader.String("answer_prefix", *task.mutable_answer_prefix());
  reader.String("answer_suffix", *task.mutable_answer_suffix());
  if (task.answer_file().empty()) {
    if (!task.answer_prefix().empty() || !task.answer_suffix().empty()) {
      reader.Fail("answer_file", "is missing; \"answer_prefix\" and \"answer_suffix\" need it");
    }
    return;
  }
  if (const Status right = CheckPath(task.answer_file()); !right.ok()) {
    return reader.Fail("answer_file", right.message());
  }
  const auto& sources = task.grading().sources();
  if (!sources.empty() &&
      std::find(sources.begin(), sources.end(), task.answer_file()) == sources.end()) {
    reader.Fail("answer_file", "\"" + task.answer_file() +
                                   "\" is not in grading.sources, so it would not be graded");
  }
}

// Whether the task's reward asks for hidden tests; those of the config always may.
bool NeedsTests(const v1::Task& task) {
  for (const v1::ScorerWeight& weight : task.weights()) {
    if (weight.scorer() == "tests" || weight.scorer() == "compiled") return true;
  }
  return task.weights().empty();
}

void ReadGradings(ObjectReader& reader, v1::Task& task, std::vector<std::string>& errors) {
  const bool needs_tests = NeedsTests(task);
  if (needs_tests) reader.Require("grading", "an object that says how a submission is graded");
  if (const json* grading = reader.Child("grading")) {
    ReadGrading(*grading, "grading", *task.mutable_grading(), needs_tests, errors);
  }
  if (const json* examples = reader.Child("examples")) {
    // The files of a command are the hidden tests themselves: nothing of them is inherited.
    if (task.grading().mode() != v1::Grading::MODE_COMMAND) {
      *task.mutable_examples() = task.grading();
    }
    task.mutable_examples()->clear_cases();
    // Rollout workers see the examples; the right function they must not see.
    task.mutable_examples()->clear_specification();
    ReadGrading(*examples, "examples", *task.mutable_examples(), true, errors);
    if (task.examples().has_specification()) {
      reader.Fail("examples", "must not have a specification; the agent could read it");
    }
  }
}

std::string Word(const std::vector<std::pair<std::string, int>>& words, int meaning) {
  for (const auto& [word, value] : words) {
    if (value == meaning) return word;
  }
  return "";
}

nlohmann::ordered_json CasesToJson(const v1::Grading& grading) {
  auto out = nlohmann::ordered_json::array();
  for (const v1::TestCase& test : grading.cases()) {
    nlohmann::ordered_json one;
    if (!test.name().empty()) one["name"] = test.name();
    if (!test.input().empty()) one["input"] = test.input();
    one["expected"] = test.expected();
    out.push_back(std::move(one));
  }
  return out;
}

nlohmann::ordered_json GradingToJson(const v1::Grading& grading) {
  nlohmann::ordered_json out;
  const json limits = TaskLimitsToJson(grading.limits());
  if (grading.mode() == v1::Grading::MODE_COMMAND) {
    if (!grading.sources().empty()) {
      out["sources"] = std::vector<std::string>(grading.sources().begin(), grading.sources().end());
    }
    CommandGradingToJson(grading, out);
    if (!limits.empty()) out["limits"] = limits;
    return out;
  }
  out["sources"] = std::vector<std::string>(grading.sources().begin(), grading.sources().end());
  if (grading.run().empty() && grading.cases().empty()) return out;
  if (grading.mode() != v1::Grading::MODE_PYTHON) {
    out["harness"] = TaskFilesToJson(grading.harness());
    out["build"] = std::vector<std::string>(grading.build().begin(), grading.build().end());
    out["run"] = std::vector<std::string>(grading.run().begin(), grading.run().end());
  }
  const std::string compare = Word(CompareWords(), grading.compare());
  if (!compare.empty()) out["compare"] = compare;
  const std::string mode = Word(ModeWords(), grading.mode());
  if (!mode.empty()) out["mode"] = mode;
  if (!limits.empty()) out["limits"] = limits;
  out["cases"] = CasesToJson(grading);
  if (grading.has_specification()) {
    const v1::Specification& specification = grading.specification();
    auto& written = out["specification"];
    written["source"] = specification.source();
    if (!specification.function().empty()) written["function"] = specification.function();
    if (specification.low() != 0) written["low"] = specification.low();
    if (specification.high() != 0) written["high"] = specification.high();
  }
  return out;
}

}  // namespace

v1::Task TaskFromJson(const json& object, std::vector<std::string>& errors) {
  v1::Task task;
  ObjectReader reader(object, "", errors);
  if (!reader.IsObject()) return task;
  reader.Require("id", "a name unique in the file");
  reader.String("id", *task.mutable_id());
  if (errors.empty() && (!PlainName(task.id()) || task.id().size() > kIdBytesMax)) {
    reader.Fail("id", "must be 1 to " + std::to_string(kIdBytesMax) + " bytes without white space");
  }
  const size_t before = errors.size();
  reader.Require("prompt", "what the agent reads, as a string");
  reader.String("prompt", *task.mutable_prompt());
  if (errors.size() == before && task.prompt().empty()) reader.Fail("prompt", "must not be empty");
  ReadTaskFiles(reader, "files", task.mutable_files(), errors);
  ReadTaskExtras(reader, task, errors);
  ReadNames(reader, "tools", task.mutable_tools());
  task.set_no_tools(reader.Has("tools") && task.tools().empty());
  ReadGradings(reader, task, errors);
  ReadAnswer(reader, task);
  ReadSolution(reader, task, errors);
  if (reader.Has("limits")) task.mutable_limits();
  ReadTaskLimits(reader, *task.mutable_limits(), errors);
  ReadNames(reader, "tags", task.mutable_tags());
  double difficulty = 0;
  reader.Number("difficulty", difficulty);
  task.set_difficulty(difficulty);
  uint32_t max_turns = 0;
  reader.Unsigned("max_turns", kTurnsMax, max_turns);
  task.set_max_turns(max_turns);
  reader.RefuseOthers();
  return task;
}

nlohmann::ordered_json TaskToJson(const v1::Task& task) {
  nlohmann::ordered_json out;
  out["id"] = task.id();
  out["prompt"] = task.prompt();
  if (!task.tags().empty()) {
    out["tags"] = std::vector<std::string>(task.tags().begin(), task.tags().end());
  }
  if (task.difficulty() != 0) out["difficulty"] = task.difficulty();
  if (task.max_turns() != 0) out["max_turns"] = task.max_turns();
  if (!task.files().empty()) out["files"] = TaskFilesToJson(task.files());
  TaskExtrasToJson(task, out);
  if (!task.tools().empty() || task.no_tools()) {
    out["tools"] = std::vector<std::string>(task.tools().begin(), task.tools().end());
  }
  if (!task.answer_file().empty()) out["answer_file"] = task.answer_file();
  if (!task.answer_prefix().empty()) out["answer_prefix"] = task.answer_prefix();
  if (!task.answer_suffix().empty()) out["answer_suffix"] = task.answer_suffix();
  const json limits = TaskLimitsToJson(task.limits());
  if (!limits.empty()) out["limits"] = limits;
  if (task.has_grading()) out["grading"] = GradingToJson(task.grading());
  if (task.has_solution()) out["solution"] = SolutionToJson(task.solution());
  if (task.has_examples()) {
    nlohmann::ordered_json examples = GradingToJson(task.examples());
    nlohmann::ordered_json different;
    for (const auto& [name, value] : examples.items()) {
      if (name == "cases" || !out["grading"].contains(name) || out["grading"][name] != value) {
        different[name] = value;
      }
    }
    out["examples"] = different;
  }
  return out;
}

}  // namespace tidemill
