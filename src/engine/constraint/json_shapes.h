// The shapes of JSON documents: objects with their members in order, arrays, any value.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/constraint/byte_network.h"
#include "engine/constraint/character_set.h"

namespace tidemill {

struct JsonProperty {
  std::string key;  // as it is written, with its quotes
  NetworkRule value = 0;
  bool required = false;
};

// How many there may be; absent: no bound.
struct JsonCounts {
  std::optional<size_t> least{}, most{};
};

// Rules that several places need are there once. The builder must outlive it.
class JsonShapes {
 public:
  explicit JsonShapes(NetworkBuilder& builder) : builder_(builder) {}

  NetworkRule Any();
  NetworkRule AnyObject();
  NetworkRule AnyString();
  // A string of so many characters, its quotes included.
  NetworkRule CountedString(size_t least, std::optional<size_t> most);
  // An array: items with rules of their own, then those of `rest`, if others may follow.
  void Items(NetworkState from, const std::vector<NetworkRule>& first,
             const std::optional<NetworkRule>& rest, const JsonCounts& counts, NetworkState to);
  // An object: properties in their order, then others with values of `extra`, if there may be any.
  void Members(NetworkState from, const std::vector<JsonProperty>& properties,
               const std::optional<NetworkRule>& extra, const JsonCounts& counts, NetworkState to);

 private:
  NetworkState Spaced(NetworkState from);
  void Comma(NetworkState from, NetworkState to);
  void Value(NetworkState from, NetworkRule value, NetworkState to);
  struct Rows;
  void OtherMembers(const Rows& rows, const std::vector<JsonProperty>& properties,
                    NetworkRule value);
  NetworkState AtMost(size_t characters);
  NetworkRule OtherKey(const std::vector<JsonProperty>& properties);
  struct KeyRange {
    size_t first = 0, last = 0, at = 0;
  };
  void OtherThan(NetworkState from, const std::vector<std::string>& keys, const KeyRange& range,
                 NetworkState free, NetworkState end);

  NetworkBuilder& builder_;
  std::map<std::vector<std::string>, NetworkRule> other_keys_;
  std::map<std::pair<size_t, std::optional<size_t>>, NetworkRule> counted_;
  // Inside of a string with at most so many characters more; all of them end one rule.
  std::vector<NetworkState> at_most_;
  NetworkState unbounded_ = -1, string_end_ = -1;  // with any number, and behind it
  NetworkRule space_ = -1, string_ = -1, any_ = -1, any_object_ = -1;
};

}  // namespace tidemill
