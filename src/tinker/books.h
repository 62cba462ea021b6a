// What the server must still know when it is killed and started again, in one SQLite file:
// sessions, models, operations with their results, samplers and checkpoints.
//
//   FOLDER/tinker.db
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "store/sqlite.h"

namespace tidemill {

struct SessionRow {
  std::string id = {};
  std::string tenant = {};
  std::string metadata = {};  // JSON object of strings
  int64_t created_ms = 0;
  int64_t beat_ms = 0;  // when the client was heard of last
  bool ended = false;
};

// What a model is made of, and how far it has come.
struct ModelRow {
  std::string id = {};  // "SESSION:train:N"
  std::string session = {};
  std::string tenant = {};
  std::string base = {};
  int64_t rank = 0;
  uint64_t seed = 0;
  bool attention = true, mlp = true;
  std::string from = {};  // tinker path of the checkpoint it was made from; empty: from nothing
  bool from_optimizer = false;  // with its moments
  std::string metadata = {};    // JSON object of strings
  int64_t created_ms = 0;
  int64_t last_ms = 0;      // of its last request
  int64_t saved_seq = -1;   // its state is saved as of this operation; -1: it is not
  std::string broken = {};  // why operations fail until the next step; empty: they do not
};

enum class OpKind : uint8_t {
  kCreate,
  kTrain,
  kStep,
  kSave,
  kSampler,
  kLoad,
  kRefusedTrain,  // it took its number and was refused, as its body says
  kRefused,       // the same of another kind
};

// One operation on a model, in the order of `seq`; 0 makes the model.
struct OpRow {
  std::string model;
  uint64_t seq = 0;
  OpKind kind = OpKind::kCreate;
  std::string body;  // what is asked, as its kind writes it; empty once it is not needed any more
  bool failed = false;
};

struct OpResult {
  bool done = false;
  bool failed = false;
  bool binary = false;  // protobuf of forward_backward, else JSON
  std::string body;
};

enum class SamplerKind : uint8_t { kBase, kSnapshot, kInflight };

struct SamplerRow {
  std::string id;  // "SESSION:sample:N"
  std::string session;
  std::string tenant;
  std::string base;
  SamplerKind kind = SamplerKind::kBase;
  std::string path;     // tinker path it was made from; may be empty
  std::string weights;  // what it samples: a folder, or of kInflight the model's id
};

struct CheckpointRow {
  std::string path;  // "tinker://MODEL/weights/NAME"
  std::string model;
  std::string tenant;
  bool training = true;  // with optimizer state; else for samplers
  std::string name;
  std::string folder;
  uint64_t bytes = 0;
  int64_t time_ms = 0;
  std::optional<int64_t> expires_ms;
  bool open = false;  // every tenant may read it
  std::string metadata;
};

// Thread-safe. A failure is the disk's: kUnavailable or kCorrupt, with the file's name. What was
// written is not lost when the process is killed.
class Books {
 public:
  static Result<std::unique_ptr<Books>> Open(const std::string& path);

  // The id of the session of an idempotency key of the tenant, made where there is none: "S1",
  // "S2", .. The id of `session` is not read.
  Result<std::string> MakeSession(const SessionRow& session, const std::string& key);
  Result<std::optional<SessionRow>> Session(const std::string& id);
  Result<std::vector<SessionRow>> Sessions(const std::string& tenant);
  // Those not heard of since.
  Result<std::vector<SessionRow>> SilentSince(int64_t ms);
  Status Beat(const std::string& id, int64_t ms);
  // All that have not ended count as heard of now.
  Status BeatAll(int64_t ms);
  // Ends it; operations and samplers of its own go with it.
  Status EndSession(const std::string& id);

  // With its first operation, which `body` says. False: it is there already.
  Result<bool> AddModel(const ModelRow& model, const std::string& body);
  Result<std::optional<ModelRow>> Model(const std::string& id);
  Result<std::vector<ModelRow>> Models(const std::string& tenant);
  Result<std::vector<ModelRow>> ModelsOf(const std::string& session);
  // Of sessions that have not ended.
  Result<std::vector<ModelRow>> LivingModels();
  // Making it failed.
  Result<bool> Unmade(const std::string& model);
  Status SetSaved(const std::string& model, int64_t seq);
  Status Touch(const std::string& model, int64_t ms);

  // False: there is one in its place already.
  Result<bool> AddOp(const OpRow& op);
  Result<std::optional<OpRow>> Op(const std::string& model, uint64_t seq);
  // Stores the result, and what keeps the model from going on (empty: nothing does).
  Status FinishOp(const std::string& model, uint64_t seq, const OpResult& result,
                  const std::string& broken, int64_t now_ms);
  // Nothing: there is no such operation (any more).
  Result<std::optional<OpResult>> ResultOf(const std::string& model, uint64_t seq);
  // Operations that are not done, in order; and the first number that none has had, where `next` is
  // what stands behind the last that is done.
  struct Waiting {
    uint64_t next = 0;
    std::vector<uint64_t> seqs;
  };
  Result<Waiting> WaitingOps(const std::string& model);
  // What was done behind `seq` and changed the model or its gradient, in order: passes and loads
  // that did not fail, and all steps, since one that failed cleared the gradient.
  Result<std::vector<OpRow>> DoneSince(const std::string& model, int64_t seq);
  // Bytes of bodies that DoneSince would give.
  Result<uint64_t> BytesSince(const std::string& model, int64_t seq);
  // Bytes of bodies that wait.
  Result<uint64_t> WaitingBytes(const std::string& model);
  // Results that are older go. Numbers stay taken.
  Status ForgetResults(int64_t before_ms);

  // False: it is there already.
  Result<bool> AddSampler(const SamplerRow& sampler);
  Result<std::optional<SamplerRow>> Sampler(const std::string& id);
  // The oldest first.
  Result<std::vector<SamplerRow>> SamplersOf(const std::string& session);
  Status DropSampler(const std::string& id);

  Status PutCheckpoint(const CheckpointRow& checkpoint);
  Result<std::optional<CheckpointRow>> Checkpoint(const std::string& path);
  // Of one model, or with an empty `model` of all of the tenant's.
  Result<std::vector<CheckpointRow>> Checkpoints(const std::string& tenant,
                                                 const std::string& model);
  Result<std::vector<CheckpointRow>> ExpiredBy(int64_t ms);
  Status DropCheckpoint(const std::string& path);

 private:
  explicit Books(std::unique_ptr<Database> db) : db_(std::move(db)) {}
  template <typename... Args>
  Status Run(std::string_view sql, const Args&... args) TM_REQUIRES(mutex_);
  template <typename Row, typename... Args>
  Result<std::vector<Row>> Read(std::string_view sql, Row (*take)(const Statement&),
                                const Args&... args) TM_REQUIRES(mutex_);
  template <typename Row, typename... Args>
  Result<std::optional<Row>> ReadOne(std::string_view sql, Row (*take)(const Statement&),
                                     const Args&... args) TM_REQUIRES(mutex_);
  Result<Statement*> Prepared(std::string_view sql) TM_REQUIRES(mutex_);

  Mutex mutex_;
  std::unique_ptr<Database> db_;  // before the statements, which it outlives
  std::map<std::string, Statement, std::less<>> statements_ TM_GUARDED_BY(mutex_);
};

}  // namespace tidemill
