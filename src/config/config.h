// The config: TOML files and `--set a.b=c`, bound to the fields of plain structs. Each key is
// declared once, with its doc and its limits; from that come the checks, the saved config and the
// table in docs/.
//
//   Binder binder;
//   binder.Add("staleness.max_steps", &config.staleness.max_steps, {.doc = "...", .min = 0, .max =
//   1000}); TM_RETURN_IF_ERROR(binder.LoadFile("run.toml"));
//   TM_RETURN_IF_ERROR(binder.Set("staleness.max_steps=4"));
//
// Every failure is kInvalid and says where, which key, what was wrong and what is expected:
//   run.toml:14: staleness.max_stps: unknown key. Did you mean "staleness.max_steps"?
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/status.h"

namespace tidemill {

struct KeyOptions {
  std::string doc;  // one line
  // Of numbers, of the milliseconds of durations, of each value of a map, and of the length of a
  // list.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // of a string, or of each in a list; empty: any
  bool required = false;                  // has to be given; for keys of the tables of a list
};

// Borrows the fields it is given: they must stay where they are while it is used. A field's value
// when it is added is the key's default. Wrong declarations (a key twice, a default out of range)
// are TM_CHECKs.
class Binder {
 public:
  // Durations are written "250ms", "30s", "5m", "2h", or as a whole number of milliseconds. An
  // optional that has no value is a key that nobody gave; it is not saved.
  using Field = std::variant<bool*, int32_t*, uint32_t*, int64_t*, uint64_t*, double*, std::string*,
                             std::chrono::milliseconds*, std::vector<std::string>*,
                             std::map<std::string, double>*, std::optional<uint32_t>*,
                             std::optional<uint64_t>*, std::optional<double>*,
                             std::optional<std::string>*, std::optional<std::vector<std::string>>*>;

  void Add(std::string name, Field field, KeyOptions options);

  // A list of tables, [[name]] in TOML: each table is bound by `bind(binder, element)`, which adds
  // the table's keys by their short names. Tables given in a file replace the default list.
  template <typename T, typename Bind>
  void AddTables(std::string name, std::vector<T>* elements, Bind bind, KeyOptions options) {
    AddTables(
        TableList{std::move(name), std::move(options), [elements] { return elements->size(); },
                  [elements](size_t n) { elements->resize(n); },
                  [elements, bind](Binder& binder, size_t i) { bind(binder, (*elements)[i]); },
                  [bind](const std::function<void(const Binder&)>& use) {
                    T sample{};
                    Binder binder;
                    bind(binder, sample);
                    use(binder);
                  }});
  }
  // Tables that each have a name, [name.NAME] in TOML: the same, and the element's `name` is set.
  // They are in the order of their names.
  template <typename T, typename Bind>
  void AddNamedTables(std::string name, std::vector<T>* elements, Bind bind, KeyOptions options) {
    AddTables(std::move(name), elements, std::move(bind), std::move(options));
    TableList& list = tables_.back();
    list.name_of = [elements](size_t i) -> std::string& { return (*elements)[i].name; };
    list.insert = [elements](size_t i) {
      elements->insert(elements->begin() + static_cast<std::ptrdiff_t>(i), T{});
    };
  }

  // Reports every wrong key, up to a bound, one a line. Fields of right keys may have been set
  // then.
  Status LoadFile(const std::string& path);
  Status LoadText(std::string_view toml, const std::string& file_name);

  // "a.b=c". The value is written as in TOML; a string needs no quotes, a list may be "x,y", a map
  // "x=1,y=2". "a.b.x=1" sets one entry of the map a.b, or a key of the table [a.b].
  Status Set(std::string_view assignment);

  // A file ("": none) and single keys on top of it, as commands take them.
  Status Load(const std::string& path, const std::vector<std::string>& assignments);

  // For checks across keys, after loading: kInvalid with the place the key's value came from in
  // front.
  Status Error(std::string_view name, std::string_view what) const;

  // Every key with its value, as TOML that LoadText reads back to the same values. `header` becomes
  // comment lines at the top.
  std::string ToToml(std::string_view header) const;

  // Every key with type, default, limits and doc, as a Markdown table.
  std::string ToMarkdown() const;

  std::vector<std::string> Names() const;

  // A table that has another name now: its old name is refused with the new one.
  void Renamed(std::string old_name, std::string new_name) {
    renamed_.emplace_back(std::move(old_name), std::move(new_name));
  }

 private:
  struct Key {
    std::string name;
    Field field;
    KeyOptions options;
    std::string default_text;
    std::string origin;  // "run.toml:14" or "--set a.b=c"; empty: the default
  };
  struct TableList {
    std::string name;
    KeyOptions options;
    std::function<size_t()> size;
    std::function<void(size_t)> resize;
    std::function<void(Binder&, size_t)> bind;
    std::function<void(const std::function<void(const Binder&)>&)> with_sample;
    std::function<std::string&(size_t)> name_of = {};  // of tables with names; else empty
    std::function<void(size_t)> insert = {};           // the same
    std::string origin = {};                           // as of a key
  };
  class Loader;

  void AddTables(TableList list);
  void CheckNewName(const std::string& name) const;
  Key* Find(std::string_view name);
  TableList* FindTables(std::string_view name);
  // Of tables with names: "list.NAME.key=value". Nothing: `name` is none of their keys.
  std::optional<Status> SetInTables(std::string_view name, std::string_view text,
                                    const std::string& place);
  bool IsSection(std::string_view name) const;
  // Why there is no key of this name, and what may be meant.
  std::string UnknownKey(std::string_view name) const;
  std::string UnknownTable(std::string_view name) const;

  std::vector<Key> keys_;          // in the order they were added
  std::vector<TableList> tables_;  // in the order they were added
  std::vector<std::pair<std::string, std::string>> renamed_;
};

// "250ms", "30s", "5m", "2h" or "250". kInvalid otherwise, or when it does not fit.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text);
// The shortest form ParseDuration reads back: "1500ms", "30s".
std::string FormatDuration(std::chrono::milliseconds duration);

}  // namespace tidemill
