#include "replay/selector.h"

#include <cmath>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "replay/sum_tree.h"

namespace tidemill {
namespace {

Status Unknown(ItemKey key) {
  return NotFound("unknown item " + std::to_string(key));
}
Status Known(ItemKey key) {
  return Exists("item " + std::to_string(key) + " already exists");
}
Status Nothing() {
  return NotFound("there is no item to choose");
}

Status CheckPriority(double priority) {
  if (std::isfinite(priority) && priority >= 0) return Ok();
  return Invalid("a priority must be a finite number of at least 0, got " +
                 std::to_string(priority));
}

class FifoSelector final : public Selector {
 public:
  Status Insert(ItemKey key, double priority) override {
    TM_RETURN_IF_ERROR(CheckPriority(priority));
    return keys_.insert(key).second ? Ok() : Known(key);
  }
  Status Remove(ItemKey key) override { return keys_.erase(key) == 1 ? Ok() : Unknown(key); }
  Status Update(ItemKey key, double priority) override {
    TM_RETURN_IF_ERROR(CheckPriority(priority));
    return keys_.contains(key) ? Ok() : Unknown(key);
  }
  Result<Selection> Sample() override {
    if (keys_.empty()) return Nothing();
    return Selection{*keys_.begin(), 1.0};
  }
  size_t size() const override { return keys_.size(); }

 private:
  std::set<ItemKey> keys_;
};

// Keys in an array without holes: the last takes the place of one that is removed.
class DenseKeys {
 public:
  bool Contains(ItemKey key) const { return places_.contains(key); }
  size_t Add(ItemKey key) {
    places_[key] = keys_.size();
    keys_.push_back(key);
    return keys_.size() - 1;
  }
  // Where the removed one was, and thus where the last one is now.
  size_t Remove(ItemKey key) {
    const size_t place = places_.at(key);
    keys_[place] = keys_.back();
    places_[keys_[place]] = place;
    keys_.pop_back();
    places_.erase(key);
    return place;
  }
  size_t PlaceOf(ItemKey key) const { return places_.at(key); }
  ItemKey At(size_t place) const { return keys_[place]; }
  size_t size() const { return keys_.size(); }

 private:
  std::vector<ItemKey> keys_;
  std::unordered_map<ItemKey, size_t> places_;
};

class UniformSelector final : public Selector {
 public:
  explicit UniformSelector(Random random) : random_(random) {}
  Status Insert(ItemKey key, double priority) override {
    TM_RETURN_IF_ERROR(CheckPriority(priority));
    if (keys_.Contains(key)) return Known(key);
    keys_.Add(key);
    return Ok();
  }
  Status Remove(ItemKey key) override {
    if (!keys_.Contains(key)) return Unknown(key);
    keys_.Remove(key);
    return Ok();
  }
  Status Update(ItemKey key, double priority) override {
    TM_RETURN_IF_ERROR(CheckPriority(priority));
    return keys_.Contains(key) ? Ok() : Unknown(key);
  }
  Result<Selection> Sample() override {
    if (keys_.size() == 0) return Nothing();
    return Selection{keys_.At(random_.Below(keys_.size())),
                     1.0 / static_cast<double>(keys_.size())};
  }
  size_t size() const override { return keys_.size(); }

 private:
  Random random_;
  DenseKeys keys_;
};

class PrioritizedSelector final : public Selector {
 public:
  PrioritizedSelector(Random random, double exponent) : random_(random), exponent_(exponent) {}

  Status Insert(ItemKey key, double priority) override {
    if (keys_.Contains(key)) return Known(key);
    TM_ASSIGN_OR_RETURN(const double weight, Weight(priority));
    weights_.Set(keys_.Add(key), weight);
    return Ok();
  }
  Status Remove(ItemKey key) override {
    if (!keys_.Contains(key)) return Unknown(key);
    const size_t last = keys_.size() - 1;
    const double weight_of_last = weights_.Get(last);
    const size_t place = keys_.Remove(key);
    weights_.Set(place, weight_of_last);
    weights_.Set(last, 0);
    return Ok();
  }
  Status Update(ItemKey key, double priority) override {
    if (!keys_.Contains(key)) return Unknown(key);
    TM_ASSIGN_OR_RETURN(const double weight, Weight(priority));
    weights_.Set(keys_.PlaceOf(key), weight);
    return Ok();
  }
  Result<Selection> Sample() override {
    if (keys_.size() == 0) return Nothing();
    const double total = weights_.total();
    if (!(total > 0)) {
      return Selection{keys_.At(random_.Below(keys_.size())),
                       1.0 / static_cast<double>(keys_.size())};
    }
    const size_t place = weights_.Find(random_.Uniform() * total);
    return Selection{keys_.At(place), weights_.Get(place) / total};
  }
  size_t size() const override { return keys_.size(); }

 private:
  Result<double> Weight(double priority) const {
    TM_RETURN_IF_ERROR(CheckPriority(priority));
    const double weight = std::pow(priority, exponent_);
    // Sums of many must stay finite as well.
    if (!(weight < 1e200)) return Invalid("priority " + std::to_string(priority) + " is too large");
    return weight;
  }

  Random random_;
  const double exponent_;
  DenseKeys keys_;
  SumTree weights_;  // by a key's place
};

}  // namespace

std::unique_ptr<Selector> NewFifoSelector() {
  return std::make_unique<FifoSelector>();
}

std::unique_ptr<Selector> NewUniformSelector(Random random) {
  return std::make_unique<UniformSelector>(random);
}

std::unique_ptr<Selector> NewPrioritizedSelector(Random random, double exponent) {
  return std::make_unique<PrioritizedSelector>(random, exponent);
}

Result<std::unique_ptr<Selector>> NewSelector(std::string_view name, Random random,
                                              double priority_exponent) {
  if (name == "fifo") return NewFifoSelector();
  if (name == "uniform") return NewUniformSelector(random);
  if (name == "prioritized") {
    if (!std::isfinite(priority_exponent) || priority_exponent < 0) {
      return Invalid("the priority exponent must be a number of at least 0, got " +
                     std::to_string(priority_exponent));
    }
    return NewPrioritizedSelector(random, priority_exponent);
  }
  return Invalid("unknown selector \"" + std::string(name) +
                 "\"; known are fifo, uniform, prioritized");
}

}  // namespace tidemill
