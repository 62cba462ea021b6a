#include "model/model_folder.h"

#include <algorithm>
#include <filesystem>

namespace tidemill {
namespace {

namespace fs = std::filesystem;

// "Qwen/Qwen2.5-0.5B-Instruct"
bool LooksLikeHubName(const std::string& name) {
  return std::count(name.begin(), name.end(), '/') == 1 && name.front() != '/' &&
         name.front() != '.' && name.front() != '~' && name.back() != '/';
}

}  // namespace

Status CheckModelFolder(const std::string& dir) {
  std::error_code error;
  if (fs::is_directory(dir, error)) return Ok();
  if (fs::exists(dir, error))
    return Invalid(dir + ": is a file; expected a Hugging Face directory with config.json");
  const bool hub = !dir.empty() && LooksLikeHubName(dir);
  const std::string name = hub ? dir : "ORG/NAME";
  const std::string to = hub ? fs::path(dir).filename().string() : dir;
  return NotFound(dir +
                  ": no such directory. Models are read from local directories and never "
                  "downloaded; get it first, for example: hf download " +
                  name + " --local-dir " + to + (hub ? ", and use " + to : ""));
}

Status NoWeightsIn(const std::string& dir) {
  std::error_code error;
  const auto has = [&](const char* file) { return fs::exists(dir + "/" + file, error); };
  if (has("adapter_model.safetensors")) {
    return NotFound(dir +
                    ": holds a LoRA adapter, no model; give its base model as the model and "
                    "this directory as the adapter (--adapter, model.adapter)");
  }
  if (has("pytorch_model.bin") || has("pytorch_model.bin.index.json")) {
    return NotFound(dir +
                    ": has its weights only in pytorch_model.bin, a pickle, which is not "
                    "read; convert it once with transformers: python3 -c \"from transformers "
                    "import AutoModelForCausalLM as M; M.from_pretrained('" +
                    dir + "').save_pretrained('" + dir + "')\"");
  }
  const std::string shape = has("config.json")
                                ? "; new ones in the shape of its config.json: tidemill warmup "
                                  "--from-config " +
                                      dir + ", or model.init = \"random\" for a run"
                                : "";
  return NotFound(dir + ": contains neither model.safetensors nor model.safetensors.index.json" +
                  shape);
}

}  // namespace tidemill
