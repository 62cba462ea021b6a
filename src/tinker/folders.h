// Where the server keeps what it must still have when it is started again.
//
//   FOLDER/tinker.db
//   FOLDER/states/MODEL-SEQ               a model as of an operation, with its optimizer
//   FOLDER/samplers/SAMPLER, MODEL.inflight   weights of samplers without a name
//   FOLDER/checkpoints/MODEL/weights/NAME, .../sampler_weights/NAME
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidemill {

class TinkerFolders {
 public:
  explicit TinkerFolders(std::string root) : root_(std::move(root)) {}

  std::string Books() const { return root_ + "/tinker.db"; }
  std::string States() const { return root_ + "/states"; }
  std::string State(const std::string& model, int64_t seq) const {
    return States() + "/" + model + "-" + std::to_string(seq);
  }
  std::string Samplers() const { return root_ + "/samplers"; }
  std::string Sampler(const std::string& sampler) const { return Samplers() + "/" + sampler; }
  std::string Inflight(const std::string& model) const {
    return Samplers() + "/" + model + ".inflight";
  }
  // `id`: "weights/NAME" or "sampler_weights/NAME".
  std::string Checkpoint(const std::string& model, const std::string& id) const {
    return root_ + "/checkpoints/" + model + "/" + id;
  }

 private:
  std::string root_;
};

}  // namespace tidemill
