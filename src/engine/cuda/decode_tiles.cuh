// Query vectors of one row that share a key head, as a warp of the decode kernel holds them: up to
// 16 as the rows of its products (WideTile), or up to 8 as their columns (NarrowTile). Both take
// the same operands from the pages; the narrow one needs half of the products and of the registers.
#pragma once

#include "engine/cuda/attention.cuh"

namespace tidemill {
namespace {

// The partial results of a block's warps, to be joined.
template <int D, int kQueries>
struct DecodeScratch {
  float top[kWarps][kQueries];  // in units of log2, scaled
  float sum[kWarps][kQueries];
  float out[kWarps][kQueries][D];
};

template <int D>
struct WideTile {
  static constexpr int kQueries = 16;
  static constexpr int kBlocks = D == 64 ? 4 : 2;  // at once on a multiprocessor
  static constexpr bool kAhead = true;  // a page is on its way while the one before is computed
  Tile<D> tile;

  __device__ __forceinline__ void Load(const bf16* queries, int group, Lane lane) {
    tile.Clear();
    tile.LoadQuery(0, lane.g < group ? queries + lane.g * D : nullptr, lane);
    tile.LoadQuery(1, lane.g + 8 < group ? queries + (lane.g + 8) * D : nullptr, lane);
  }
  __device__ __forceinline__ void Rotate(const float* cos, const float* sin, Lane lane) {
    tile.Rotate(cos, sin, lane);
  }
  __device__ __forceinline__ void Add(const PageOperands<D>& page, int base, int first, int last,
                                      float scale, Lane lane) {
    const int firsts[2] = {first, first}, lasts[2] = {last, last};
    tile.Add(page, base, firsts, lasts, scale, lane);
  }
  __device__ __forceinline__ void Give(DecodeScratch<D, kQueries>& scratch, int warp, int group,
                                       Lane lane) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int head = lane.g + half * 8;
      const float sum = tile.RowSum(half);
      if (lane.c == 0) {
        scratch.top[warp][head] = tile.top[half];
        scratch.sum[warp][head] = sum;
      }
      if (head < group) {
        ForColumns<D>(lane, [&](int column, int j, int e) {
          scratch.out[warp][head][column] = tile.out[j][half * 2 + e];
        });
      }
    }
  }
};

// A lane holds query g, and of queries 2 c and 2 c + 1 what they have gathered: scores of slots g
// and g + 8, and eight neighbouring columns of values in each 64.
template <int D>
struct NarrowTile {
  static constexpr int kQueries = 8;
  // So many blocks hide the way to memory better than a page that is on its way in each.
  static constexpr int kBlocks = D == 64 ? 5 : 3;
  static constexpr bool kAhead = false;
  uint4 q[D / 32];
  float out[D / 16][4];
  float top[2];  // in units of log2, scaled
  float sum[2];  // this lane's share

  __device__ __forceinline__ void Load(const bf16* queries, int group, Lane lane) {
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      q[i] = make_uint4(0, 0, 0, 0);
      if (lane.g < group) {
        q[i] = *reinterpret_cast<const uint4*>(queries + lane.g * D + i * 32 + lane.c * 8);
      }
    }
#pragma unroll
    for (int j = 0; j < D / 16; ++j) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0;
    top[0] = top[1] = -INFINITY;
    sum[0] = sum[1] = 0;
  }

  __device__ __forceinline__ void Rotate(const float* cos, const float* sin, Lane lane) {
#pragma unroll
    for (int i = 0; i < D / 64; ++i) {
      const int at = i * 32 + lane.c * 8;
      RotatePair(q[i].x, q[i + D / 64].x, cos + at, sin + at);
      RotatePair(q[i].y, q[i + D / 64].y, cos + at + 2, sin + at + 2);
      RotatePair(q[i].z, q[i + D / 64].z, cos + at + 4, sin + at + 4);
      RotatePair(q[i].w, q[i + D / 64].w, cos + at + 6, sin + at + 6);
    }
  }

  // A page whose first position is `base`, of which positions first .. last are seen.
  __device__ __forceinline__ void Add(const PageOperands<D>& page, int base, int first, int last,
                                      float scale, Lane lane) {
    float s[4] = {};
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const uint4 low = page.keys[0][i], high = page.keys[1][i];
      const unsigned front[4] = {low.x, high.x, low.y, high.y};
      const unsigned back[4] = {low.z, high.z, low.w, high.w};
      Mma(s, front, q[i].x, q[i].y);
      Mma(s, back, q[i].z, q[i].w);
    }
    const int position = base + lane.g;
    const bool low_seen = position >= first && position <= last;
    const bool high_seen = position + 8 >= first && position + 8 <= last;
    float low[2], high[2], shrink[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      low[h] = low_seen ? s[h] * scale : -INFINITY;
      high[h] = high_seen ? s[h + 2] * scale : -INFINITY;
      float most = fmaxf(low[h], high[h]);
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, step));
      }
      most = fmaxf(most, top[h]);
      const float base_top = most == -INFINITY ? 0.0f : most;  // nothing was seen yet
      shrink[h] = Exp2(top[h] - base_top);
      top[h] = most;
      low[h] = Exp2(low[h] - base_top);
      high[h] = Exp2(high[h] - base_top);
      sum[h] = sum[h] * shrink[h] + (low[h] + high[h]);
    }
    const unsigned b0 = Turned(PackBf16(low[0], low[1]), lane);
    const unsigned b1 = Turned(PackBf16(high[0], high[1]), lane);
    const auto* values = reinterpret_cast<const unsigned*>(&page.values[0][0]);
    constexpr int kStride = D / 64 * 4;  // words from one of the four slots to the next
#pragma unroll
    for (int j = 0; j < D / 16; ++j) {
      const unsigned a[4] = {
          __byte_perm(values[j], values[kStride + j], 0x5410u),
          __byte_perm(values[j], values[kStride + j], 0x7632u),
          __byte_perm(values[2 * kStride + j], values[3 * kStride + j], 0x5410u),
          __byte_perm(values[2 * kStride + j], values[3 * kStride + j], 0x7632u)};
      out[j][0] *= shrink[0];
      out[j][1] *= shrink[1];
      out[j][2] *= shrink[0];
      out[j][3] *= shrink[1];
      Mma(out[j], a, b0, b1);
    }
  }

  __device__ __forceinline__ void Give(DecodeScratch<D, kQueries>& scratch, int warp, int group,
                                       Lane lane) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int head = lane.c * 2 + h;
      float all = sum[h];
#pragma unroll
      for (int step = 4; step < 32; step *= 2) all += __shfl_xor_sync(0xffffffffu, all, step);
      if (lane.g == 0) {
        scratch.top[warp][head] = top[h];
        scratch.sum[warp][head] = all;
      }
      if (head >= group) continue;
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        *reinterpret_cast<float2*>(
            &scratch.out[warp][head][j / 4 * 64 + lane.g * 8 + j % 4 * 2]) = {out[j][h],
                                                                              out[j][h + 2]};
      }
    }
  }

 private:
  static __device__ __forceinline__ void RotatePair(unsigned& low, unsigned& high, const float* cos,
                                                    const float* sin) {
    const float2 c = *reinterpret_cast<const float2*>(cos);
    const float2 s = *reinterpret_cast<const float2*>(sin);
    const float2 a = UnpackBf16(low), b = UnpackBf16(high);
    low = PackBf16(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y);
    high = PackBf16(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y);
  }

  // Of an 8 x 8 matrix of which this lane holds row g, columns 2 c and 2 c + 1: column g, rows 2 c
  // and 2 c + 1.
  static __device__ __forceinline__ unsigned Turned(unsigned word, Lane lane) {
    const int from = lane.c * 8 + lane.g / 2;
    const unsigned even = __shfl_sync(0xffffffffu, word, from);
    const unsigned odd = __shfl_sync(0xffffffffu, word, from + 4);
    return __byte_perm(even, odd, lane.g % 2 == 0 ? 0x5410u : 0x7632u);
  }
};

}  // namespace
}  // namespace tidemill
