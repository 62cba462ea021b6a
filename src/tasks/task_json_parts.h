// Parts of a task as JSON that several of its objects have: files, sources of files, commands, and
// what a grading by a command adds. Of task_json.cc alone.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "proto/tidemill.pb.h"
#include "tasks/object_reader.h"

namespace tidemill {

using TaskFiles = google::protobuf::RepeatedPtrField<v1::File>;
using TaskWords = google::protobuf::RepeatedPtrField<std::string>;

// {"path": "content", ..} in the order of the paths.
void ReadTaskFiles(ObjectReader& parent, const char* name, TaskFiles* files,
                   std::vector<std::string>& errors);
// A list of strings that replaces what is there, where there is one.
void ReadTaskWords(ObjectReader& reader, const char* name, TaskWords* words);
// "limits" of an object.
void ReadTaskLimits(ObjectReader& parent, v1::Limits& limits, std::vector<std::string>& errors);
nlohmann::json TaskLimitsToJson(const v1::Limits& limits);
// {"folder": ..} | {"archive": ..} | {"git": .., "commit": ..}, each with "subfolder". False: the
// field is absent or wrong.
bool ReadFileSourceJson(ObjectReader& parent, const char* name, v1::FileSource* source,
                        std::vector<std::string>& errors);
// "command" and what goes with it.
void ReadCommandGrading(ObjectReader& reader, v1::Grading& grading,
                        std::vector<std::string>& errors);
// "solution": {"files" | "from" | "patch" | "command" | "answer"}.
void ReadSolution(ObjectReader& parent, v1::Task& task, std::vector<std::string>& errors);
// "weights", "metadata", "root", "prompt_files", "workspace", "agent".
void ReadTaskExtras(ObjectReader& reader, v1::Task& task, std::vector<std::string>& errors);

nlohmann::json TaskFilesToJson(const TaskFiles& files);
void CommandGradingToJson(const v1::Grading& grading, nlohmann::ordered_json& out);
void TaskExtrasToJson(const v1::Task& task, nlohmann::ordered_json& out);
nlohmann::ordered_json SolutionToJson(const v1::Solution& solution);

}  // namespace tidemill
