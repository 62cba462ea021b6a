#include "config/config.h"

#include <algorithm>
#include <sstream>

#include "config/config_value.h"
#include "core/files.h"
#include "core/nearest.h"

namespace tidemill {
namespace {

constexpr size_t kErrorsMax = 20;
constexpr size_t kFileBytesMax = 4 << 20;

bool IsBareKey(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

std::string Join(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : std::string(prefix) + "." + std::string(name);
}

// "" for a key of the top.
std::string SectionOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

std::string Escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

}  // namespace

// Walks one parsed file and collects what is wrong with it.
class Binder::Loader {
 public:
  explicit Loader(std::string file) : file_(std::move(file)) {}

  // `shown` is what stands before the names of this binder's keys in messages: "tools.command[1]"
  // or "".
  void Load(Binder& binder, const toml::table& table, const std::string& shown) {
    Walk(binder, table, "", shown);
    for (Key& key : binder.keys_) {
      if (key.options.required && key.origin.empty()) {
        Report(table, Join(shown, key.name),
               "missing, expected " + ExpectedText(key.field, key.options) + ".");
      }
    }
  }

  Status Finish() const {
    if (errors_.empty()) return Ok();
    std::string text;
    for (const std::string& error : errors_) text += (text.empty() ? "" : "\n") + error;
    return Invalid(text);
  }

 private:
  std::string Place(const toml::node& node) const {
    return file_ + ":" + std::to_string(node.source().begin.line);
  }

  void Report(const toml::node& node, const std::string& name, const std::string& what) {
    if (errors_.size() < kErrorsMax) errors_.push_back(Place(node) + ": " + name + ": " + what);
  }

  void Walk(Binder& binder, const toml::table& table, const std::string& prefix,
            const std::string& shown) {
    for (const auto& [part, node] : table) {
      const std::string name = Join(prefix, part.str());
      if (Key* key = binder.Find(name)) {
        LoadKey(*key, node, Join(shown, name));
      } else if (TableList* list = binder.FindTables(name)) {
        LoadTables(*list, node, Join(shown, name));
      } else if (binder.IsSection(name)) {
        if (node.is_table()) {
          Walk(binder, *node.as_table(), name, shown);
        } else {
          Report(node, Join(shown, name),
                 "is a section, expected [" + name + "] and its keys below.");
        }
      } else {
        Report(node, Join(shown, name),
               node.is_table() || node.is_array_of_tables() ? binder.UnknownTable(name)
                                                            : binder.UnknownKey(name));
      }
    }
  }

  void LoadKey(Key& key, const toml::node& node, const std::string& shown) {
    key.origin = Place(node);
    const Status status = AssignValue(key.field, node, key.options);
    if (!status.ok()) Report(node, shown, status.message());
  }

  void LoadNamedTables(TableList& list, const toml::node& node, const std::string& shown) {
    const toml::table* all = node.as_table();
    const bool tables = all != nullptr && std::all_of(all->begin(), all->end(), [](auto&& entry) {
                          return entry.second.is_table();
                        });
    if (!tables) {
      return Report(node, shown, "expected tables, each under [" + list.name + ".NAME].");
    }
    const auto count = static_cast<double>(all->size());
    if (count < list.options.min || count > list.options.max) {
      return Report(node, shown, "too few or too many tables: " + std::to_string(count) + ".");
    }
    list.origin = Place(node);
    list.resize(0);
    list.resize(all->size());
    size_t i = 0;
    for (const auto& [name, table] : *all) {
      const std::string named = Join(shown, name.str());
      if (!IsBareKey(name.str())) {
        Report(table, named, "expected a name of letters, digits, '_' and '-'.");
      }
      list.name_of(i) = name.str();
      Binder binder;
      list.bind(binder, i++);
      Load(binder, *table.as_table(), named);
    }
  }

  void LoadTables(TableList& list, const toml::node& node, const std::string& shown) {
    if (list.name_of) return LoadNamedTables(list, node, shown);
    const toml::array* array = node.as_array();
    const bool tables =
        array != nullptr && (array->empty() || array->is_homogeneous<toml::table>());
    if (!tables) return Report(node, shown, "expected tables, each under [[" + list.name + "]].");
    const auto count = static_cast<double>(array->size());
    if (count < list.options.min || count > list.options.max) {
      return Report(node, shown,
                    "too few or too many tables: " + std::to_string(array->size()) + ".");
    }
    list.origin = Place(node);
    list.resize(0);
    list.resize(array->size());
    for (size_t i = 0; i < array->size(); ++i) {
      Binder binder;
      list.bind(binder, i);
      Load(binder, *array->get(i)->as_table(), shown + "[" + std::to_string(i) + "]");
    }
  }

  const std::string file_;
  std::vector<std::string> errors_;
};

void Binder::Add(std::string name, Field field, KeyOptions options) {
  CheckNewName(name);
  TM_CHECK(ValueInRange(field, options) || options.required,
           name + ": the default is out of range");
  std::string value = FormatValue(field);
  keys_.push_back({std::move(name), field, std::move(options), std::move(value), ""});
}

void Binder::AddTables(TableList list) {
  CheckNewName(list.name);
  tables_.push_back(std::move(list));
}

void Binder::CheckNewName(const std::string& name) const {
  std::string_view rest = name;
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    TM_CHECK(IsBareKey(rest.substr(0, dot)), name + ": not a key");
    if (dot == rest.size()) break;
    rest.remove_prefix(dot + 1);
  }
  for (const std::string& other : Names()) {
    const bool clash =
        other == name || other.starts_with(name + ".") || name.starts_with(other + ".");
    TM_CHECK(!clash, name + ": declared beside " + other);
  }
}

Binder::Key* Binder::Find(std::string_view name) {
  auto it = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == name; });
  return it == keys_.end() ? nullptr : &*it;
}

Binder::TableList* Binder::FindTables(std::string_view name) {
  auto it = std::find_if(tables_.begin(), tables_.end(),
                         [&](const TableList& list) { return list.name == name; });
  return it == tables_.end() ? nullptr : &*it;
}

bool Binder::IsSection(std::string_view name) const {
  const std::string prefix = std::string(name) + ".";
  const std::vector<std::string> names = Names();
  return std::any_of(names.begin(), names.end(), [&](auto& n) { return n.starts_with(prefix); });
}

std::vector<std::string> Binder::Names() const {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(key.name);
  for (const TableList& list : tables_) names.push_back(list.name);
  return names;
}

Status Binder::LoadFile(const std::string& path) {
  const Result<std::string> text = ReadFileBounded(path, kFileBytesMax);
  if (!text.ok()) return Invalid(text.status().message());
  return LoadText(*text, path);
}

Status Binder::LoadText(std::string_view toml, const std::string& file_name) {
  Loader loader(file_name);
  try {
    const toml::table table = toml::parse(toml);
    loader.Load(*this, table, "");
  } catch (const toml::parse_error& error) {
    return Invalid(file_name + ":" + std::to_string(error.source().begin.line) +
                   ": not valid TOML: " + std::string(error.description()));
  }
  return loader.Finish();
}

Status Binder::Load(const std::string& path, const std::vector<std::string>& assignments) {
  if (!path.empty()) TM_RETURN_IF_ERROR(LoadFile(path));
  for (const std::string& assignment : assignments) TM_RETURN_IF_ERROR(Set(assignment));
  return Ok();
}

Status Binder::Set(std::string_view assignment) {
  const std::string place = "--set " + std::string(assignment);
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Invalid(place + ": expected --set key=value");
  }
  const std::string name(assignment.substr(0, equals));
  const std::string_view text = assignment.substr(equals + 1);
  if (Key* key = Find(name)) {
    const Status status = AssignText(key->field, text, key->options);
    if (status.ok()) key->origin = place;
    return status.WithContext(place + ": " + name);
  }
  for (Key& key : keys_) {
    auto* const* map = std::get_if<std::map<std::string, double>*>(&key.field);
    if (map == nullptr || !name.starts_with(key.name + ".")) continue;
    double number = 0;
    TM_RETURN_IF_ERROR(
        AssignText(Field(&number), text, key.options).WithContext(place + ": " + name));
    (**map)[name.substr(key.name.size() + 1)] = number;
    key.origin = place;
    return Ok();
  }
  if (const std::optional<Status> set = SetInTables(name, text, place)) return *set;
  if (FindTables(name) != nullptr) {
    return Invalid(place + ": " + name + ": a list of tables, which is given in a file, under [[" +
                   name + "]].");
  }
  if (IsSection(name))
    return Invalid(place + ": " + name + ": is a section, expected one of its keys.");
  return Invalid(place + ": " + name + ": " + UnknownKey(name));
}

// The table is made where it is not there yet.
std::optional<Status> Binder::SetInTables(std::string_view name, std::string_view text,
                                          const std::string& place) {
  for (TableList& list : tables_) {
    if (!list.name_of || !name.starts_with(list.name + ".")) continue;
    const std::string_view rest = name.substr(list.name.size() + 1);
    const size_t dot = rest.find('.');
    const std::string table(rest.substr(0, dot));
    if (dot == std::string_view::npos || !IsBareKey(table)) {
      return Invalid(place + ": " + std::string(name) + ": expected " + list.name + ".NAME.KEY");
    }
    size_t at = 0;
    while (at < list.size() && list.name_of(at) < table) ++at;
    if (at == list.size() || list.name_of(at) != table) {
      if (static_cast<double>(list.size() + 1) > list.options.max) {
        return Invalid(place + ": too many tables under [" + list.name + "]");
      }
      list.insert(at);
      list.name_of(at) = table;
    }
    list.origin = place;
    Binder binder;
    list.bind(binder, at);
    return binder.Set(std::string(rest.substr(dot + 1)) + "=" + std::string(text))
        .WithContext(place + ": " + list.name + "." + table);
  }
  return std::nullopt;
}

std::string Binder::UnknownKey(std::string_view name) const {
  for (const auto& [before, now] : renamed_) {
    if (name != before && !name.starts_with(before + ".")) continue;
    return "[" + before + "] is now called [" + now + "].";
  }
  return "unknown key." + DidYouMean(std::string(name), Names());
}

std::string Binder::UnknownTable(std::string_view name) const {
  for (const auto& [before, now] : renamed_) {
    if (name == before) return UnknownKey(name);
  }
  std::vector<std::string> sections;
  for (const std::string& key : Names()) {
    const std::string section = SectionOf(key);
    if (!section.empty() && std::find(sections.begin(), sections.end(), section) == sections.end())
      sections.push_back(section);
  }
  for (const TableList& list : tables_) sections.push_back(list.name);
  const std::string nearest = NearestWord(name, sections);
  return nearest.empty() ? "unknown table." : "unknown table. Did you mean [" + nearest + "]?";
}

Status Binder::Error(std::string_view name, std::string_view what) const {
  std::string origin;
  for (const Key& key : keys_) {
    if (key.name == name) origin = key.origin;
  }
  for (const TableList& list : tables_) {
    if (name == list.name || name.starts_with(list.name + "[")) origin = list.origin;
  }
  if (origin.empty()) origin = "config";
  return Invalid(origin + ": " + std::string(name) + ": " + std::string(what));
}

std::string Binder::ToToml(std::string_view header) const {
  std::ostringstream out;
  std::istringstream lines{std::string(header)};
  for (std::string line; std::getline(lines, line);) out << "# " << line << "\n";
  std::vector<std::string> sections = {""};
  std::vector<std::pair<std::string, std::string>> values;
  for (const Key& key : keys_) values.emplace_back(key.name, FormatValue(key.field));
  // An empty list has to be said, or reading would bring a default list back.
  for (const TableList& list : tables_) {
    if (list.size() == 0 && !list.name_of) values.emplace_back(list.name, "[]");
  }
  for (const auto& [name, value] : values) {
    const std::string section = SectionOf(name);
    if (std::find(sections.begin(), sections.end(), section) == sections.end())
      sections.push_back(section);
  }
  for (const std::string& section : sections) {
    if (!section.empty()) out << "\n[" << section << "]\n";
    for (const auto& [name, value] : values) {
      if (SectionOf(name) != section) continue;
      out << name.substr(section.empty() ? 0 : section.size() + 1) << " = " << value << "\n";
    }
  }
  for (const TableList& list : tables_) {
    for (size_t i = 0; i < list.size(); ++i) {
      Binder binder;
      list.bind(binder, i);
      if (list.name_of) {
        out << "\n[" << list.name << "." << list.name_of(i) << "]\n";
      } else {
        out << "\n[[" << list.name << "]]\n";
      }
      for (const Key& key : binder.keys_) {
        const std::string value = FormatValue(key.field);
        if (!value.empty()) out << key.name << " = " << value << "\n";
      }
    }
  }
  return out.str();
}

std::string Binder::ToMarkdown() const {
  std::ostringstream out;
  out << "| key | type | default | limits | what it does |\n| --- | --- | --- | --- | --- |\n";
  auto row = [&out](const std::string& name, const Key& key) {
    const std::string shown = key.default_text.empty() ? "" : "`" + key.default_text + "`";
    const std::string default_text = key.options.required ? "required" : shown;
    out << "| `" << name << "` | " << TypeName(key.field) << " | " << Escaped(default_text) << " | "
        << Escaped(LimitsText(key.field, key.options)) << " | " << Escaped(key.options.doc)
        << " |\n";
  };
  for (const Key& key : keys_) row(key.name, key);
  for (const TableList& list : tables_) {
    const std::string title = list.name_of ? "[" + list.name + ".NAME]" : "[[" + list.name + "]]";
    const std::string prefix = list.name + (list.name_of ? ".NAME." : "[].");
    out << "| `" << title << "` | " << (list.name_of ? "tables with names" : "list of tables")
        << " | | | " << Escaped(list.options.doc) << " |\n";
    list.with_sample([&](const Binder& sample) {
      for (const Key& key : sample.keys_) row(prefix + key.name, key);
    });
  }
  return out.str();
}

}  // namespace tidemill
