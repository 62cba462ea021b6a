#include "weights/torch/weight_codec.h"

#include "model/torch/aten.h"

#include "model/torch/catch.h"
#include "weights/weight_check.h"

namespace tidemill {
namespace {

constexpr char kAdapterConfig[] = "adapter_config";

// A tensor over the blob's own bytes, which live as long as it does.
Result<at::Tensor> Share(const TensorView& view, const WeightBlob& blob,
                         const std::string& device) {
  TM_ASSIGN_OR_RETURN(const at::ScalarType type, ToScalarType(view.dtype));
  const auto keep = blob.buffer;
  void* data = const_cast<std::byte*>(view.data);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % DtypeSize(view.dtype) == 0;
  if (!aligned || view.bytes == 0) return CopyToTensor(view);
  at::Tensor tensor = at::from_blob(
      data, view.shape, [keep](void*) {}, at::TensorOptions().dtype(type));
  return device == "cpu" ? tensor : tensor.to(at::Device(device));
}

}  // namespace

Result<EncodedWeights> EncodeWeights(const Weights& any) {
  const auto& weights = dynamic_cast<const PolicyWeights&>(any);
  const LoraAdapter* adapter = weights.adapter().get();
  TM_ASSIGN_OR_RETURN(HostTensors made,
                      ToHost(adapter != nullptr ? adapter->tensors : weights.tensors()));
  auto host = std::make_shared<const HostTensors>(std::move(made));
  TensorMetadata metadata = {{"format", "pt"}};
  if (adapter != nullptr) metadata[kAdapterConfig] = LoraConfigJson(adapter->config);
  EncodedWeights encoded;
  TM_ASSIGN_OR_RETURN(encoded.parts, LayOutSafetensors(host->views, metadata, "weights"));
  encoded.keeps = host;
  return encoded;
}

Result<std::shared_ptr<const Weights>> DecodeWeights(const WeightBlob& blob,
                                                     const DecodeOptions& options) {
  using Made = std::shared_ptr<const Weights>;
  const std::string name = "version " + std::to_string(blob.version);
  return CatchTorch<Made>(name, [&]() -> Result<Made> {
    TM_ASSIGN_OR_RETURN(const SafetensorsHeader header, ParseSafetensors(blob.view(), name));
    NamedTensors tensors;
    for (const TensorView& view : header.tensors) {
      TM_RETURN_IF_ERROR(CheckFinite(view).WithContext(name));
      TM_ASSIGN_OR_RETURN(at::Tensor tensor, Share(view, blob, options.device));
      tensors.emplace(view.name, std::move(tensor));
    }
    const auto lora = header.metadata.find(kAdapterConfig);
    if (lora == header.metadata.end()) {
      TM_ASSIGN_OR_RETURN(Made made,
                          PolicyWeights::FromTensors(options.config, std::move(tensors)));
      return made;
    }
    if (options.base == nullptr)
      return Invalid(name + ": received an adapter, but there is no base model");
    auto adapter = std::make_shared<LoraAdapter>();
    TM_ASSIGN_OR_RETURN(adapter->config, ParseLoraConfig(lora->second, name));
    adapter->tensors = std::move(tensors);
    TM_ASSIGN_OR_RETURN(Made made, PolicyWeights::WithAdapter(options.base, std::move(adapter)));
    return made;
  });
}

}  // namespace tidemill
