#include "learner/torch/micro_tensors.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "model/torch/host_copy.h"

namespace tidemill {
namespace {

template <typename T>
at::Tensor ToTensor(const std::vector<T>& values, at::ScalarType type, const at::Device& device) {
  at::Tensor tensor = HostVector(static_cast<int64_t>(values.size()), type, device);
  std::copy(values.begin(), values.end(), tensor.data_ptr<T>());
  return DeviceCopy(tensor, device);
}

// Whether `count` tokens from `a` and from `b` on were given to the same experts.
bool SameExperts(const Microbatch& micro, int32_t a, int32_t b, int32_t count) {
  if (micro.routed.empty()) return true;
  const auto width = static_cast<std::ptrdiff_t>(micro.experts.size() / micro.routed.size());
  const auto experts = micro.experts.begin();
  return std::equal(micro.routed.begin() + a, micro.routed.begin() + a + count,
                    micro.routed.begin() + b) &&
         std::equal(experts + a * width, experts + (a + count) * width, experts + b * width);
}

// Of the tokens of a pack, -1 where they are not known; undefined: of none.
at::Tensor ExpertsOf(const Microbatch& micro, const std::vector<int64_t>& places, size_t tokens,
                     const at::Device& device) {
  if (micro.routed.empty()) return {};
  const size_t width = micro.experts.size() / micro.routed.size();
  std::vector<int64_t> experts(tokens * width, -1);
  for (size_t i = 0; i < places.size(); ++i) {
    if (micro.routed[i] == 0) continue;
    std::copy_n(micro.experts.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                experts.begin() + places[i] * static_cast<int64_t>(width));
  }
  return ToTensor(experts, at::kLong, device)
      .view({static_cast<int64_t>(tokens), static_cast<int64_t>(width)});
}

// Rows end to end; a prompt that the row before has as well is not laid again. Gives the place of
// each token of the microbatch in the pack.
std::vector<int64_t> LaySegments(const Microbatch& micro, SegmentedPack& pack) {
  std::vector<int64_t> places(micro.ids.size());
  int64_t parent = -1;
  size_t parent_row = 0;
  const auto same_prompt = [&](size_t a, size_t b) {
    const auto first = micro.ids.begin() + micro.offsets[a],
               second = micro.ids.begin() + micro.offsets[b];
    return micro.prompts[a] == micro.prompts[b] &&
           std::equal(first, first + micro.prompts[a], second) &&
           SameExperts(micro, micro.offsets[a], micro.offsets[b], micro.prompts[a]);
  };
  const auto lay = [&](size_t from, size_t to, size_t row, int64_t parent_segment) {
    const auto start = static_cast<int64_t>(pack.tokens.size());
    for (size_t i = from; i < to; ++i) {
      places[i] = static_cast<int64_t>(pack.tokens.size());
      pack.tokens.push_back(micro.ids[i]);
      pack.positions.push_back(static_cast<int64_t>(i) - micro.offsets[row]);
    }
    pack.segments.push_back({start, static_cast<int64_t>(to - from), parent_segment});
  };
  for (size_t row = 0; row < micro.rows(); ++row) {
    const auto begin = static_cast<size_t>(micro.offsets[row]);
    const auto end = static_cast<size_t>(micro.offsets[row + 1]);
    const size_t prompt_end = begin + static_cast<size_t>(micro.prompts[row]);
    const bool shares = parent >= 0 && same_prompt(row, parent_row);
    const bool will_share = row + 1 < micro.rows() && same_prompt(row, row + 1);
    if (!shares && !will_share) {
      lay(begin, end, row, -1);
      parent = -1;
      continue;
    }
    if (!shares) {
      lay(begin, prompt_end, row, -1);
      parent = static_cast<int64_t>(pack.segments.size()) - 1;
      parent_row = row;
    }
    const int64_t start = pack.segments[static_cast<size_t>(parent)].start;
    for (size_t i = begin; i < prompt_end; ++i) {
      places[i] = start + static_cast<int64_t>(i - begin);
    }
    if (end > prompt_end) lay(prompt_end, end, row, parent);
  }
  return places;
}

PackedBatch ToPackedBatch(const SegmentedPack& pack, const at::Device& device) {
  PackedBatch packed;
  packed.tokens = ToTensor(pack.tokens, at::kLong, device);
  packed.positions = ToTensor(pack.positions, at::kLong, device);
  bool shared = false;
  for (const Segment& segment : pack.segments) {
    packed.starts.push_back(segment.start);
    packed.parents.push_back(segment.parent);
    shared = shared || segment.parent >= 0;
  }
  packed.starts.push_back(static_cast<int64_t>(pack.tokens.size()));
  if (!shared) packed.parents.clear();
  return packed;
}

// Of the trained tokens; null: none was drawn from less than all.
std::shared_ptr<const DrawSupports> SupportsOf(const Microbatch& micro) {
  if (micro.supports.empty()) return nullptr;
  auto supports = std::make_shared<DrawSupports>();
  supports->sets = micro.supports;
  for (size_t i = 0; i < micro.ids.size(); ++i) {
    if (micro.mask[i] != 0) supports->set_of.push_back(micro.support_of[i]);
  }
  return supports;
}

}  // namespace

MicroTensors MakeMicroTensors(const Microbatch& micro, bool fused, const std::string& device_name) {
  const at::Device device(device_name);
  MicroTensors out;
  const std::vector<int64_t> places = LaySegments(micro, out.pack);
  if (!fused) {
    out.packed = ToPackedBatch(out.pack, device);
    out.packed.experts = ExpertsOf(micro, places, out.pack.tokens.size(), device);
  }
  std::vector<int64_t> index_of(out.pack.tokens.size(), -1);  // in the pack -> among `rows`
  std::vector<int64_t> predicted_at, targets, sequence;
  std::vector<float> behaviour, lags, advantages, temperatures;
  for (size_t row = 0; row < micro.rows(); ++row) {
    const auto begin = static_cast<size_t>(micro.offsets[row]);
    const auto end = static_cast<size_t>(micro.offsets[row + 1]);
    const size_t before = targets.size();
    for (size_t i = begin; i < end; ++i) {
      if (micro.mask[i] == 0) continue;
      TM_CHECK(i > begin, "nothing predicts the first token of a sequence");
      predicted_at.push_back(places[i - 1]);
      index_of[static_cast<size_t>(places[i - 1])] = 0;
      targets.push_back(micro.ids[i]);
      behaviour.push_back(micro.behaviour[i]);
      lags.push_back(static_cast<float>(micro.lags[i]));
      advantages.push_back(static_cast<float>(micro.advantages[i]));
      sequence.push_back(static_cast<int64_t>(row));
      temperatures.push_back(micro.temperatures[row]);
    }
    out.row_tokens.push_back(static_cast<int64_t>(targets.size() - before));
  }
  std::vector<int64_t> rows;
  for (size_t place = 0; place < index_of.size(); ++place) {
    if (index_of[place] < 0) continue;
    index_of[place] = static_cast<int64_t>(rows.size());
    rows.push_back(static_cast<int64_t>(place));
  }
  for (int64_t& place : predicted_at) place = index_of[static_cast<size_t>(place)];
  out.rows = ToTensor(rows, at::kLong, device);
  out.row_of = ToTensor(predicted_at, at::kLong, device);
  out.targets = ToTensor(targets, at::kLong, device);
  out.sequence = ToTensor(sequence, at::kLong, device);
  out.behaviour = ToTensor(behaviour, at::kFloat, device);
  out.lags = ToTensor(lags, at::kFloat, device);
  out.advantages = ToTensor(advantages, at::kFloat, device);
  out.supports = SupportsOf(micro);
  out.sequences = micro.sequences;
  if (!temperatures.empty()) out.temperature = temperatures[0];
  const bool equal = std::all_of(temperatures.begin(), temperatures.end(),
                                 [&](float t) { return t == temperatures[0]; });
  if (!equal) out.temperatures = ToTensor(temperatures, at::kFloat, device);
  return out;
}

at::Tensor GatherBySequence(const std::vector<std::vector<float>>& values,
                            const MicroTensors& micro, const at::Device& device) {
  std::vector<float> flat;
  for (int32_t index : micro.sequences) {
    const std::vector<float>& of_row = values[static_cast<size_t>(index)];
    flat.insert(flat.end(), of_row.begin(), of_row.end());
  }
  return ToTensor(flat, at::kFloat, device);
}

void ScatterBySequence(const at::Tensor& values, const MicroTensors& micro,
                       std::vector<std::vector<float>>& to) {
  const at::Tensor host = HostCopy(values, at::kFloat);
  const float* from = host.data_ptr<float>();
  for (size_t row = 0; row < micro.sequences.size(); ++row) {
    to[static_cast<size_t>(micro.sequences[row])].assign(from, from + micro.row_tokens[row]);
    from += micro.row_tokens[row];
  }
}

}  // namespace tidemill
