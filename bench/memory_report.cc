// The report of `tidemill bench memory` as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/memory_bench.h"

namespace tidemill {
namespace {

constexpr size_t kCurveStep = 20;  // episodes of a point

std::string Percent(const Estimate& estimate) {
  return fmt::format("{:5.1f} ±{:4.1f}", 100 * estimate.mean, 100 * estimate.half);
}

std::vector<double> Points(const std::vector<double>& curve) {
  std::vector<double> points;
  for (size_t begin = 0; begin + kCurveStep <= curve.size(); begin += kCurveStep) {
    double sum = 0;
    for (size_t i = begin; i < begin + kCurveStep; ++i) sum += curve[i];
    points.push_back(sum / kCurveStep);
  }
  return points;
}

std::string CurveText(const std::string& name, const std::vector<double>& curve) {
  std::string text = fmt::format("{:<26}", name);
  for (const double point : Points(curve)) text += fmt::format("{:4.0f}", 100 * point);
  return text + "\n";
}

const MemoryArmReport* Find(const MemoryBenchReport& report, const std::string& name) {
  const auto it = std::find_if(report.arms.begin(), report.arms.end(),
                               [&](const MemoryArmReport& arm) { return arm.name == name; });
  return it == report.arms.end() ? nullptr : &*it;
}

const MemoryDifference* FindDifference(const MemoryBenchReport& report, const std::string& what) {
  for (const MemoryDifference& one : report.differences) {
    if (one.what == what) return &one;
  }
  return nullptr;
}

nlohmann::ordered_json JsonOf(const Estimate& estimate) {
  return {{"mean", estimate.mean}, {"half", estimate.half}};
}

}  // namespace

std::vector<std::string> MemoryBenchReport::Misses() const {
  std::vector<std::string> misses;
  const auto want = [&](bool holds, const std::string& what) {
    if (!holds) misses.push_back(what);
  };
  const MemoryArmReport *off = Find(*this, "off"), *nearest = Find(*this, "nearest"),
                        *oracle = Find(*this, "oracle");
  if (off != nullptr) {
    want(off->held_out.mean <= 0.14, fmt::format("off: {} % is over 14 %", Percent(off->held_out)));
  }
  if (nearest != nullptr) {
    want(nearest->held_out.mean >= 0.6,
         fmt::format("nearest: {} % is under 60 %", Percent(nearest->held_out)));
  }
  if (nearest != nullptr && oracle != nullptr) {
    const double bound = 0.85 * ideal_area * oracle->held_out.mean;
    want(nearest->area.mean >= bound, fmt::format("nearest: the area {} % is under {:.1f} %",
                                                  Percent(nearest->area), 100 * bound));
  }
  struct Bound {
    const char* what;
    double low, high;
  };
  for (const Bound& bound :
       {Bound{"permuted answers - off, held out", -0.02, 0.02},
        Bound{"another project - off, held out", -0.02, 0.02},
        Bound{"nearest - successes only, episodes 21 to 40", 0.05, 1},
        Bound{"learned - nearest, 100 episodes after the change", 0.08, 1},
        Bound{"learned - nearest, newest first, 100 episodes after the change", 0.03, 1},
        Bound{"learned, 51 to 100 episodes after the change - 50 before it", -0.05, 1}}) {
    const MemoryDifference* found = FindDifference(*this, bound.what);
    if (found == nullptr) continue;
    want(found->value.mean >= bound.low && found->value.mean <= bound.high,
         fmt::format("{}: {} points, wanted {:.0f} to {:.0f}", bound.what, Percent(found->value),
                     100 * bound.low, 100 * bound.high));
  }
  for (const MemoryArmReport& arm : arms) {
    want(arm.itself == 0, arm.name + ": a held-out task was shown its own case");
  }
  for (const MemorySearch& search : searches) {
    if (search.index != "hidden states, exact") continue;
    want(search.p99_us <= 1000, fmt::format("{}: {:.0f} µs at the 99th percentile, over 1000",
                                            search.index, search.p99_us));
  }
  want(digest_before == digest_after, "the weights changed");
  return misses;
}

std::string MemoryBenchReport::ToText() const {
  std::string text = fmt::format(
      "{} episodes, {} held-out tasks an arm, {:.0f} s; pass rates in %, with 95 % intervals over "
      "projects\n\n{:<26}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}{:>8}\n",
      episodes, held_out_tasks, seconds, "arm", "held out", "area", "ep. 21-40", "50 before",
      "100 after", "51-100 after", "cases");
  for (const MemoryArmReport& arm : arms) {
    text +=
        fmt::format("{:<26}{:>14}{:>14}{:>14}{:>14}{:>14}{:>14}{:>8}\n", arm.name,
                    Percent(arm.held_out), Percent(arm.area), Percent(arm.early),
                    Percent(arm.before), Percent(arm.changed), Percent(arm.recovered), arm.cases);
  }
  text += fmt::format("\nPass rate over {} episodes each\n", kCurveStep);
  text += CurveText("ideal learner", ideal);
  for (const MemoryArmReport& arm : arms) text += CurveText(arm.name, arm.curve);
  text += "\nDifferences in points; the last column could have been found\n";
  for (const MemoryDifference& one : differences) {
    text += fmt::format("{:<70}{}{:6.1f}\n", one.what, Percent(one.value), 100 * one.detectable);
  }
  for (const MemorySearch& search : searches) {
    text += fmt::format(
        "\nsearch by {} in {} cases: {:.0f} µs of processor time, 99th percentile {:.0f} µs",
        search.index, search.cases, search.median_us, search.p99_us);
  }
  if (!digest_before.empty()) {
    text += "\nweights " + digest_before.substr(0, 16) +
            (digest_before == digest_after ? ", unchanged" : ", CHANGED");
  }
  for (const std::string& miss : Misses()) text += "\nmissed: " + miss;
  return text;
}

std::string MemoryBenchReport::ToJson() const {
  nlohmann::ordered_json json = {{"episodes", episodes},         {"held_out_tasks", held_out_tasks},
                                 {"seconds", seconds},           {"ideal_area", ideal_area},
                                 {"ideal", Points(ideal)},       {"weights_before", digest_before},
                                 {"weights_after", digest_after}};
  for (const MemoryArmReport& arm : arms) {
    json["arms"].push_back({{"arm", arm.name},
                            {"held_out", JsonOf(arm.held_out)},
                            {"area", JsonOf(arm.area)},
                            {"episodes_21_to_40", JsonOf(arm.early)},
                            {"before", JsonOf(arm.before)},
                            {"changed", JsonOf(arm.changed)},
                            {"recovered", JsonOf(arm.recovered)},
                            {"cases", arm.cases},
                            {"shown_itself", arm.itself},
                            {"curve", Points(arm.curve)}});
  }
  for (const MemoryDifference& one : differences) {
    json["differences"].push_back(
        {{"what", one.what}, {"value", JsonOf(one.value)}, {"detectable", one.detectable}});
  }
  for (const MemorySearch& search : searches) {
    json["searches"].push_back({{"index", search.index},
                                {"cases", search.cases},
                                {"median_us", search.median_us},
                                {"p99_us", search.p99_us}});
  }
  json["misses"] = Misses();
  return json.dump(1);
}

}  // namespace tidemill
