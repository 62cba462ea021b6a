#include "model/torch/weight_block.h"

#include "model/torch/aten.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/parallel.h"
#include "core/threads.h"
#include "model/number_types.h"
#include "model/random_weights.h"
#include "model/torch/catch.h"
#ifdef TIDEMILL_CUDA
#include "model/cuda/check.h"
#include "model/torch/pinned_lanes.h"
#endif

namespace tidemill {
namespace {

constexpr size_t kBlockPieceBytes = size_t{4} << 20;
#ifdef TIDEMILL_CUDA
static_assert(kBlockPieceBytes <= kLanePieceBytes);
#endif

// Some bytes of the block, all of one tensor.
struct BlockPiece {
  const WeightPlace* place = nullptr;
  size_t first_byte = 0;  // in the tensor
  size_t bytes = 0;
};
// Writes a piece as it is to lie in the block. Any thread; must not throw.
using FillPiece = std::function<void(const BlockPiece& piece, std::span<std::byte> out)>;

// A block that is being filled.
class BlockInMaking {
 public:
  BlockInMaking(const ModelConfig& config, const WeightBlockOptions& options, at::ScalarType type)
      : config_(config),
        layout_(MakeWeightLayout(config)),
        device_(options.device),
        threads_(options.threads > 0 ? options.threads : AvailableCores()),
        block_(at::empty({static_cast<int64_t>(layout_.numbers)},
                         at::TensorOptions().dtype(type).device(device_))) {
    if (device_.is_cpu()) UseHugePages(block_.data_ptr(), block_.nbytes());
    ZeroGaps();
  }

  const WeightLayout& layout() const { return layout_; }
  at::Tensor Part(const WeightPlace& place) const { return BlockPart(block_, place); }

  // In pieces of these tensors. They are begun in this order, so that files are read from front to
  // back.
  Status Fill(const std::vector<const WeightPlace*>& places, const FillPiece& fill) {
    std::vector<BlockPiece> pieces;
    for (const WeightPlace* place : places) {
      const size_t bytes = place->numbers() * block_.element_size();
      for (size_t first = 0; first < bytes; first += kBlockPieceBytes) {
        pieces.push_back({place, first, std::min(kBlockPieceBytes, bytes - first)});
      }
    }
    auto* base = static_cast<std::byte*>(block_.data_ptr());
    const auto to = [&](const BlockPiece& piece) {
      return base + piece.place->first * block_.element_size() + piece.first_byte;
    };
    if (device_.is_cpu()) {
      return InParallel(pieces.size(), threads_, [&](size_t i) {
        fill(pieces[i], {to(pieces[i]), pieces[i].bytes});
        return Ok();
      });
    }
#ifdef TIDEMILL_CUDA
    // The memory may have been another's, whose work is still under way.
    TM_CUDA(cudaSetDevice(device_.has_index() ? device_.index() : 0));
    TM_CUDA(cudaDeviceSynchronize());
    return InPinnedLanes(device_, pieces.size(), threads_, [&](PinnedLane& lane, size_t i) {
      return lane.Send(to(pieces[i]), pieces[i].bytes,
                       [&](std::span<std::byte> out) { fill(pieces[i], out); });
    });
#else
    return Invalid("this program was built without CUDA");
#endif
  }

  Result<std::shared_ptr<const PolicyWeights>> Weights() const {
    NamedTensors tensors;
    for (const WeightPlace& place : layout_.places) tensors.emplace(place.name, Part(place));
    return PolicyWeights::FromTensors(config_, std::move(tensors));
  }

 private:
  // The gaps between tensors are zero, so that arithmetic on the whole block meets only numbers.
  void ZeroGaps() {
    size_t end = 0;
    const auto zero = [&](size_t next) {
      if (next > end) {
        block_.narrow(0, static_cast<int64_t>(end), static_cast<int64_t>(next - end)).zero_();
      }
    };
    for (const WeightPlace& place : layout_.places) {
      zero(place.first);
      end = place.first + place.numbers();
    }
    zero(layout_.numbers);
  }

  const ModelConfig config_;
  const WeightLayout layout_;
  const at::Device device_;
  const int threads_;
  at::Tensor block_;
};

// Part of a stored tensor in the block's type.
void Convert(const TensorView& view, Dtype to, size_t first, std::span<std::byte> out) {
  const size_t from_size = DtypeSize(view.dtype), size = DtypeSize(to);
  const std::byte* from = view.data + first * from_size;
  const size_t count = out.size() / size;
  if (view.dtype == to) {
    std::memcpy(out.data(), from, out.size());
    return;
  }
  std::array<float, 4096> wide;
  for (size_t at = 0; at < count; at += wide.size()) {
    const size_t now = std::min(wide.size(), count - at);
    ToFloat32(view.dtype, from + at * from_size, now, wide.data());
    FromFloat32(wide.data(), now, to, out.data() + at * size);
  }
}

using StoredViews = std::map<std::string, TensorView>;

// From stored tensors of weight types, by name.
Status FillFrom(const StoredViews& views, Dtype dtype, BlockInMaking& block) {
  std::vector<const WeightPlace*> places;
  for (const WeightPlace& place : block.layout().places) {
    if (views.contains(place.name)) places.push_back(&place);
  }
  std::sort(places.begin(), places.end(), [&](const WeightPlace* a, const WeightPlace* b) {
    return std::less<>()(views.at(a->name).data, views.at(b->name).data);
  });
  return block.Fill(places, [&](const BlockPiece& piece, std::span<std::byte> out) {
    Convert(views.at(piece.place->name), dtype, piece.first_byte / DtypeSize(dtype), out);
  });
}

Result<at::ScalarType> BlockType(Dtype dtype) {
  if (dtype != Dtype::kF32 && dtype != Dtype::kBF16) {
    return Invalid("weights are kept in F32 or BF16, not in " + std::string(DtypeName(dtype)));
  }
  return ToScalarType(dtype);
}

// Whether the numbers of a tensor can be read as they lie.
bool Readable(const at::Tensor& tensor) {
  const Result<Dtype> dtype = ToDtype(tensor.scalar_type());
  return tensor.is_cpu() && tensor.is_contiguous() && dtype.ok() && IsWeightType(*dtype);
}

}  // namespace

at::Tensor BlockPart(const at::Tensor& block, const WeightPlace& place) {
  return block.narrow(0, static_cast<int64_t>(place.first), static_cast<int64_t>(place.numbers()))
      .view(place.shape);
}

Result<std::shared_ptr<const PolicyWeights>> LoadWeightBlock(const std::string& dir,
                                                             const WeightBlockOptions& options) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, BlockType(options.dtype));
  TM_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(dir));
  TM_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::OpenModel(dir));
  StoredViews views;
  TensorShapes shapes;
  for (const TensorView& view : files.tensors()) {
    if (IsSpareTensor(config, view.name)) continue;
    if (!IsWeightType(view.dtype)) {
      return Invalid(dir + ": tensor \"" + view.name + "\" is of type " +
                     std::string(DtypeName(view.dtype)) + "; weights are F32, BF16 or F16");
    }
    shapes.emplace(view.name, view.shape);
    views.emplace(view.name, view);
  }
  TM_RETURN_IF_ERROR(CheckTensorShapes(config, shapes).WithContext(dir));
  using Loaded = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Loaded>(dir, [&]() -> Result<Loaded> {
    const at::NoGradGuard no_grad;
    BlockInMaking block(config, options, type);
    TM_RETURN_IF_ERROR(FillFrom(views, options.dtype, block).WithContext(dir));
    return block.Weights();
  });
}

Result<std::shared_ptr<const PolicyWeights>> RandomWeightBlock(const ModelConfig& config,
                                                               uint64_t seed,
                                                               const WeightBlockOptions& options) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, BlockType(options.dtype));
  TM_RETURN_IF_ERROR(ValidateModelConfig(config, "model"));
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("new weights", [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    BlockInMaking block(config, options, type);
    std::vector<const WeightPlace*> places;
    for (const WeightPlace& place : block.layout().places) places.push_back(&place);
    TM_RETURN_IF_ERROR(block.Fill(places, [&](const BlockPiece& piece, std::span<std::byte> out) {
      const TensorView view{
          .name = piece.place->name, .dtype = options.dtype, .shape = piece.place->shape};
      FillRandomPart(config, seed, view, piece.first_byte, out);
    }));
    return block.Weights();
  });
}

Result<std::shared_ptr<const PolicyWeights>> CopyWeightBlock(const PolicyWeights& weights,
                                                             const WeightBlockOptions& options) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, BlockType(options.dtype));
  using Made = std::shared_ptr<const PolicyWeights>;
  return CatchTorch<Made>("copying weights to " + options.device, [&]() -> Result<Made> {
    const at::NoGradGuard no_grad;
    BlockInMaking block(weights.config(), options, type);
    StoredViews views;
    for (const WeightPlace& place : block.layout().places) {
      const at::Tensor from = weights.tensors().at(place.name).detach();
      if (!Readable(from)) {
        block.Part(place).copy_(from);
        continue;
      }
      TM_ASSIGN_OR_RETURN(const Dtype dtype, ToDtype(from.scalar_type()));
      views.emplace(place.name, TensorView{.name = place.name,
                                           .dtype = dtype,
                                           .shape = place.shape,
                                           .data = static_cast<const std::byte*>(from.data_ptr()),
                                           .bytes = from.nbytes()});
    }
    TM_RETURN_IF_ERROR(FillFrom(views, options.dtype, block));
    return block.Weights();
  });
}

const void* WholeBlock(const PolicyWeights& weights, const WeightLayout& layout) {
  const at::Tensor& embed = weights.view().embed;
  const auto* block = static_cast<const char*>(embed.data_ptr());
  for (const WeightPlace& place : layout.places) {
    const at::Tensor& tensor = weights.tensors().at(place.name);
    if (!tensor.is_contiguous() || tensor.scalar_type() != embed.scalar_type() ||
        tensor.data_ptr() != block + place.first * embed.element_size() ||
        tensor.device() != embed.device()) {
      return nullptr;
    }
  }
  return block;
}

const void* WholeBlock(const PolicyWeights& weights) {
  return WholeBlock(weights, MakeWeightLayout(weights.config()));
}

}  // namespace tidemill
