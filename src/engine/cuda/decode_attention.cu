// Attention of single rows.
#include "engine/cuda/decode_tiles.cuh"

namespace tidemill {
namespace {

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

// The pages that a row sees, and how many of them a part of it has: parts of at least 16, so that
// short rows are the work of one block.
struct SeenPages {
  __device__ SeenPages(const CudaAttentionArgs& args, int position)
      : begin(FirstSeen(args, position) / kCudaPageSlots),
        end(position < 0 ? 0 : position / kCudaPageSlots + 1),
        per_part(max(16, (end - begin + args.splits - 1) / args.splits)) {}
  int begin, end, per_part;
};

// One block for each row and key head (and part of a long row); its warps take pages in turn.
template <int D, typename Queries>
__global__ void __launch_bounds__(kWarps * 32, Queries::kBlocks)
    DecodeKernel(const CudaAttentionArgs args) {
  __shared__ DecodeScratch<D, Queries::kQueries> scratch;
  const Lane lane;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int kv_head = static_cast<int>(blockIdx.x);
  const int64_t r = blockIdx.y;
  const CudaRow row = args.rows[r];
  const int group = args.heads.heads / args.heads.kv_heads;
  const int parts = args.splits;
  const SeenPages all(args, row.position);
  const int pages = all.end;
  const int begin = all.begin + static_cast<int>(blockIdx.z) * all.per_part;
  const int end = min(pages, begin + all.per_part);
  if (begin >= end && (parts > 1 || row.position < 0)) return;

  Queries tile;
  const bf16* qkv = static_cast<const bf16*>(args.qkv) + r * args.heads.QkvWidth();
  tile.Load(qkv + static_cast<int64_t>(kv_head) * group * D, group, lane);
  const float scale = args.scale * kLog2E;
  const int seen = FirstSeen(args, row.position);
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
    if (Queries::kAhead && following < end) LoadPage(next, walk, following, lane);
    tile.Add(now, index * kCudaPageSlots, seen, row.position, scale, lane);
    if (Queries::kAhead) now = next;
    if (!Queries::kAhead && following < end) LoadPage(now, walk, following, lane);
    index = following;
  }
  tile.Give(scratch, warp, group, lane);
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
  const SeenPages all(args, position);
  const int used = (all.end - all.begin + all.per_part - 1) / all.per_part;
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
  const float scale = args.scale;
  constexpr int kMost = 8;  // numbers a lane holds: heads of up to 256
  float query[kMost], out[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    query[i] = lane + i * 32 < d ? ToFloat(q[lane + i * 32]) * scale : 0.0f;
    out[i] = 0;
  }
  float top = -INFINITY, sum = 0;
  for (int p = FirstSeen(args, row.position); p <= row.position; ++p) {
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
      Launch(PlainKernel<float>, {.grid = vectors, .threads = 32, .stream = stream}, args);
    } else {
      Launch(PlainKernel<bf16>, {.grid = vectors, .threads = 32, .stream = stream}, args);
    }
    return;
  }
  const dim3 grid(static_cast<unsigned>(h.kv_heads), static_cast<unsigned>(args.count),
                  static_cast<unsigned>(args.splits));
  const bool few = h.heads / h.kv_heads <= 8;
  const auto kernel =
      h.head_dim == 64
          ? (few ? DecodeKernel<64, NarrowTile<64>> : DecodeKernel<64, WideTile<64>>)
          : (few ? DecodeKernel<128, NarrowTile<128>> : DecodeKernel<128, WideTile<128>>);
  Launch(kernel, {.grid = grid, .threads = kWarps * 32, .stream = stream}, args);
  if (args.splits > 1) {
    Launch(CombineKernel,
           {.grid = vectors, .threads = static_cast<unsigned>(h.head_dim), .stream = stream}, args);
  }
}

}  // namespace tidemill
