// One task as JSON: the fields of docs/tasks.md, read with every mistake named, and written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"

namespace tidemill {

// Leaves what is wrong in `errors`, which must be empty; the task is complete only if it stays so.
v1::Task TaskFromJson(const nlohmann::json& object, std::vector<std::string>& errors);

// Fields of `examples` that equal those of `grading` are left out.
nlohmann::ordered_json TaskToJson(const v1::Task& task);

}  // namespace tidemill
