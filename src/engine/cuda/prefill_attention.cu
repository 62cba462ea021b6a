// Attention of prompts.
#include "engine/cuda/attention.cuh"

namespace tidemill {
namespace {

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
  const int begin = work.tile * kCudaPrefillVectors + warp * 16;
  const int vectors = work.length * group;
  if (begin >= vectors) return;
  Tile<D> tile;
  tile.Clear();
  int first[2], limit[2];
  int64_t vector_of[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int v = begin + lane.g + half * 8;
    const bool inside = v < vectors;
    const int64_t r = work.row + v / group;
    const int head = kv_head * group + v % group;
    limit[half] = inside ? work.first + v / group : -1;
    first[half] = FirstSeen(args, limit[half]);
    vector_of[half] = inside ? r * args.heads.heads + head : -1;
    tile.LoadQuery(half,
                   inside ? static_cast<const bf16*>(args.qkv) + r * args.heads.QkvWidth() +
                                static_cast<int64_t>(head) * D
                          : nullptr,
                   lane);
  }
  const int last = work.first + (min(vectors, begin + 16) - 1) / group;
  const int pages = last / kCudaPageSlots + 1;
  const int seen = FirstSeen(args, work.first + begin / group) / kCudaPageSlots;
  const float scale = args.scale * kLog2E;
  const PageWalk walk = MakeWalk(args, kv_head, work.pages, D);
  PageOperands<D> now, next;
  LoadPage(now, walk, seen, lane);
  for (int index = seen; index < pages; ++index) {
    if (index + 1 < pages) LoadPage(next, walk, index + 1, lane);
    tile.Add(now, index * kCudaPageSlots, first, limit, scale, lane);
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

}  // namespace

void CudaPrefillAttention(const CudaAttentionArgs& args, const CudaPrefillTile* tiles, int count,
                          CudaStream stream) {
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>(args.heads.kv_heads));
  const auto kernel = args.heads.head_dim == 64 ? PrefillKernel<64> : PrefillKernel<128>;
  Launch(kernel, {.grid = grid, .threads = kWarps * 32, .stream = stream}, args, tiles);
}

}  // namespace tidemill
