// One task as JSON: the fields of docs/tasks.md, read with every mistake named, and written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Leaves what is wrong in `errors`, which must be empty; the task is complete only if it stays so.
v1::Task TaskFromJson(const nlohmann::json& object, std::vector<std::string>& errors);

// What stands in `examples` as in `grading` is left out there.
nlohmann::ordered_json TaskToJson(const v1::Task& task);

}  // namespace tidemill
