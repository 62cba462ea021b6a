// The run's sheet as text: what is in it, how it is written, signed and read again. run_sheet.h
// says where it lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/signature.h"
#include "core/status.h"
#include "run/model_file.h"

namespace tidemill {

struct RunSheet {
  std::string run;
  std::string config;          // as TOML, every key; paths absolute
  std::string program;         // its version, for people
  uint32_t messages = 0;       // version of the messages, core/version.h
  std::string host;            // for people
  std::string shm_domain;      // see weights/shm_weights.h
  int64_t pid = 0;             // in that domain
  uint64_t version = 0;        // the first it published; a run that goes on begins above all before
  uint64_t incarnation = 0;    // of this learner; another one, and the weights are elsewhere
  std::string shm;             // where the weights are in memory; empty: nowhere
  std::string weights_folder;  // and in files, once somebody asked
  std::vector<ModelFile> model_files;  // what a worker reads besides, on the broker once it asked
  bool ended = false;                  // the run is done: workers need not wait for another learner
  bool signed_by_learner = false;      // not in the sheet: its signature was checked

  std::string ToJson() const;
  // kInvalid names the field.
  static Result<RunSheet> FromJson(std::string_view json);
};

// Tells a sheet that is written again from those of earlier learners: a signature says who wrote it
// and not when. For one reader of one run.
class SheetOrder {
 public:
  // False: an earlier learner wrote it than one whose sheet was taken before. A learner that goes
  // on publishes versions above all before, whatever its clock says; one that begins anew has a
  // later clock.
  bool Take(const RunSheet& sheet);

 private:
  uint64_t version_ = 0, incarnation_ = 0;  // of the sheet that was taken last
};

// "ed25519 SIGNATURE\n" and the sheet as JSON, or the JSON alone.
std::string SignSheet(const std::string& json, const std::optional<SigningKey>& key);
// With a key kInvalid where the holder of its private part did not sign this. Without one, any.
Result<RunSheet> OpenSheet(std::string_view text, const std::optional<SigningKey>& key);

}  // namespace tidemill
