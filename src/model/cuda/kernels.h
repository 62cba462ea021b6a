// The kernels of a decoder on a GPU that no library has, as plain functions: nothing here needs
// CUDA's or libtorch's headers, and nothing here waits. Every pointer is device memory unless said
// otherwise; numbers are float32 or bfloat16 (CudaType), sums are always float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/activation.h"

struct CUstream_st;

namespace tidemill {

using CudaStream = CUstream_st*;

enum class CudaType : uint8_t { kF32, kBF16 };
inline size_t CudaTypeBytes(CudaType type) {
  return type == CudaType::kF32 ? 4 : 2;
}

// Positions in a page of the cache.
inline constexpr int kCudaPageSlots = 16;

// One row of a step: a token (negative: ~token is which draw of the step before it is), its place
// in its sequence (negative: padding, nothing of it is kept) and where the list of its sequence's
// pages begins in `pages`.
struct CudaRow {
  int32_t token = 0;
  int32_t position = -1;
  int32_t pages = 0;
  int32_t unused = 0;
};

// The cache of one layer: pages of [2][kv_heads][kCudaPageSlots][head_dim], keys before values.
struct CudaHeads {
  CudaType type = CudaType::kBF16;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  constexpr int QkvWidth() const { return (heads + 2 * kv_heads) * head_dim; }
  constexpr size_t PageNumbers() const {
    return static_cast<size_t>(2) * static_cast<size_t>(kv_heads) *
           static_cast<size_t>(kCudaPageSlots) * static_cast<size_t>(head_dim);
  }
};

struct CudaDrawn {
  int32_t token = 0;  // negative: the logits are not finite
  float logprob = 0;
};

// x[r] = scale table[row r's token], in float32.
struct CudaEmbedArgs {
  CudaType type = CudaType::kBF16;
  const CudaRow* rows = nullptr;
  int count = 0;
  const CudaDrawn* drawn = nullptr;  // by the step before
  const void* table = nullptr;
  int width = 0;
  float scale = 1;
  float* x = nullptr;
};
void CudaEmbed(const CudaEmbedArgs& args, CudaStream stream);

// out[r] = x[s] / rms(x[s]) * (offset + weight) with s = `select[r]`, or r without. With `bias`,
// x[s] += bias first, which is kept where no rows are selected (one may be selected several times).
struct CudaNormArgs {
  CudaType type = CudaType::kBF16;
  float* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const int32_t* select = nullptr;
  void* out = nullptr;
  int rows = 0;
  int width = 0;  // a multiple of 4
  float eps = 0;
  float offset = 0;
};
void CudaNorm(const CudaNormArgs& args, CudaStream stream);

// x[r] += (from[r] + bias) / its rms * (offset + weight): a norm behind a product.
struct CudaAddNormArgs {
  CudaType type = CudaType::kBF16;
  const float* from = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;  // or null
  float* x = nullptr;
  int rows = 0;
  int width = 0;  // a multiple of 4
  float eps = 0;
  float offset = 0;
};
void CudaAddNorm(const CudaAddNormArgs& args, CudaStream stream);

// out[i] = x[i] in `type`. `count` is a multiple of 4.
void CudaNarrow(CudaType type, const float* x, int64_t count, void* out, CudaStream stream);

// Queries and keys of each row are normalized (where there are weights) and rotated; queries stay
// in place, keys and values go to the row's page.
struct CudaRotateArgs {
  CudaHeads heads;
  void* qkv = nullptr;  // [rows, QkvWidth()]
  const CudaRow* rows = nullptr;
  const int32_t* pages = nullptr;
  int count = 0;
  const void* q_norm = nullptr;
  const void* k_norm = nullptr;
  bool whole_norm = false;  // all queries of a row are one vector, and all keys
  float eps = 0;
  float offset = 0;            // norms multiply by offset + weight
  const float* cos = nullptr;  // [position, head_dim / 2]
  const float* sin = nullptr;
  void* cache = nullptr;  // of this layer
};
void CudaRotate(const CudaRotateArgs& args, CudaStream stream);

// Part of a prompt: `length` rows from `row` on, their positions from `first` on; `tile` of its
// tiles of 64 query vectors is computed by one block.
struct CudaPrefillTile {
  int32_t row = 0;
  int32_t length = 0;
  int32_t first = 0;
  int32_t pages = 0;
  int32_t tile = 0;
};
inline constexpr int kCudaPrefillVectors = 64;  // query vectors of one key head in a tile

// Rows against the cache, which holds their own keys already. `splits` > 1 cuts long contexts into
// that many parts; `partial` then holds splits * rows * heads * (head_dim + 2) floats.
struct CudaAttentionArgs {
  CudaHeads heads;
  const void* qkv = nullptr;  // queries in front of each row
  void* out = nullptr;        // [rows, heads * head_dim]
  const CudaRow* rows = nullptr;
  const int32_t* pages = nullptr;
  int count = 0;
  const void* cache = nullptr;
  float scale = 1;  // of products of queries and keys
  int window = 0;   // a row sees itself and window - 1 positions before it; 0: all
  int splits = 1;
  float* partial = nullptr;
  // With these, rows come as they left the product: decode attention rotates queries and the key
  // itself and writes key and value to the cache (fast kernels only, and rows of different
  // sequences).
  const float* cos = nullptr;  // [position, head_dim / 2]
  const float* sin = nullptr;
};
void CudaDecodeAttention(const CudaAttentionArgs& args, CudaStream stream);
void CudaPrefillAttention(const CudaAttentionArgs& args, const CudaPrefillTile* tiles, int count,
                          CudaStream stream);
// Whether the two above use the matrix units (bfloat16, heads of 64 or 128, at most 16 queries to a
// key head). Otherwise every row goes through a plain kernel, and CudaPrefillAttention must not be
// called.
bool CudaFastAttention(const CudaHeads& heads);

// out = activation(gate) * up; gate_up is [rows, 2 * width].
void CudaGate(Activation activation, CudaType type, const void* gate_up, int rows, int width,
              void* out, CudaStream stream);

// How a token is drawn; with the position the seed decides.
struct CudaDraw {
  uint64_t seed = 0;
  int32_t position = 0;
  float inverse_temperature = 0;  // 0: the most likely token
  int32_t mask = 0;               // 1 and up: drawn among the tokens of that mask; 0: among all
};
// Statistics of kCudaPartColumns columns of a row of logits.
struct CudaPart {
  float top = 0;  // the largest logit
  float sum = 0;  // of exp((logit - top) * inverse temperature)
  int32_t token = 0;
  float logit = 0;  // of that token: drawn from this part
};
inline constexpr int kCudaPartColumns = 4096;

// Logits [draws, stride] of columns [first_column, first_column + columns), which begins a part;
// writes parts[draw * part_stride + part].
struct CudaPartArgs {
  const float* logits = nullptr;
  int64_t stride = 0;  // a multiple of 4
  const CudaDraw* draws = nullptr;
  int count = 0;
  int first_column = 0;
  int columns = 0;
  const uint32_t* masks = nullptr;  // [masks, mask_words], a bit for each column
  int mask_words = 0;
  CudaPart* parts = nullptr;
  int part_stride = 0;
};
void CudaDrawParts(const CudaPartArgs& args, CudaStream stream);
// One of the parts by their weight: for the next step, and for the host in block `*told_block`.
struct CudaFinishArgs {
  const CudaPart* parts = nullptr;
  int part_stride = 0;
  int part_count = 0;
  const CudaDraw* draws = nullptr;
  int count = 0;
  CudaDrawn* drawn = nullptr;
  CudaDrawn* told = nullptr;  // host memory the device sees, blocks of `told_stride`
  int told_stride = 0;
  const int32_t* told_block = nullptr;
};
void CudaDrawFinish(const CudaFinishArgs& args, CudaStream stream);

// A large copy at the speed of the memory; both ends are multiples of 16 bytes.
void CudaCopyBlock(const void* from, void* to, size_t bytes, CudaStream stream);

// Copies pages in every layer: pages[i].from into pages[i].to. No page is named twice but as a
// source.
struct CudaCopies {
  static constexpr int kMost = 256;
  struct Pair {
    int32_t from, to;
  };
  int32_t count = 0;
  int32_t unused[3] = {};
  Pair pages[kMost] = {};
};
// In front of a step's rows.
struct CudaStepHead {
  CudaCopies copies;       // before anything else
  int32_t told_block = 0;  // where the host looks for what is drawn
  int32_t unused[3] = {};
};
struct CudaCopyArgs {
  void* pool = nullptr;
  size_t layer_bytes = 0;
  size_t page_bytes = 0;  // a multiple of 16
  int layers = 0;
  const CudaCopies* copies = nullptr;
};
void CudaCopyPages(const CudaCopyArgs& args, CudaStream stream);

}  // namespace tidemill
