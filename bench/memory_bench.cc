#include "bench/memory_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <unordered_map>

#include "bench/memory_arms.h"
#include "bench/memory_ideal.h"
#include "bench/memory_streams.h"
#include "core/random.h"
#include "engine/torch/torch_engine.h"
#include "memory/torch/prompt_encoder.h"
#include "model/tokenizer.h"
#include "model/torch/model.h"
#include "rollout/protocol.h"

namespace tidemill {
namespace {

constexpr int kAnswerTokens = 12;
constexpr size_t kCaseTokens = 192;

// The policy behind a protocol: prompts in, answers out.
class Policy {
 public:
  static Result<std::unique_ptr<Policy>> Open(const std::string& dir, int threads, int layers) {
    auto policy = std::unique_ptr<Policy>(new Policy);
    TM_ASSIGN_OR_RETURN(policy->weights_, PolicyWeights::Load(dir));
    TM_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::Read(dir));
    TM_ASSIGN_OR_RETURN(policy->protocol_, NewCompactProtocol(tokenizer));
    EngineOptions options;
    options.threads = threads;
    options.cache_bytes = uint64_t{256} << 20;
    TM_ASSIGN_OR_RETURN(policy->engine_, NewEngine(policy->weights_, 1, options));
    TM_ASSIGN_OR_RETURN(PromptEncoder encoder, PromptEncoder::Make(policy->weights_, layers));
    policy->encoder_ = std::make_unique<PromptEncoder>(std::move(encoder));
    return policy;
  }

  Result<std::vector<std::string>> Ask(const std::vector<AskedPrompt>& asked) {
    for (size_t i = 0; i < asked.size(); ++i) {
      v1::CaseSet cases = asked[i].cases;
      SequenceStart start;
      start.id = i + 1;
      TM_ASSIGN_OR_RETURN(start.prompt,
                          PromptWithin(*protocol_, asked[i].task, 0, kCaseTokens, cases));
      start.turn.max_new_tokens = kAnswerTokens;
      start.turn.stop_ids = protocol_->stop_ids();
      start.turn.seed = asked[i].seed;
      TM_RETURN_IF_ERROR(engine_->Add(std::move(start)));
    }
    std::vector<std::string> answers(asked.size());
    while (engine_->Work()) {
      TM_ASSIGN_OR_RETURN(const std::vector<TurnOutput> done, engine_->Step());
      for (const TurnOutput& turn : done) {
        const AskedPrompt& about = asked[turn.id - 1];
        const auto talk = protocol_->Begin({about.task, about.cases});
        answers[turn.id - 1] = talk->Parse(turn.ids).answer.value_or("");
        TM_RETURN_IF_ERROR(engine_->Release(turn.id));
      }
    }
    return answers;
  }

  Result<std::vector<float>> Key(const std::string& prompt) {
    if (const auto known = keys_.find(prompt); known != keys_.end()) return known->second;
    v1::Task task;
    task.set_prompt(prompt);
    const v1::CaseSet none;
    TM_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, protocol_->Prompt({task, none}));
    TM_ASSIGN_OR_RETURN(std::vector<float> key, encoder_->Encode(ids));
    return keys_[prompt] = std::move(key);
  }

  Result<std::string> Digest() const { return WeightsDigest(*weights_); }

 private:
  Policy() = default;
  std::shared_ptr<const PolicyWeights> weights_;
  std::unique_ptr<AgentProtocol> protocol_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PromptEncoder> encoder_;
  std::unordered_map<std::string, std::vector<float>> keys_;
};

// Processor time of this thread: what else the machine does is not counted.
double ThreadMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// 97.5 % point of Student's t.
double StudentT(size_t freedom) {
  constexpr double kTable[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
  if (freedom == 0) return 0;
  if (freedom <= std::size(kTable)) return kTable[freedom - 1];
  return 1.96 + 2.4 / static_cast<double>(freedom);
}

Estimate EstimateOf(const std::vector<double>& values) {
  Estimate estimate;
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return estimate;
  for (const double value : values) estimate.mean += value / n;
  double square = 0;
  for (const double value : values) square += (value - estimate.mean) * (value - estimate.mean);
  if (values.size() > 1) {
    estimate.half = StudentT(values.size() - 1) * std::sqrt(square / (n - 1) / n);
  }
  return estimate;
}

double MeanOf(const std::vector<double>& values, size_t begin, size_t end) {
  end = std::min(end, values.size());
  if (begin >= end) return 0;
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += values[i];
  return sum / static_cast<double>(end - begin);
}

// Where the windows of the report begin and end, in episodes.
struct Windows {
  size_t change = 0;
  std::pair<size_t, size_t> area() const { return {0, change}; }
  std::pair<size_t, size_t> early() const { return {20, 40}; }
  std::pair<size_t, size_t> before() const {
    return {change - std::min<size_t>(50, change), change};
  }
  std::pair<size_t, size_t> changed() const { return {change, change + 100}; }
  std::pair<size_t, size_t> recovered() const { return {change + 50, change + 100}; }
};

using Projects = std::vector<StreamResult>;

std::vector<double> Over(const Projects& projects, std::pair<size_t, size_t> window) {
  std::vector<double> values;
  for (const StreamResult& one : projects) {
    values.push_back(MeanOf(one.episodes, window.first, window.second));
  }
  return values;
}

std::vector<double> HeldOut(const Projects& projects) {
  std::vector<double> values;
  for (const StreamResult& one : projects) {
    values.push_back(MeanOf(one.held_out, 0, one.held_out.size()));
  }
  return values;
}

std::vector<double> CurveOf(const Projects& projects) {
  std::vector<double> curve(projects.empty() ? 0 : projects[0].episodes.size());
  for (const StreamResult& one : projects) {
    for (size_t i = 0; i < curve.size(); ++i) {
      curve[i] += one.episodes[i] / static_cast<double>(projects.size());
    }
  }
  return curve;
}

MemoryArmReport ReportOf(const std::string& name, const Projects& projects, const Windows& at) {
  MemoryArmReport report;
  report.name = name;
  report.curve = CurveOf(projects);
  report.held_out = EstimateOf(HeldOut(projects));
  report.area = EstimateOf(Over(projects, at.area()));
  report.early = EstimateOf(Over(projects, at.early()));
  report.before = EstimateOf(Over(projects, at.before()));
  report.changed = EstimateOf(Over(projects, at.changed()));
  report.recovered = EstimateOf(Over(projects, at.recovered()));
  for (const StreamResult& one : projects) {
    report.cases += one.cases;
    report.itself += one.itself;
  }
  return report;
}

MemoryDifference DifferenceOf(const std::string& what, const std::vector<double>& a,
                              const std::vector<double>& b) {
  std::vector<double> differences;
  for (size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  MemoryDifference difference{what, EstimateOf(differences), 0};
  if (differences.size() > 1) {
    difference.detectable = difference.value.half * 2.8 / StudentT(differences.size() - 1);
  }
  return difference;
}

// Pairs of arms that answer a question, where both were run.
void AddDifferences(const std::map<std::string, Projects>& arms, const Windows& at,
                    MemoryBenchReport& report) {
  const auto compare = [&](const char* a, const char* b, const std::string& when, auto values) {
    if (arms.count(a) == 0 || arms.count(b) == 0) return;
    report.differences.push_back(DifferenceOf(std::string(a) + " - " + b + ", " + when,
                                              values(arms.at(a)), values(arms.at(b))));
  };
  const auto changed = [&](const Projects& one) { return Over(one, at.changed()); };
  const auto early = [&](const Projects& one) { return Over(one, at.early()); };
  for (const auto& [name, projects] : arms) {
    if (name != "off") compare(name.c_str(), "off", "held out", HeldOut);
  }
  compare("nearest", "successes only", "episodes 21 to 40", early);
  compare("learned", "nearest", "held out", HeldOut);
  compare("learned", "nearest", "100 episodes after the change", changed);
  compare("learned", "nearest, newest first", "100 episodes after the change", changed);
  if (const auto learned = arms.find("learned"); learned != arms.end()) {
    report.differences.push_back(
        DifferenceOf("learned, 51 to 100 episodes after the change - 50 before it",
                     Over(learned->second, at.recovered()), Over(learned->second, at.before())));
  }
}

Status CheckOptions(const MemoryBenchOptions& options) {
  if (options.model.empty() != options.perfect_reader) {
    return Invalid("either --model, the directory of a warmed-up policy, or --perfect-reader");
  }
  if (options.seeds.empty() || options.projects < 2 || options.before < 1 || options.members < 1) {
    return Invalid("one seed, two projects, one task before the change and one member at least");
  }
  return Ok();
}

std::vector<std::string> ArmsOf(const MemoryBenchOptions& options) {
  std::vector<std::string> names = options.arms.empty() ? MemoryArms() : options.arms;
  if (options.perfect_reader && options.arms.empty()) std::erase(names, kHiddenStatesArm);
  return names;
}

}  // namespace

Result<MemoryBenchReport> RunMemoryBench(const MemoryBenchOptions& options) {
  TM_RETURN_IF_ERROR(CheckOptions(options));
  const auto started = std::chrono::steady_clock::now();
  std::unique_ptr<Policy> policy;
  MemoryBenchReport report;
  if (!options.perfect_reader) {
    TM_ASSIGN_OR_RETURN(policy, Policy::Open(options.model, options.threads, options.key_layers));
    TM_ASSIGN_OR_RETURN(report.digest_before, policy->Digest());
  }
  const std::vector<std::string> names = ArmsOf(options);
  const AskPolicy ask = [&](const std::vector<AskedPrompt>& asked) {
    return policy != nullptr ? policy->Ask(asked) : AskPerfectReader(asked);
  };
  const KeyOf key = [&](const std::string& prompt) -> Result<std::vector<float>> {
    if (policy == nullptr) return Invalid("the perfect reader has no hidden states");
    return policy->Key(prompt);
  };
  std::map<std::string, Projects> arms;
  Projects ideal;
  for (const uint64_t seed : options.seeds) {
    const StreamPlan plan{.seed = seed,
                          .before = options.before,
                          .after = options.after,
                          .held_out = options.held_out,
                          .members = options.members,
                          .cases = options.cases};
    TM_ASSIGN_OR_RETURN(auto results, PlayStreams(names, options.projects, plan, ask, key));
    for (size_t i = 0; i < names.size(); ++i) {
      for (StreamResult& one : results[i]) arms[names[i]].push_back(std::move(one));
    }
    for (StreamResult& one : PlayIdeal(options.projects, plan)) ideal.push_back(std::move(one));
  }
  if (policy != nullptr) {
    TM_ASSIGN_OR_RETURN(report.digest_after, policy->Digest());
  }
  const Windows at{size_t{options.before} * options.members};
  for (const std::string& name : names) {
    report.arms.push_back(ReportOf(name, arms.at(name), at));
    report.episodes += report.arms.back().curve.size() * arms.at(name).size();
  }
  report.ideal = CurveOf(ideal);
  report.ideal_area = MeanOf(report.ideal, 0, at.change);
  report.held_out_tasks = options.seeds.size() * options.projects * options.held_out;
  AddDifferences(arms, at, report);
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

std::vector<MemorySearch> MeasureSearches(uint64_t cases, uint64_t queries) {
  constexpr size_t kWidth = 64;
  Random random(7);
  VectorIndex vectors;
  LexicalIndex texts;
  std::vector<float> vector(kWidth);
  const auto draw_vector = [&] {
    for (float& x : vector) x = static_cast<float>(random.Normal());
  };
  const auto draw_text = [&] {
    std::string text;
    for (int i = 0; i < 12; ++i) text += "w" + std::to_string(random.Below(20'000)) + " ";
    return text;
  };
  for (uint64_t i = 1; i <= cases; ++i) {
    draw_vector();
    vectors.Add(i, "s", vector);
    texts.Add(i, "s", draw_text());
  }
  const auto measure = [&](const char* name, auto search) {
    std::vector<double> times;
    for (uint64_t i = 0; i < queries; ++i) {
      draw_vector();
      const std::string text = draw_text();
      const double start = ThreadMicros();
      const size_t found = search(text).size();
      const double end = ThreadMicros();
      if (found > 0) times.push_back(end - start);
    }
    std::sort(times.begin(), times.end());
    if (times.empty()) times.push_back(0);
    return MemorySearch{name, cases, times[times.size() / 2], times[times.size() * 99 / 100]};
  };
  return {
      measure("hidden states, exact",
              [&](const std::string&) { return vectors.Search("s", vector, 32); }),
      measure("words, BM25", [&](const std::string& text) { return texts.Search("s", text, 32); })};
}

}  // namespace tidemill
