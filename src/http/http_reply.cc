#include "http/http_reply.h"

#include <utility>

namespace tidemill {

class ReplyPipe::Writer final : public HttpReply {
 public:
  explicit Writer(std::shared_ptr<ReplyPipe> pipe) : pipe_(std::move(pipe)) {}
  ~Writer() override {
    pipe_->Put([](ReplyPipe& pipe) TM_REQUIRES(pipe.mutex_) {
      pipe.notice_ = nullptr;
      if (!pipe.answered_) {
        pipe.piece_.whole = ErrorResponse(500, "the request was dropped without an answer");
      }
      pipe.piece_.cut = pipe.answered_;
      pipe.answered_ = pipe.ended_ = true;
    });
  }

  void Send(HttpResponse response) override {
    pipe_->Put([&](ReplyPipe& pipe) TM_REQUIRES(pipe.mutex_) {
      TM_CHECK(!pipe.answered_, "a second answer to one request");
      pipe.piece_.whole = std::move(response);
      pipe.answered_ = pipe.ended_ = true;
    });
  }
  void Begin(HttpResponse head) override {
    pipe_->Put([&](ReplyPipe& pipe) TM_REQUIRES(pipe.mutex_) {
      TM_CHECK(!pipe.answered_, "a second answer to one request");
      pipe.piece_.head = std::move(head);
      pipe.answered_ = true;
    });
  }
  void Write(std::string bytes) override {
    pipe_->Put([&](ReplyPipe& pipe) TM_REQUIRES(pipe.mutex_) { pipe.piece_.bytes += bytes; });
  }
  void End() override {
    pipe_->Put([](ReplyPipe& pipe)
                   TM_REQUIRES(pipe.mutex_) { pipe.piece_.ended = pipe.ended_ = true; });
  }

  bool Behind(size_t bytes) override {
    MutexLock lock(pipe_->mutex_);
    if (pipe_->piece_.bytes.size() + pipe_->in_flight_ <= bytes) return false;
    pipe_->behind_ = true;
    return true;
  }
  bool gone() const override {
    MutexLock lock(pipe_->mutex_);
    return pipe_->gone_;
  }
  void Watch(std::function<void()> notice) override {
    MutexLock lock(pipe_->mutex_);
    if (pipe_->gone_) return notice();
    pipe_->notice_ = std::move(notice);
  }

 private:
  const std::shared_ptr<ReplyPipe> pipe_;  // shared with the connection
};

std::unique_ptr<HttpReply> ReplyPipe::WriterOf(std::shared_ptr<ReplyPipe> pipe) {
  return std::make_unique<Writer>(std::move(pipe));
}

template <typename Change>
void ReplyPipe::Put(Change change) {
  MutexLock lock(mutex_);
  if (gone_ || ended_) return;
  const bool waits = piece_.head || !piece_.bytes.empty();
  change(*this);
  if (!waits || ended_) wake_();
}

ReplyPipe::Piece ReplyPipe::Take() {
  MutexLock lock(mutex_);
  in_flight_ += piece_.bytes.size();
  return std::exchange(piece_, {});
}

void ReplyPipe::Taken() {
  MutexLock lock(mutex_);
  in_flight_ = 0;
  if (!behind_ || !piece_.bytes.empty()) return;
  behind_ = false;
  if (notice_) notice_();
}

void ReplyPipe::Leave() {
  MutexLock lock(mutex_);
  wake_ = [] {};
  if (gone_) return;
  gone_ = true;
  piece_ = {};
  in_flight_ = 0;
  if (!ended_ && notice_) notice_();
  notice_ = nullptr;
}

}  // namespace tidemill
