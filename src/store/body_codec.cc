#include "store/body_codec.h"

#include <zstd.h>

namespace tidemill {

static constexpr size_t kKeptBytes = size_t{8} << 20;

struct BodyCodec::Contexts {
  ZSTD_CCtx* compress = ZSTD_createCCtx();
  ZSTD_DCtx* decompress = ZSTD_createDCtx();
  ~Contexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
};

BodyCodec::BodyCodec() : contexts_(std::make_unique<Contexts>()) {
  TM_CHECK(contexts_->compress != nullptr && contexts_->decompress != nullptr, "out of memory");
  // Token ids shrink well at the fastest level, log-probabilities hardly at any.
  ZSTD_CCtx_setParameter(contexts_->compress, ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(contexts_->compress, ZSTD_c_checksumFlag, 1);
}

BodyCodec::~BodyCodec() = default;

Result<std::string> BodyCodec::Pack(const google::protobuf::MessageLite& message) {
  const size_t size = message.ByteSizeLong();
  if (size > kBodyBytesMax) {
    return Invalid("a message of " + std::to_string(size) + " bytes is larger than the limit of " +
                   std::to_string(kBodyBytesMax));
  }
  plain_.clear();
  TM_CHECK(message.AppendPartialToString(&plain_), "a message under the limit serializes");
  std::string packed(ZSTD_compressBound(plain_.size()), '\0');
  const size_t written = ZSTD_compress2(contexts_->compress, packed.data(), packed.size(),
                                        plain_.data(), plain_.size());
  if (ZSTD_isError(written)) return Internal(std::string("zstd: ") + ZSTD_getErrorName(written));
  packed.resize(written);
  return packed;
}

Status BodyCodec::Unpack(std::string_view packed, google::protobuf::MessageLite& message) {
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > kBodyBytesMax) {
    return Corrupt("the stored body is not a zstd frame of a known size");
  }
  // The memory for one large body is not held for ever.
  if (plain_.capacity() > kKeptBytes && size <= kKeptBytes) std::string().swap(plain_);
  plain_.resize(size);
  const size_t written = ZSTD_decompressDCtx(contexts_->decompress, plain_.data(), plain_.size(),
                                             packed.data(), packed.size());
  if (ZSTD_isError(written)) {
    return Corrupt(std::string("the stored body cannot be decompressed: ") +
                   ZSTD_getErrorName(written));
  }
  if (written != size || !message.ParseFromArray(plain_.data(), static_cast<int>(size))) {
    return Corrupt("the stored body is not the expected message");
  }
  return Ok();
}

}  // namespace tidemill
