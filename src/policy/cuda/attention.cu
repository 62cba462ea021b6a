// Attention of single rows and of prompts over the paged cache.
//
// The fast kernels keep 16 query vectors that share a key head in a warp's registers and go through
// the pages with the matrix units (mma m16n8k16). Neither keys nor values pass through shared
// memory: the order in which a dot product runs over dimensions is free, so each lane takes 16-byte
// pieces as they lie in memory, for queries and keys alike; and the order of output columns is free
// too, so each lane gathers eight neighbouring columns of the values it loaded.
#include "policy/cuda/convert.cuh"
#include "policy/cuda/kernels.h"

namespace tidemill {
namespace {

using bf16 = __nv_bfloat16;

constexpr int kWarps = 4;
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ void Mma(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

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

// 16 query vectors and what they have gathered so far; with one half only 8 of them, the others
// zero.
template <int D, int kHalves>
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
        for (int half = 0; half < kHalves; ++half) {
          unsigned& low = q[2 * i + word / 2][half + 2 * (word % 2)];
          unsigned& high = q[2 * i + D / 32 + word / 2][half + 2 * (word % 2)];
          const float2 a = UnpackBf16(low), b = UnpackBf16(high);
          low = PackBf16(a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y);
          high = PackBf16(b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y);
        }
      }
    }
  }

  // A page whose first position is `base`; row g sees positions up to limit[0], row g + 8 up to
  // limit[1].
  __device__ __forceinline__ void Add(const PageOperands<D>& page, int base, const int (&limit)[2],
                                      float scale, Lane lane) {
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
    for (int half = 0; half < kHalves; ++half) {
      float x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = base + (i / 2) * 8 + lane.c * 2 + i % 2;
        x[i] = position <= limit[half] ? s[i / 2][half * 2 + i % 2] * scale : -INFINITY;
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

template <int D>
struct DecodeScratch {
  float top[kWarps][16];
  float sum[kWarps][16];
  float out[kWarps][16][D];
};

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

// The row's own key, turned, and its value, into its page. The block's other threads see them after
// the next barrier.
template <int D>
__device__ __forceinline__ void WriteOwn(const CudaAttentionArgs& args, const CudaRow& row,
                                         const bf16* qkv, int kv_head) {
  const CudaHeads& h = args.heads;
  const int i = static_cast<int>(threadIdx.x);
  if (i >= D) return;
  bf16* page = static_cast<bf16*>(const_cast<void*>(args.cache)) +
               static_cast<int64_t>(args.pages[row.pages + row.position / kCudaPageSlots]) *
                   static_cast<int64_t>(h.PageNumbers()) +
               (static_cast<int64_t>(kv_head) * kCudaPageSlots + row.position % kCudaPageSlots) * D;
  const bf16* key = qkv + static_cast<int64_t>(h.heads + kv_head) * D;
  const bf16* value = key + static_cast<int64_t>(h.kv_heads) * D;
  page[static_cast<int64_t>(h.kv_heads) * kCudaPageSlots * D + i] = value[i];
  const int pair = i % (D / 2);
  const float c = args.cos[static_cast<int64_t>(row.position) * (D / 2) + pair];
  const float s = args.sin[static_cast<int64_t>(row.position) * (D / 2) + pair];
  const float a = __bfloat162float(key[pair]), b = __bfloat162float(key[pair + D / 2]);
  page[i] = __float2bfloat16(i < D / 2 ? a * c - b * s : b * c + a * s);
}

// One block for each row and key head (and part of a long row); its warps take pages in turn.
template <int D, int kHalves>
__global__ void __launch_bounds__(kWarps * 32, D == 64 ? 4 : 2)
    DecodeKernel(const CudaAttentionArgs args) {
  __shared__ DecodeScratch<D> scratch;
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.x);
  const int64_t r = blockIdx.y;
  const CudaRow row = args.rows[r];
  const int group = args.heads.heads / args.heads.kv_heads;
  const int parts = args.splits;
  const int pages = row.position < 0 ? 0 : row.position / kCudaPageSlots + 1;
  // Parts of at least 16 pages, so that short rows are the work of one block.
  const int per_part = max(16, (pages + parts - 1) / parts);
  const int begin = static_cast<int>(blockIdx.z) * per_part;
  const int end = min(pages, begin + per_part);
  if (begin >= end && (parts > 1 || row.position < 0)) return;

  Tile<D, kHalves> tile;
  tile.Clear();
  const bf16* qkv = static_cast<const bf16*>(args.qkv) + r * args.heads.QkvWidth();
  const bf16* queries = qkv + static_cast<int64_t>(kv_head) * group * D;
  tile.LoadQuery(0, lane.g < group ? queries + lane.g * D : nullptr, lane);
  tile.LoadQuery(1, kHalves == 2 && lane.g + 8 < group ? queries + (lane.g + 8) * D : nullptr,
                 lane);
  const float scale = rsqrtf(static_cast<float>(D)) * kLog2E;
  const int limit[2] = {row.position, row.position};
  const PageWalk walk = MakeWalk(args, kv_head, row.pages, D);
  PageOperands<D> now, next;
  int index = begin + warp;
  // The row's own page is read when its key is there; others are on their way meanwhile.
  const bool own = args.cos != nullptr && index == pages - 1;
  if (index < end && !own) LoadPage(now, walk, index, lane);
  if (args.cos != nullptr) {
    // Only the part that ends with the row's own page writes to it, and nobody else reads it.
    if (end == pages) WriteOwn<D>(args, row, qkv, kv_head);
    const int64_t at = static_cast<int64_t>(row.position) * (D / 2);
    tile.Rotate(args.cos + at, args.sin + at, lane);
    __syncthreads();
  }
  if (index < end && own) LoadPage(now, walk, index, lane);
  while (index < end) {
    const int following = index + kWarps;
    if (following < end) LoadPage(next, walk, following, lane);
    tile.Add(now, index * kCudaPageSlots, limit, scale, lane);
    now = next;
    index = following;
  }
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
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
  __syncthreads();
  const int heads = args.heads.heads;
  for (int i = static_cast<int>(threadIdx.x); i < group * D; i += kWarps * 32) {
    const int head = i / D, column = i % D;
    float top = scratch.top[0][head];
    for (int w = 1; w < kWarps; ++w) top = fmaxf(top, scratch.top[w][head]);
    float sum = 0, value = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float weight = Exp2(scratch.top[w][head] - top);
      sum += weight * scratch.sum[w][head];
      value += weight * scratch.out[w][head][column];
    }
    const int64_t vector = r * heads + kv_head * group + head;
    if (parts == 1) {
      static_cast<bf16*>(args.out)[vector * D + column] = __float2bfloat16(value / sum);
    } else {
      float* part =
          args.partial + (static_cast<int64_t>(blockIdx.z) * args.count * heads + vector) * (D + 2);
      part[2 + column] = value;
      if (column == 0) {
        part[0] = top;
        part[1] = sum;
      }
    }
  }
}

// One block of D threads for each query vector.
__global__ void CombineKernel(const CudaAttentionArgs args) {
  const int64_t r = blockIdx.y;
  const int position = args.rows[r].position;
  if (position < 0) return;
  const int d = args.heads.head_dim, column = static_cast<int>(threadIdx.x);
  const int64_t vector = r * args.heads.heads + blockIdx.x;
  const int pages = position / kCudaPageSlots + 1;
  const int per_part = max(16, (pages + args.splits - 1) / args.splits);
  const int used = (pages + per_part - 1) / per_part;
  const int64_t stride = static_cast<int64_t>(args.count) * args.heads.heads * (d + 2);
  const float* parts = args.partial + vector * (d + 2);
  float top = -INFINITY;
  for (int p = 0; p < used; ++p) top = fmaxf(top, parts[p * stride]);
  float sum = 0, value = 0;
  for (int p = 0; p < used; ++p) {
    const float weight = Exp2(parts[p * stride] - top);
    sum += weight * parts[p * stride + 1];
    value += weight * parts[p * stride + 2 + column];
  }
  static_cast<bf16*>(args.out)[vector * d + column] = __float2bfloat16(value / sum);
}

// A block is 64 query vectors of one key head and prompt, 16 to a warp: vector v is head v % group
// of row v / group. The warps read the same pages at about the same time, so most of it comes from
// the first-level cache.
template <int D>
__global__ void __launch_bounds__(kWarps * 32)
    PrefillKernel(const CudaAttentionArgs args, const CudaPrefillTile* tiles) {
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const CudaPrefillTile work = tiles[blockIdx.x];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = args.heads.heads / args.heads.kv_heads;
  const int first = work.tile * kCudaPrefillVectors + warp * 16;
  const int vectors = work.length * group;
  if (first >= vectors) return;
  Tile<D, 2> tile;
  tile.Clear();
  int limit[2];
  int64_t vector_of[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int v = first + lane.g + half * 8;
    const bool inside = v < vectors;
    const int64_t r = work.row + v / group;
    const int head = kv_head * group + v % group;
    limit[half] = inside ? work.first + v / group : -1;
    vector_of[half] = inside ? r * args.heads.heads + head : -1;
    tile.LoadQuery(half,
                   inside ? static_cast<const bf16*>(args.qkv) + r * args.heads.QkvWidth() +
                                static_cast<int64_t>(head) * D
                          : nullptr,
                   lane);
  }
  const int last = work.first + (min(vectors, first + 16) - 1) / group;
  const int pages = last / kCudaPageSlots + 1;
  const float scale = rsqrtf(static_cast<float>(D)) * kLog2E;
  const PageWalk walk = MakeWalk(args, kv_head, work.pages, D);
  PageOperands<D> now, next;
  LoadPage(now, walk, 0, lane);
  for (int index = 0; index < pages; ++index) {
    if (index + 1 < pages) LoadPage(next, walk, index + 1, lane);
    tile.Add(now, index * kCudaPageSlots, limit, scale, lane);
    now = next;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float scale_out = 1.0f / tile.RowSum(half);
    if (vector_of[half] < 0) continue;
    bf16* out = static_cast<bf16*>(args.out) + vector_of[half] * D;
    ForColumns<D>(lane, [&](int column, int j, int e) {
      out[column] = __float2bfloat16(tile.out[j][half * 2 + e] * scale_out);
    });
  }
}

// Any type, any head: a warp for each query vector, a position at a time.
template <typename T>
__global__ void PlainKernel(const CudaAttentionArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int head = static_cast<int>(blockIdx.x);
  const int64_t r = blockIdx.y;
  const CudaRow row = args.rows[r];
  if (row.position < 0) return;
  const CudaHeads& h = args.heads;
  const int d = h.head_dim;
  const int kv_head = head / (h.heads / h.kv_heads);
  const T* q = static_cast<const T*>(args.qkv) + r * h.QkvWidth() + static_cast<int64_t>(head) * d;
  const float scale = rsqrtf(static_cast<float>(d));
  constexpr int kMost = 8;  // numbers a lane holds: heads of up to 256
  float query[kMost], out[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    query[i] = lane + i * 32 < d ? ToFloat(q[lane + i * 32]) * scale : 0.0f;
    out[i] = 0;
  }
  float top = -INFINITY, sum = 0;
  for (int p = 0; p <= row.position; ++p) {
    const T* page = static_cast<const T*>(args.cache) +
                    static_cast<int64_t>(args.pages[row.pages + p / kCudaPageSlots]) *
                        static_cast<int64_t>(h.PageNumbers());
    const T* key = page + (kv_head * kCudaPageSlots + p % kCudaPageSlots) * d;
    const T* value = key + static_cast<int64_t>(h.kv_heads) * kCudaPageSlots * d;
    float dot = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (lane + i * 32 < d) dot += query[i] * ToFloat(key[lane + i * 32]);
    }
    dot = WarpSum(dot);
    const float high = fmaxf(top, dot);
    const float shrink = __expf(top - high), weight = __expf(dot - high);
    top = high;
    sum = sum * shrink + weight;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if (lane + i * 32 < d) out[i] = out[i] * shrink + weight * ToFloat(value[lane + i * 32]);
    }
  }
  T* to = static_cast<T*>(args.out) + (r * h.heads + head) * d;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    if (lane + i * 32 < d) to[lane + i * 32] = FromFloat<T>(out[i] / sum);
  }
}

}  // namespace

bool CudaFastAttention(const CudaHeads& heads) {
  return heads.type == CudaType::kBF16 && (heads.head_dim == 64 || heads.head_dim == 128) &&
         heads.heads / heads.kv_heads <= 16;
}

void CudaDecodeAttention(const CudaAttentionArgs& args, CudaStream stream) {
  const CudaHeads& h = args.heads;
  if (args.count == 0) return;
  const dim3 vectors(static_cast<unsigned>(h.heads), static_cast<unsigned>(args.count));
  if (!CudaFastAttention(h)) {
    if (h.type == CudaType::kF32) {
      PlainKernel<float><<<vectors, 32, 0, stream>>>(args);
    } else {
      PlainKernel<bf16><<<vectors, 32, 0, stream>>>(args);
    }
    return;
  }
  const dim3 grid(static_cast<unsigned>(h.kv_heads), static_cast<unsigned>(args.count),
                  static_cast<unsigned>(args.splits));
  const bool few = h.heads / h.kv_heads <= 8;
  const auto kernel = h.head_dim == 64 ? (few ? DecodeKernel<64, 1> : DecodeKernel<64, 2>)
                                       : (few ? DecodeKernel<128, 1> : DecodeKernel<128, 2>);
  kernel<<<grid, kWarps * 32, 0, stream>>>(args);
  if (args.splits > 1) {
    CombineKernel<<<vectors, static_cast<unsigned>(h.head_dim), 0, stream>>>(args);
  }
}

void CudaPrefillAttention(const CudaAttentionArgs& args, const CudaPrefillTile* tiles, int count,
                          CudaStream stream) {
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>(args.heads.kv_heads));
  if (args.heads.head_dim == 64) {
    PrefillKernel<64><<<grid, kWarps * 32, 0, stream>>>(args, tiles);
  } else {
    PrefillKernel<128><<<grid, kWarps * 32, 0, stream>>>(args, tiles);
  }
}

}  // namespace tidemill
