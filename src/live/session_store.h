// Where sessions and their turns are kept: the run's database, or, of episodes, a process's memory.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "store/store_port.h"

namespace tidemill {

using SessionOp = std::variant<PutSession, PutSessionTurn>;

class SessionStore {
 public:
  virtual ~SessionStore() = default;
  // Answered with the tag. kUnavailable: the close of a session is submitted again.
  virtual void Submit(SessionOp op, uint64_t tag) = 0;
  virtual Mailbox<StoreDone>& events() = 0;
};

// That of a run's database. The port must outlive it.
class RunSessionStore final : public SessionStore {
 public:
  explicit RunSessionStore(StorePort& store) : store_(store) {}

  void Submit(SessionOp op, uint64_t tag) override {
    std::visit([&](auto& one) { store_.Submit(std::move(one), tag); }, op);
  }
  Mailbox<StoreDone>& events() override { return store_.events(); }

 private:
  StorePort& store_;
};

}  // namespace tidemill
