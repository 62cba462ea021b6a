#ifdef TIDEMILL_CUDA

#include "model/torch/host_state.h"

#include "model/torch/aten.h"

#include <algorithm>

#include "core/memory.h"
#include "model/cuda/train_kernels.h"

namespace tidemill {
namespace {

// Every array of a parameter begins at a multiple of this, in the host's memory and in a buffer.
constexpr int64_t kArrayAlign = 64;

// An array of the state: so many bytes for each so many numbers.
struct StateArray {
  int64_t numbers, bytes;
};
// Rests, codes of first and second moments, their scales.
constexpr std::array<StateArray, 5> kStateArrays = {
    {{1, 2}, {1, 1}, {1, 1}, {kMomentBlock, 4}, {kMomentBlock, 4}}};

int64_t RoundedUp(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}
int64_t ArrayBytes(const StateArray& array, int64_t count) {
  return RoundedUp((count + array.numbers - 1) / array.numbers * array.bytes, kArrayAlign);
}

Status NoPinnedMemory(size_t bytes, const std::string& why) {
  return Full("the host has no " + std::to_string(bytes >> 20) +
              " MiB of pinned memory for the optimizer's state (learner.optimizer_state = host): " +
              why + "; free memory, or use learner.optimizer_state = gpu");
}

}  // namespace

Result<std::unique_ptr<HostState>> HostState::New(const NamedTensors& parameters,
                                                  int64_t piece_numbers) {
  TM_CHECK(piece_numbers >= kPieceUnit, "a piece has at least one unit");
  std::unique_ptr<HostState> made(new HostState);
  TM_RETURN_IF_ERROR(made->AllocatePinned(parameters));
  made->Cut(piece_numbers);
  TM_RETURN_IF_ERROR(made->AllocateOnGpu(parameters.at(made->parameters_[0].name).device()));
  return made;
}

HostState::~HostState() {
  static_cast<void>(Wait());
  for (Buffer& buffer : buffers_) {
    for (const cudaEvent_t event : {buffer.came_in, buffer.updated, buffer.went_out}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
  }
  if (in_ != nullptr) cudaStreamDestroy(in_);
  if (out_ != nullptr) cudaStreamDestroy(out_);
}

// One block for all tensors.
Status HostState::AllocatePinned(const NamedTensors& parameters) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.scalar_type() != at::kBFloat16) continue;
    parameters_.emplace_back();
    parameters_.back().name = name;
    parameters_.back().count = tensor.numel();
    for (const StateArray& array : kStateArrays) bytes += ArrayBytes(array, tensor.numel());
  }
  if (parameters_.empty()) {
    return Invalid(
        "learner.optimizer_state = host is for weights in bfloat16 on a GPU "
        "(learner.moments = int8), and there are none");
  }
  const auto size = static_cast<size_t>(bytes);
  // The driver would rather have others killed than fail.
  if (const uint64_t left = AvailableMemoryBytes(); left > 0 && left < size) {
    return NoPinnedMemory(size, std::to_string(left >> 20) + " MiB are available");
  }
  void* memory = nullptr;
  if (const cudaError_t code = cudaHostAlloc(&memory, size, 0); code != cudaSuccess) {
    cudaGetLastError();
    return NoPinnedMemory(size, cudaGetErrorString(code));
  }
  memory_.reset(static_cast<std::byte*>(memory), [](std::byte* pinned) { cudaFreeHost(pinned); });
  std::byte* next = memory_.get();
  for (Parameter& p : parameters_) {
    const at::IntArrayRef sizes = parameters.at(p.name).sizes();
    const auto tensor = [&, keep = memory_](size_t array, at::IntArrayRef shape,
                                            at::ScalarType type) {
      return at::from_blob(
          p.arrays[array], shape, [keep](void*) {}, at::TensorOptions().dtype(type));
    };
    for (size_t i = 0; i < kArrays; ++i) {
      p.arrays[i] = next;
      next += ArrayBytes(kStateArrays[i], p.count);
    }
    const int64_t blocks = MomentBlocks(p.count);
    p.tensors = {.rest = tensor(0, sizes, at::kShort),
                 .first = tensor(1, sizes, at::kByte),
                 .first_scales = tensor(3, {blocks}, at::kFloat),
                 .second = tensor(2, sizes, at::kByte),
                 .second_scales = tensor(4, {blocks}, at::kFloat)};
  }
  return Ok();
}

void HostState::Cut(int64_t piece_numbers) {
  for (const Parameter& p : parameters_) {
    int64_t first = 0;
    while (first < p.count) {
      if (pieces_.empty() || pieces_.back().numbers + kPieceUnit > piece_numbers) {
        pieces_.emplace_back();
      }
      Piece& piece = pieces_.back();
      const int64_t room = (piece_numbers - piece.numbers) / kPieceUnit * kPieceUnit;
      const int64_t count = std::min(room, p.count - first);
      AddPart(p, first, count, piece);
      first += count;
    }
  }
}

// Arrays that lie side by side on both sides become one copy: those of a whole parameter do, and
// those of the next one.
void HostState::AddPart(const Parameter& of, int64_t first, int64_t count, Piece& piece) {
  Part part{.of = &of, .first = first, .count = count};
  for (size_t i = 0; i < kArrays; ++i) {
    const StateArray& array = kStateArrays[i];
    std::byte* const host = of.arrays[i] + first / array.numbers * array.bytes;
    const int64_t bytes = ArrayBytes(array, count);
    part.at[i] = piece.bytes;
    if (!piece.copies.empty() && piece.copies.back().host + piece.copies.back().bytes == host) {
      piece.copies.back().bytes += bytes;
    } else {
      piece.copies.push_back({host, piece.bytes, bytes});
    }
    piece.bytes += bytes;
  }
  piece.numbers += RoundedUp(count, kPieceUnit);
  piece.parts.push_back(part);
}

Status HostState::AllocateOnGpu(const at::Device& device) {
  TM_CUDA(cudaSetDevice(device.has_index() ? device.index() : 0));
  TM_CUDA(cudaStreamCreateWithFlags(&in_, cudaStreamNonBlocking));
  TM_CUDA(cudaStreamCreateWithFlags(&out_, cudaStreamNonBlocking));
  int64_t most = 0;
  for (const Piece& piece : pieces_) most = std::max(most, piece.bytes);
  for (size_t i = 0; i < std::min(kBuffers, pieces_.size()); ++i) {
    Buffer& buffer = buffers_[i];
    TM_RETURN_IF_ERROR(
        buffer.memory.Allocate(static_cast<size_t>(most), "a part of the optimizer's state"));
    for (cudaEvent_t* event : {&buffer.came_in, &buffer.updated, &buffer.went_out}) {
      TM_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    }
  }
  return Ok();
}

const CudaSplitMoments* HostState::Of(const std::string& name) const {
  const auto found = std::lower_bound(
      parameters_.begin(), parameters_.end(), name,
      [](const Parameter& parameter, const std::string& to) { return parameter.name < to; });
  return found != parameters_.end() && found->name == name ? &found->tensors : nullptr;
}

void HostState::Add(const std::string& name, const AdamWUpdate& update, const at::Tensor& grad,
                    const at::Tensor& parameter) {
  TM_CHECK(Of(name) != nullptr, "the host has a place for the state of " + name);
  jobs_.insert_or_assign(name, Job{update, grad, parameter});
}

Status HostState::CopyIn(size_t index) {
  const Buffer& buffer = BufferOf(index);
  // What the buffer held last was this piece or a later one: when that has gone out, the buffer is
  // free and what is read here is there.
  TM_CUDA(cudaStreamWaitEvent(in_, buffer.went_out, 0));
  for (const Copy& copy : pieces_[index].copies) {
    TM_CUDA(cudaMemcpyAsync(buffer.memory.as<std::byte>() + copy.at, copy.host,
                            static_cast<size_t>(copy.bytes), cudaMemcpyHostToDevice, in_));
  }
  TM_CUDA(cudaEventRecord(buffer.came_in, in_));
  return Ok();
}

Status HostState::CopyOut(size_t index) {
  const Buffer& buffer = BufferOf(index);
  TM_CUDA(cudaStreamWaitEvent(out_, buffer.updated, 0));
  for (const Copy& copy : pieces_[index].copies) {
    TM_CUDA(cudaMemcpyAsync(copy.host, buffer.memory.as<std::byte>() + copy.at,
                            static_cast<size_t>(copy.bytes), cudaMemcpyDeviceToHost, out_));
  }
  TM_CUDA(cudaEventRecord(buffer.went_out, out_));
  return Ok();
}

// Parameters that were not added go out as they came in.
void HostState::Update(const Piece& piece, std::byte* memory, uint64_t step,
                       CudaStream stream) const {
  for (const Part& part : piece.parts) {
    const auto found = jobs_.find(part.of->name);
    if (found == jobs_.end()) continue;
    const Job& job = found->second;
    const auto array = [&](size_t i) { return static_cast<void*>(memory + part.at[i]); };
    TrainSplitAdamWStep(job.update, step,
                        {.count = part.count,
                         .first = part.first,
                         .grad = static_cast<const uint16_t*>(job.grad.data_ptr()) + part.first,
                         .high = static_cast<uint16_t*>(job.parameter.data_ptr()) + part.first,
                         .rest = static_cast<int16_t*>(array(0)),
                         .first_moments = static_cast<uint8_t*>(array(1)),
                         .first_scales = static_cast<float*>(array(3)),
                         .second_moments = static_cast<uint8_t*>(array(2)),
                         .second_scales = static_cast<float*>(array(4))},
                        stream);
  }
}

Status HostState::Run(uint64_t step, CudaStream stream) {
  for (; ahead_ < std::min(kBuffers, pieces_.size()); ++ahead_) TM_RETURN_IF_ERROR(CopyIn(ahead_));
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Buffer& buffer = BufferOf(i);
    TM_CUDA(cudaStreamWaitEvent(stream, buffer.came_in, 0));
    Update(pieces_[i], buffer.memory.as<std::byte>(), step, stream);
    TM_CUDA(cudaGetLastError());
    TM_CUDA(cudaEventRecord(buffer.updated, stream));
    TM_RETURN_IF_ERROR(CopyOut(i));
    if (i + kBuffers < pieces_.size()) TM_RETURN_IF_ERROR(CopyIn(i + kBuffers));
  }
  jobs_.clear();
  // The next update's first pieces, while its gradients are computed.
  for (ahead_ = 0; ahead_ < std::min(kBuffers, pieces_.size()); ++ahead_) {
    TM_RETURN_IF_ERROR(CopyIn(ahead_));
  }
  return Ok();
}

Status HostState::Wait() {
  ahead_ = 0;
  if (in_ != nullptr) TM_CUDA(cudaStreamSynchronize(in_));
  if (out_ != nullptr) TM_CUDA(cudaStreamSynchronize(out_));
  return Ok();
}

}  // namespace tidemill

#endif  // TIDEMILL_CUDA
