#include "scale/launch/yaml_text.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace tidemill {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A word that no parser takes for a number, a truth value, a date or null. "true" and "yes" of YAML
// 1.1 are quoted like all of their kind.
bool IsPlainWord(const std::string& text) {
  if (text.empty() || !std::isalpha(static_cast<unsigned char>(text[0]))) return false;
  const bool letters = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("-_./").find(static_cast<char>(c)) != std::string_view::npos;
  });
  std::string small = text;
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const char* value : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (small == value) return false;
  }
  return letters;
}

// Text of several lines that a literal block gives back unchanged.
bool IsBlock(const std::string& text) {
  if (text.find('\n') == std::string::npos || text.back() != '\n') return false;
  if (text[0] == ' ' || text[0] == '\n' || text.find("\n\n\n") != std::string::npos) return false;
  if (text.size() > 1 && text[text.size() - 2] == '\n') return false;
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); });
}

std::string Key(const std::string& key) {
  return IsPlainWord(key) ? key : OrderedJson(key).dump();
}

void Write(const OrderedJson& json, size_t indent, std::string& text);

std::string Indent(size_t indent) {
  return std::string(indent, ' ');
}

// Behind "key:" or "-".
void WriteValue(const OrderedJson& json, size_t indent, bool in_list, std::string& text) {
  if (json.is_structured() && !json.empty()) {
    if (in_list && json.is_object()) {
      std::string below;
      Write(json, indent, below);
      text += " " + below.substr(indent);
      return;
    }
    text += "\n";
    return Write(json, indent, text);
  }
  if (json.is_string()) {
    const auto& value = json.get_ref<const std::string&>();
    if (!IsBlock(value)) {
      text += " " + (IsPlainWord(value) ? value : json.dump()) + "\n";
      return;
    }
    text += " |\n";
    for (size_t begin = 0; begin < value.size();) {
      const size_t end = value.find('\n', begin);
      if (end > begin) text += Indent(indent) + value.substr(begin, end - begin);
      text += "\n";
      begin = end + 1;
    }
    return;
  }
  text += " " + json.dump() + "\n";
}

void Write(const OrderedJson& json, size_t indent, std::string& text) {
  if (json.is_array()) {
    for (const OrderedJson& item : json) {
      text += Indent(indent) + "-";
      WriteValue(item, indent + 2, true, text);
    }
    return;
  }
  for (const auto& [key, value] : json.items()) {
    text += Indent(indent) + Key(key) + ":";
    WriteValue(value, indent + 2, false, text);
  }
}

}  // namespace

std::string YamlText(const nlohmann::ordered_json& json) {
  std::string text;
  Write(json, 0, text);
  return text;
}

}  // namespace tidemill
