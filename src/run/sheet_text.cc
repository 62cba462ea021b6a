#include "run/sheet_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace tidemill {
namespace {

constexpr size_t kSheetBytes = 4 << 20;
constexpr std::string_view kSignatureMark = "ed25519 ";

}  // namespace

std::string RunSheet::ToJson() const {
  nlohmann::ordered_json json;
  json["run"] = run;
  json["program"] = program;
  json["messages"] = messages;
  json["host"] = host;
  json["shm_domain"] = shm_domain;
  json["pid"] = pid;
  json["version"] = version;
  json["incarnation"] = incarnation;
  json["shm"] = shm;
  json["weights_folder"] = weights_folder;
  json["config"] = config;
  for (const ModelFile& file : model_files) {
    json["model_files"].push_back({{"folder", file.folder},
                                   {"name", file.name},
                                   {"bytes", file.bytes},
                                   {"sha256", file.sha256}});
  }
  if (ended) json["ended"] = true;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<RunSheet> RunSheet::FromJson(std::string_view text) {
  if (text.size() > kSheetBytes) return Invalid("the run sheet is larger than 4 MiB");
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return Invalid("the run sheet is not a JSON object");
  RunSheet sheet;
  const char* at = "";
  bool right = true;
  try {
    const auto get = [&](const char* name, auto& field) {
      const nlohmann::json& value = json.at(at = name);
      constexpr bool number = std::is_integral_v<std::decay_t<decltype(field)>>;
      right &= !number || value.is_number_unsigned();
      if (right) value.get_to(field);
    };
    get("run", sheet.run);
    get("program", sheet.program);
    get("messages", sheet.messages);
    get("host", sheet.host);
    get("shm_domain", sheet.shm_domain);
    get("pid", sheet.pid);
    get("version", sheet.version);
    get("incarnation", sheet.incarnation);
    get("shm", sheet.shm);
    get("weights_folder", sheet.weights_folder);
    get("config", sheet.config);
    sheet.ended = json.value(at = "ended", false);
    for (const nlohmann::json& row : json.value(at = "model_files", nlohmann::json::array())) {
      ModelFile& file = sheet.model_files.emplace_back();
      row.at("folder").get_to(file.folder);
      row.at("name").get_to(file.name);
      right &= row.at("bytes").is_number_unsigned();
      if (right) row.at("bytes").get_to(file.bytes);
      row.at("sha256").get_to(file.sha256);
      TM_RETURN_IF_ERROR(CheckModelFile(file).WithContext("the run sheet"));
    }
  } catch (const nlohmann::json::exception&) {
    return Invalid("the run sheet: \"" + std::string(at) + "\" is missing or has the wrong type");
  }
  if (!right || sheet.pid < 1 || sheet.pid > INT32_MAX) {
    return Invalid("the run sheet: a number is not a whole number, or \"pid\" is not a process id");
  }
  return sheet;
}

std::string SignSheet(const std::string& json, const std::optional<SigningKey>& key) {
  if (!key) return json;
  return std::string(kSignatureMark) + key->Sign(json) + "\n" + json;
}

Result<RunSheet> OpenSheet(std::string_view text, const std::optional<SigningKey>& key) {
  std::string_view signature;
  if (text.starts_with(kSignatureMark)) {
    const size_t end = std::min(text.find('\n'), text.size());
    signature = text.substr(kSignatureMark.size(), end - kSignatureMark.size());
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  if (key && signature.empty()) return Invalid("the run sheet is not signed");
  if (key && !key->Verifies(text, signature)) {
    return Invalid(
        "the signature of the run sheet is wrong: signed by another key, or changed since");
  }
  TM_ASSIGN_OR_RETURN(RunSheet sheet, RunSheet::FromJson(text));
  sheet.signed_by_learner = key.has_value();
  return sheet;
}

bool SheetOrder::Take(const RunSheet& sheet) {
  if (sheet.version < version_ && sheet.incarnation < incarnation_) return false;
  version_ = sheet.version;
  incarnation_ = sheet.incarnation;
  return true;
}

}  // namespace tidemill
