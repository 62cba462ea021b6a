// A section of the config as a plain struct. A key is one line of it: type, name, default, doc and
// limits.
//
//   struct ReplayConfig {
//     TM_SECTION("replay");
//     TM_KEY(uint32_t, max_uses, 1, {.doc = "Maximum number of steps ..", .min = 1, .max = 1000});
//   };
//   BindSection(config.replay, binder);  // adds the key replay.max_uses
//
// The struct has ordinary fields and stays an aggregate. It lies in the folder that reads it; the
// options of a loop derive from it and add what is no key.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/clock.h"

namespace tidemill {

// Named numbers, such as the weights of scorers. Macros take no type with a comma.
using KeyNumbers = std::map<std::string, double>;
// Of a key that may be left to another one.
using KeyWords = std::optional<std::vector<std::string>>;

inline constexpr int kSectionLinesMax = 320;

// A key's place in its section: the lines behind TM_SECTION.
template <int kLine>
using KeyLine = std::integral_constant<int, kLine>;

// "replay.max_uses"; in a table of a list, which has no name of its own, "max_uses".
inline std::string KeyName(std::string_view section, std::string_view key) {
  return section.empty() ? std::string(key) : std::string(section) + "." + std::string(key);
}

template <int kLine, typename Section>
void AddKeyOfLine(Section& section, Binder& binder) {
  if constexpr (requires { section.AddKey(KeyLine<kLine>(), binder); }) {
    section.AddKey(KeyLine<kLine>(), binder);
  }
}

// Adds the keys of the section in the order of its lines. `section` must outlive the binder.
template <typename Section>
void BindSection(Section& section, Binder& binder) {
  [&]<int... kLine>(std::integer_sequence<int, kLine...>) {
    (AddKeyOfLine<kLine>(section, binder), ...);
  }
  (std::make_integer_sequence<int, kSectionLinesMax>{});
}

// Adds a list of tables, [[name]] in TOML. `elements` must outlive the binder.
template <typename Section>
void BindTables(std::string name, std::vector<Section>& elements, KeyOptions options,
                Binder& binder) {
  binder.AddTables(
      std::move(name), &elements,
      [](Binder& table, Section& element) { BindSection(element, table); }, std::move(options));
}

// The same of tables that each have a name, [name.NAME] in TOML.
template <typename Section>
void BindNamedTables(std::string name, std::vector<Section>& elements, KeyOptions options,
                     Binder& binder) {
  binder.AddNamedTables(
      std::move(name), &elements,
      [](Binder& table, Section& element) { BindSection(element, table); }, std::move(options));
}

// Options that derive from a section, with what it says and else their defaults.
template <typename Options, typename Section>
Options OptionsWith(const Section& section) {
  Options options;
  static_cast<Section&>(options) = section;
  return options;
}

}  // namespace tidemill

#define TM_SECTION(name)                             \
  static constexpr std::string_view kSection = name; \
  static constexpr int kSectionLine = __LINE__

#define TM_KEY(type, name, fallback, ...) TM_NAMED_KEY(#name, type, name, fallback, __VA_ARGS__)

// A key whose name cannot be that of a field.
#define TM_NAMED_KEY(key, type, name, fallback, ...)                 \
  TM_ADD_KEY(binder.Add(KeyName(kSection, key), &name, __VA_ARGS__)) \
  type name = fallback

// A list of tables within the section, [[section.name]] in TOML.
#define TM_TABLES(type, name, ...)                                            \
  TM_ADD_KEY(BindTables(KeyName(kSection, #name), name, __VA_ARGS__, binder)) \
  std::vector<type> name = {}

#define TM_ADD_KEY(...)                                                                          \
  void AddKey(KeyLine<__LINE__ - kSectionLine>, Binder& binder) {                                \
    static_assert(__LINE__ - kSectionLine < kSectionLinesMax, "the section has too many lines"); \
    __VA_ARGS__;                                                                                 \
  }
