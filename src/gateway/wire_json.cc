#include "gateway/wire_json.h"

#include <fmt/format.h>

#include <unordered_set>
#include <vector>

#include "core/text.h"

namespace tidemill {
namespace {

// Builds the tree as nlohmann's own reader does, but without looking each key up among those
// before it, which would take quadratic time for an object of many keys.
class WireTreeBuilder {
 public:
  explicit WireTreeBuilder(const WireLimits& limits) : limits_(limits) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(WireJson::number_integer_t value) { return Add(value); }
  bool number_unsigned(WireJson::number_unsigned_t value) { return Add(value); }
  bool number_float(WireJson::number_float_t value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(WireJson::binary_t&) { return Fail("binary values are no JSON"); }
  bool start_object(size_t) { return Open(WireJson::object()); }
  bool start_array(size_t) { return Open(WireJson::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    if (!Remember(open_.back(), name))
      return Fail("the key " + ShownWire(name) + " is there twice");
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    return Fail(fmt::format("no valid JSON at byte {}", position));
  }

  WireJson& root() { return root_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Level {
    WireJson* value;
    std::unordered_set<std::string> keys;  // of an object with more than a few
  };
  static constexpr size_t kFewKeys = 16;

  bool Fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }

  // False: the object has that key.
  static bool Remember(Level& level, const std::string& name) {
    const auto& object = level.value->get_ref<const WireJson::object_t&>();
    if (object.size() < kFewKeys) {
      for (const auto& [key, value] : object) {
        if (key == name) return false;
      }
      return true;
    }
    if (level.keys.empty()) {
      for (const auto& [key, value] : object) level.keys.insert(key);
    }
    return level.keys.insert(name).second;
  }

  WireJson* Place(WireJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    WireJson& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& list = parent.get_ref<WireJson::array_t&>();
      return &list.emplace_back(std::move(value));
    }
    auto& object = parent.get_ref<WireJson::object_t&>();
    // Growing copies what is there (keys are const), so room is made for most objects at once.
    if (object.empty()) object.reserve(open_.size() == 1 ? 48 : 8);
    return &object.WireJson::object_t::Container::emplace_back(std::move(key_), std::move(value))
                .second;
  }

  bool Add(WireJson value) {
    if (++values_ > limits_.values) {
      return Fail(fmt::format("more than {} values", limits_.values));
    }
    Place(std::move(value));
    return true;
  }

  bool Open(WireJson value) {
    if (++values_ > limits_.values) {
      return Fail(fmt::format("more than {} values", limits_.values));
    }
    if (open_.size() >= limits_.depth) {
      return Fail(fmt::format("nested more than {} deep", limits_.depth));
    }
    WireJson* placed = Place(std::move(value));
    open_.push_back({placed, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const WireLimits& limits_;
  WireJson root_;
  std::vector<Level> open_;
  std::string key_;
  std::string problem_;
  size_t values_ = 0;
};

}  // namespace

Result<WireJson> ParseWire(std::string_view text, const WireLimits& limits) {
  WireTreeBuilder builder(limits);
  if (!WireJson::sax_parse(text, &builder)) {
    return Invalid(builder.problem().empty() ? "no valid JSON" : builder.problem());
  }
  return std::move(builder.root());
}

std::string DumpWire(const WireJson& value) {
  return value.dump(-1, ' ', false, WireJson::error_handler_t::replace);
}

std::string ShownWire(const WireJson& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return DumpWire(Beginning(value.get_ref<const std::string&>(), 60));
  return DumpWire(value);
}

std::string ServerSentEvent(std::string_view name, const WireJson& data) {
  const std::string body = DumpWire(data);
  std::string event;
  event.reserve(body.size() + name.size() + 20);
  if (!name.empty()) event.append("event: ").append(name).append("\n");
  return event.append("data: ").append(body).append("\n\n");
}

}  // namespace tidemill
