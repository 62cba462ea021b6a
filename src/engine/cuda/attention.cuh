// Attention over the paged cache: what single rows (decode_attention.cu) and prompts
// (prefill_attention.cu) share.
//
// The fast kernels keep 16 query vectors that share a key head in a warp's registers and go through
// the pages with the matrix units (mma m16n8k16). Neither keys nor values pass through shared
// memory: the order in which a dot product runs over dimensions is free, so each lane takes 16-byte
// pieces as they lie in memory, for queries and keys alike; and the order of output columns is free
// too, so each lane gathers eight neighbouring columns of the values it loaded.
#pragma once

#include "model/cuda/convert.cuh"
#include "model/cuda/kernels.h"
#include "model/cuda/launch.cuh"

namespace tidemill {
namespace {

using bf16 = __nv_bfloat16;

constexpr int kWarps = 4;
constexpr float kLog2E = 1.4426950408889634f;

// Lane = 4 * g + c. In a tile, rows g and g + 8 are this lane's.
struct Lane {
  __device__ Lane() : g(static_cast<int>(threadIdx.x % 32) / 4), c(threadIdx.x % 4) {}
  int g, c;
};

// Keys and values of one page and key head, as this lane's operands need them.
template <int D>
struct PageOperands {
  uint4 keys[2][D / 32];
  uint4 values[4][D / 64];

  __device__ __forceinline__ void Load(const bf16* keys_of_page, const bf16* values_of_page,
                                       Lane lane) {
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        keys[t][i] = *reinterpret_cast<const uint4*>(keys_of_page + (t * 8 + lane.g) * D + i * 32 +
                                                     lane.c * 8);
      }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int slot = lane.c * 2 + (k % 2) + (k / 2) * 8;
#pragma unroll
      for (int i = 0; i < D / 64; ++i) {
        values[k][i] =
            *reinterpret_cast<const uint4*>(values_of_page + slot * D + i * 64 + lane.g * 8);
      }
    }
  }
};

// 16 query vectors and what they have gathered so far.
template <int D>
struct Tile {
  unsigned q[D / 16][4];
  float out[D / 8][4];
  float top[2];  // in units of log2, scaled
  float sum[2];  // this lane's share

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int j = 0; j < D / 8; ++j) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0;
    top[0] = top[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  // `half` 0: row g, 1: row g + 8. Null: a row of zeros.
  __device__ __forceinline__ void LoadQuery(int half, const bf16* vector, Lane lane) {
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      uint4 piece = make_uint4(0, 0, 0, 0);
      if (vector != nullptr) {
        piece = *reinterpret_cast<const uint4*>(vector + i * 32 + lane.c * 8);
      }
      q[2 * i][half] = piece.x;
      q[2 * i][half + 2] = piece.y;
      q[2 * i + 1][half] = piece.z;
      q[2 * i + 1][half + 2] = piece.w;
    }
  }

  // Turns the queries; `cos` and `sin` are those of their position. A lane holds both numbers of
  // each of its pairs.
  __device__ __forceinline__ void Rotate(const float* cos, const float* sin, Lane lane) {
#pragma unroll
    for (int i = 0; i < D / 64; ++i) {
      const int at = i * 32 + lane.c * 8;
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const float2 c = *reinterpret_cast<const float2*>(cos + at + word * 2);
        const float2 s = *reinterpret_cast<const float2*>(sin + at + word * 2);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          unsigned& low = q[2 * i + word / 2][half + 2 * (word % 2)];
          unsigned& high = q[2 * i + D / 32 + word / 2][half + 2 * (word % 2)];
          const float2 a = UnpackBf16(low), b = UnpackBf16(high);
          low = PackBf16(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y);
          high = PackBf16(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y);
        }
      }
    }
  }

  // A page whose first position is `base`; row g sees positions from first[0] up to limit[0], row
  // g + 8 from first[1] up to limit[1].
  __device__ __forceinline__ void Add(const PageOperands<D>& page, int base, const int (&first)[2],
                                      const int (&limit)[2], float scale, Lane lane) {
    float s[2][4] = {};
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < D / 32; ++i) {
        Mma(s[t], q[2 * i], page.keys[t][i].x, page.keys[t][i].y);
        Mma(s[t], q[2 * i + 1], page.keys[t][i].z, page.keys[t][i].w);
      }
    }
    unsigned p[4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = base + (i / 2) * 8 + lane.c * 2 + i % 2;
        const bool seen = position <= limit[half] && position >= first[half];
        x[i] = seen ? s[i / 2][half * 2 + i % 2] * scale : -INFINITY;
      }
      float high = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
      high = fmaxf(high, top[half]);
      const float base_top = high == -INFINITY ? 0.0f : high;  // a row that has seen nothing yet
      const float shrink = Exp2(top[half] - base_top);
      top[half] = high;
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = Exp2(x[i] - base_top);
      sum[half] = sum[half] * shrink + (x[0] + x[1] + x[2] + x[3]);
      p[half] = PackBf16(x[0], x[1]);
      p[half + 2] = PackBf16(x[2], x[3]);
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        out[j][half * 2] *= shrink;
        out[j][half * 2 + 1] *= shrink;
      }
    }
    const auto* values = reinterpret_cast<const unsigned*>(&page.values[0][0]);
    constexpr int kStride = D / 64 * 4;  // words from one of the four slots to the next
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const int word = (j / 8) * 4 + (j % 8) / 2;
      const unsigned pick = j % 2 == 0 ? 0x5410u : 0x7632u;
      const unsigned b0 = __byte_perm(values[word], values[kStride + word], pick);
      const unsigned b1 = __byte_perm(values[2 * kStride + word], values[3 * kStride + word], pick);
      Mma(out[j], p, b0, b1);
    }
  }

  // The sum of the row over all lanes that hold a share of it.
  __device__ __forceinline__ float RowSum(int half) const {
    float x = sum[half];
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
  }
};

// This lane's columns of a row are [i * 64 + c * 16, + 16): f(column, out index j, out index in c).
template <int D, typename F>
__device__ __forceinline__ void ForColumns(Lane lane, F&& f) {
#pragma unroll
  for (int i = 0; i < D / 64; ++i) {
#pragma unroll
    for (int e = 0; e < 16; ++e) f(i * 64 + lane.c * 16 + e, i * 8 + e % 8, e / 8);
  }
}

// The first position that a row at `position` sees.
__device__ __forceinline__ int FirstSeen(const CudaAttentionArgs& args, int position) {
  return args.window > 0 && position >= args.window ? position - args.window + 1 : 0;
}

struct PageWalk {
  const bf16* cache;
  const int32_t* pages;
  int64_t page_numbers;
  int64_t head_offset;   // of the key head in a page
  int64_t value_offset;  // from its keys to its values
};

template <int D>
__device__ __forceinline__ void LoadPage(PageOperands<D>& page, const PageWalk& walk, int index,
                                         Lane lane) {
  const bf16* at =
      walk.cache + static_cast<int64_t>(walk.pages[index]) * walk.page_numbers + walk.head_offset;
  page.Load(at, at + walk.value_offset, lane);
}

__device__ __forceinline__ PageWalk MakeWalk(const CudaAttentionArgs& args, int kv_head,
                                             int first_page, int head_dim) {
  return {static_cast<const bf16*>(args.cache), args.pages + first_page,
          static_cast<int64_t>(args.heads.PageNumbers()),
          static_cast<int64_t>(kv_head) * kCudaPageSlots * head_dim,
          static_cast<int64_t>(args.heads.kv_heads) * kCudaPageSlots * head_dim};
}

}  // namespace
}  // namespace tidemill
