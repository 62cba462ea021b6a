// Words of a command that tell a server where it asks the model.
#pragma once

#include <string>
#include <vector>

namespace tidemill {

// The key that the server asks with; a command that has it serves one episode at a time.
inline constexpr char kModelKeyWord[] = "{model_key}";

// Fills in {model_url} and {model_key}. Returns what each server's key begins with, before '-' and
// its number; empty: the command has no key.
std::string FillModelWords(const std::string& model_url, std::vector<std::string>& command);

}  // namespace tidemill
