#include "cli/model_import.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/gguf/gguf_import.h"

namespace tidemill {
namespace {

struct ImportWords {
  std::string file;
  std::string out;
  std::string dtype = "float32";
  bool json = false;
};

int Import(const ImportWords& words) {
  const Dtype dtype = words.dtype == "bfloat16" ? Dtype::kBF16 : Dtype::kF32;
  const auto imported = ImportGguf(words.file, words.out, {.dtype = dtype});
  if (!imported.ok()) return Fail(imported.status());
  if (words.json) {
    PrintJson({{"out", words.out},
               {"parameters", imported->parameters},
               {"tensors", imported->tensors},
               {"files", imported->files},
               {"dtype", words.dtype}});
  } else {
    std::printf("%s: %lld parameters in %s\n", words.out.c_str(),
                static_cast<long long>(imported->parameters), words.dtype.c_str());
  }
  return 0;
}

}  // namespace

void AddModelImport(CLI::App& model, Exit& exit) {
  CLI::App* command = model.add_subcommand("import", "Convert a GGUF file to a model directory");
  const auto words = std::make_shared<ImportWords>();  // shared with the callback, which runs later
  command->add_option("FILE", words->file, ".gguf file; any part of a split file")->required();
  command->add_option("--out", words->out, "Directory to create")->required();
  command->add_option("--dtype", words->dtype, "Type of the weights to write")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command->add_flag("--json", words->json, "Print one JSON object on standard output");
  command->callback([words, &exit] { exit.code = Import(*words); });
}

}  // namespace tidemill
