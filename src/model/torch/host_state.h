// The optimizer's state of parameters in bfloat16 (CudaSplitMoments) in pinned memory of the host.
// An update streams it through a few buffers of the GPU, piece by piece:
//
//   host -> copy in (a stream) -> buffer -> update (libtorch's stream) -> copy out (a stream) ->
//   host
//
// While one piece is updated the next ones come in and the ones before go out. A piece is part of a
// large tensor or many small ones; where they are cut does not change the result. Only in builds
// with CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "model/cuda/check.h"
#include "model/cuda/kernels.h"
#include "model/torch/cuda_train.h"
#include "model/torch/named_tensors.h"

namespace tidemill {

// Not thread-safe. Others may read the tensors after Wait, until the next Run.
class HostState {
 public:
  // 33 MiB a piece: long enough copies for the bus, short enough that an engine's copies on the
  // same bus come in between. model/plan_gpu.cc knows both numbers.
  static constexpr int64_t kPieceNumbers = int64_t{1} << 23;
  static constexpr size_t kBuffers = 4;
  // Pieces are made of so many numbers: their scales fill whole 64 bytes.
  static constexpr int64_t kPieceUnit = 16 * kMomentBlock;

  // Memory for all parameters in bfloat16, of the host and of their GPU. It is not filled.
  // kFull: there is not enough pinned memory, or memory of the GPU; names the bytes.
  static Result<std::unique_ptr<HostState>> New(const NamedTensors& parameters,
                                                int64_t piece_numbers = kPieceNumbers);
  ~HostState();
  HostState(const HostState&) = delete;
  HostState& operator=(const HostState&) = delete;

  // Null: it keeps nothing of this parameter. The tensors hold the state itself: whoever reads or
  // writes them calls Wait first. They may outlive this object.
  const CudaSplitMoments* Of(const std::string& name) const;

  // The update of the next Run: a parameter and its gradient in bfloat16 on the GPU, contiguous.
  void Add(const std::string& name, const AdamWUpdate& update, const at::Tensor& grad,
           const at::Tensor& parameter);
  // One update of all that was added, behind what `stream` has before it. Does not wait, and
  // begins to copy in what the next one needs first.
  Status Run(uint64_t step, CudaStream stream);
  // Until every copy is done. The next Run copies in what may have been written after this.
  Status Wait();

 private:
  static constexpr size_t kArrays = 5;  // rests, codes of both moments, scales of both

  struct Parameter {
    std::string name;
    int64_t count = 0;
    std::array<std::byte*, kArrays> arrays = {};
    CudaSplitMoments tensors;
  };
  // Numbers of one parameter in a piece, and where its arrays lie in the buffer.
  struct Part {
    const Parameter* of = nullptr;
    int64_t first = 0, count = 0;
    std::array<int64_t, kArrays> at = {};
  };
  struct Copy {
    std::byte* host = nullptr;
    int64_t at = 0, bytes = 0;
  };
  struct Piece {
    std::vector<Part> parts;
    std::vector<Copy> copies;
    int64_t numbers = 0, bytes = 0;
  };
  struct Buffer {
    CudaBuffer memory;
    cudaEvent_t came_in = nullptr, updated = nullptr, went_out = nullptr;
  };
  struct Job {
    AdamWUpdate update;
    at::Tensor grad, parameter;
  };

  HostState() = default;
  Status AllocatePinned(const NamedTensors& parameters);
  void Cut(int64_t piece_numbers);
  static void AddPart(const Parameter& of, int64_t first, int64_t count, Piece& piece);
  Status AllocateOnGpu(const at::Device& device);
  Buffer& BufferOf(size_t piece) { return buffers_[piece % kBuffers]; }
  Status CopyIn(size_t piece);
  void Update(const Piece& piece, std::byte* memory, uint64_t step, CudaStream stream) const;
  Status CopyOut(size_t piece);

  std::shared_ptr<std::byte> memory_;  // pinned; shared with the tensors
  std::vector<Parameter> parameters_;  // by name; their order in memory
  std::vector<Piece> pieces_;          // of all of it, in that order
  std::array<Buffer, kBuffers> buffers_;
  cudaStream_t in_ = nullptr, out_ = nullptr;
  std::map<std::string, Job> jobs_;
  size_t ahead_ = 0;  // the first so many pieces are in their buffers, or on their way
};

}  // namespace tidemill
