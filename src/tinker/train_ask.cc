#include "tinker/train_ask.h"

#include <cmath>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/text.h"
#include "tinker/wire_json_fields.h"
#include "tinker/wire_numbers.h"

namespace tidemill {
namespace {

using tinker::Datum;
using tinker::ForwardBackwardRequest;
using tinker::WireTensor;

std::string Quoted(std::string_view name) {
  return "\"" + Beginning(name, 60) + "\"";
}

// The numbers of a tensor, dense, with its shape as [rows, columns]; a vector has one column.
template <typename T>
struct Matrix {
  std::vector<T> numbers;
  int64_t rows = 0;
  int64_t columns = 1;
};

Status CheckShape(const WireTensor& tensor, int64_t count, int64_t* rows, int64_t* columns) {
  if (tensor.shape_size() == 0) {
    *rows = count;
    return Ok();
  }
  if (tensor.shape_size() > 2) return Invalid("has more than two dimensions");
  *rows = tensor.shape(0);
  *columns = tensor.shape_size() == 2 ? tensor.shape(1) : 1;
  if (*rows < 0 || *columns < 1 || *columns > kTargetsAPlaceMax) {
    return Invalid("has a shape that cannot be: at most " + std::to_string(kTargetsAPlaceMax) +
                   " columns");
  }
  return Ok();
}

template <typename T>
Status ReadSparse(const WireTensor& tensor, int64_t rows_max, Matrix<T>& matrix) {
  std::vector<T> values;
  std::vector<int64_t> starts, places;
  if (tensor.shape_size() != 2) return Invalid("is sparse and needs a shape of two numbers");
  TM_RETURN_IF_ERROR(CheckShape(tensor, 0, &matrix.rows, &matrix.columns));
  if (matrix.rows > rows_max) return Invalid("has more rows than the model input has tokens");
  const tinker::SparseRows& sparse = tensor.sparse_csr();
  if (!FromWireBytes(sparse.values(), values) || !FromWireBytes(sparse.crow_indices(), starts) ||
      !FromWireBytes(sparse.col_indices(), places)) {
    return Invalid("is sparse and its bytes are no whole number of values or indices");
  }
  if (starts.size() != static_cast<size_t>(matrix.rows) + 1 || values.size() != places.size() ||
      starts.front() != 0 || starts.back() != static_cast<int64_t>(values.size())) {
    return Invalid("is sparse and its indices do not fit its values");
  }
  matrix.numbers.assign(static_cast<size_t>(matrix.rows * matrix.columns), T{});
  for (int64_t row = 0; row < matrix.rows; ++row) {
    const int64_t from = starts[static_cast<size_t>(row)],
                  to = starts[static_cast<size_t>(row) + 1];
    if (from > to || from < 0 || to > static_cast<int64_t>(values.size())) {
      return Invalid("is sparse and its row " + std::to_string(row) + " ends before it begins");
    }
    for (int64_t i = from; i < to; ++i) {
      const int64_t column = places[static_cast<size_t>(i)];
      if (column < 0 || column >= matrix.columns) {
        return Invalid("is sparse and names the column " + std::to_string(column) + " of " +
                       std::to_string(matrix.columns));
      }
      matrix.numbers[static_cast<size_t>(row * matrix.columns + column)] =
          values[static_cast<size_t>(i)];
    }
  }
  return Ok();
}

template <typename T>
Result<Matrix<T>> ReadTensor(const WireTensor& tensor, int64_t rows_max) {
  constexpr tinker::TensorType kWanted = std::is_same_v<T, float> ? tinker::FLOAT32 : tinker::INT64;
  if (tensor.dtype() != kWanted) {
    return Invalid(std::string("must be ") + (kWanted == tinker::FLOAT32 ? "float32" : "int64"));
  }
  Matrix<T> matrix;
  if (tensor.has_sparse_csr()) {
    TM_RETURN_IF_ERROR(ReadSparse(tensor, rows_max, matrix));
    return matrix;
  }
  if (!FromWireBytes(tensor.dense(), matrix.numbers)) {
    return Invalid("has bytes that are no whole number of its type");
  }
  const auto count = static_cast<int64_t>(matrix.numbers.size());
  TM_RETURN_IF_ERROR(CheckShape(tensor, count, &matrix.rows, &matrix.columns));
  if (matrix.rows > rows_max) return Invalid("has more rows than the model input has tokens");
  if (matrix.rows * matrix.columns != count) return Invalid("has another shape than numbers");
  return matrix;
}

Status ReadIds(const Datum& datum, std::vector<int32_t>& ids) {
  for (const tinker::InputChunk& chunk : datum.model_input()) {
    if (chunk.has_image()) return Invalid("images are not supported: the models read text");
    if (chunk.has_dmel()) return Invalid("audio (dmel) is not supported: the models read text");
    std::vector<int32_t> part;
    if (!chunk.has_encoded_text() || !FromWireBytes(chunk.encoded_text().tokens(), part)) {
      return Invalid("a chunk of the model input is no encoded_text of int32 tokens");
    }
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return Ok();
}

// The inputs of a loss by name; null: it has no use for one of this name.
std::vector<float>* InputOf(std::string_view name, TokenLossKind kind, TokenRow& row) {
  const bool cross_entropy = kind == TokenLossKind::kCrossEntropy;
  if (name == "weights" && cross_entropy) return &row.weights;
  if (name == "logprobs" && !cross_entropy) return &row.behaviour;
  if (name == "advantages" && !cross_entropy) return &row.advantages;
  if (name == "sequence_ratio_mask" && kind == TokenLossKind::kGspo) return &row.ratio_mask;
  return nullptr;
}

Result<TokenRow> ReadRow(const Datum& datum, TokenLossKind kind, std::string_view loss) {
  TokenRow row;
  TM_RETURN_IF_ERROR(ReadIds(datum, row.ids));
  const auto rows_max = static_cast<int64_t>(row.ids.size());
  std::map<std::string, int64_t> columns;
  for (const auto& [name, tensor] : datum.loss_fn_inputs()) {
    if (name == "target_tokens") {
      auto read = ReadTensor<int64_t>(tensor, rows_max);
      if (!read.ok()) return Invalid(Quoted(name) + " " + read.status().message());
      row.targets = std::move(read->numbers);
      row.per_place = read->columns;
      continue;
    }
    std::vector<float>* const to = InputOf(name, kind, row);
    if (to == nullptr) {
      return Invalid(Quoted(name) + " is no input of the loss " + Quoted(loss));
    }
    auto read = ReadTensor<float>(tensor, rows_max);
    if (!read.ok()) return Invalid(Quoted(name) + " " + read.status().message());
    *to = std::move(read->numbers);
    columns[name] = read->columns;
  }
  for (const auto& [name, count] : columns) {
    if (count != row.per_place)
      return Invalid(Quoted(name) + " has another shape than target_tokens");
  }
  return row;
}

Status TakeConfig(std::string_view key, double value, TokenLoss& loss) {
  const bool clips = loss.kind == TokenLossKind::kPpo || loss.kind == TokenLossKind::kCispo ||
                     loss.kind == TokenLossKind::kGspo;
  if (!std::isfinite(value)) return Invalid(Quoted(key) + " must be a finite number");
  if (clips && key == "clip_low_threshold") {
    loss.clip_low = value;
  } else if (clips && key == "clip_high_threshold") {
    loss.clip_high = value;
  } else if (loss.kind == TokenLossKind::kDro && key == "beta") {
    loss.beta = value;
  } else {
    return Invalid("loss_fn_config: this loss has no key " + Quoted(key));
  }
  return Ok();
}

Result<TokenLoss> ReadLoss(const ForwardBackwardRequest& request) {
  const auto kind = TokenLossByName(request.loss_fn());
  if (!kind) {
    return Invalid("the loss " + Quoted(request.loss_fn()) +
                   " is not supported; there are cross_entropy, importance_sampling, ppo, cispo, "
                   "dro, gspo, and losses of your own by forward_backward_custom");
  }
  TokenLoss loss{.kind = *kind};
  std::map<std::string, double> config;
  for (const auto& [key, value] : request.loss_fn_config()) config[key] = value;
  for (const auto& [key, value] : request.loss_fn_config_v2()) {
    if (!value.has_number()) return Invalid("loss_fn_config: " + Quoted(key) + " must be a number");
    config[key] = value.number();
  }
  for (const auto& [key, value] : config) TM_RETURN_IF_ERROR(TakeConfig(key, value, loss));
  if (!(loss.clip_low <= loss.clip_high)) {
    return Invalid("loss_fn_config: clip_low_threshold is above clip_high_threshold");
  }
  return loss;
}

Result<std::string> TensorJsonBytes(const WireJson& json, tinker::TensorType* type,
                                    WireTensor& tensor) {
  const WireJson* const data = FieldOf(json, "data");
  const WireJson* const dtype = FieldOf(json, "dtype");
  if (data == nullptr || !data->is_array()) return Invalid("needs a list \"data\"");
  const std::string name = dtype != nullptr && dtype->is_string() ? dtype->get<std::string>() : "";
  if (name != "int64" && name != "float32") return Invalid("needs a \"dtype\" int64 or float32");
  *type = name == "int64" ? tinker::INT64 : tinker::FLOAT32;
  if (const WireJson* const shape = FieldOf(json, "shape"); shape != nullptr && shape->is_array()) {
    for (const WireJson& size : *shape) {
      if (!size.is_number_integer()) return Invalid("has a shape that is no list of whole numbers");
      tensor.add_shape(size.get<int64_t>());
    }
  }
  std::vector<int64_t> whole;
  std::vector<float> real;
  for (const WireJson& number : *data) {
    const bool good = *type == tinker::INT64 ? number.is_number_integer() : number.is_number();
    if (!good) return Invalid("has something else than numbers of its type in \"data\"");
    if (*type == tinker::INT64) {
      whole.push_back(number.get<int64_t>());
    } else {
      real.push_back(number.get<float>());
    }
  }
  return *type == tinker::INT64 ? ToWireBytes(whole) : ToWireBytes(real);
}

Status ReadJsonChunk(const WireJson& json, tinker::InputChunk& chunk) {
  const WireJson* const type = FieldOf(json, "type");
  if (type != nullptr && type->is_string() && *type != "encoded_text") {
    return Invalid("a chunk of type " + Quoted(type->get<std::string>()) +
                   " is not supported: the models read text");
  }
  std::vector<int32_t> tokens;
  TM_RETURN_IF_ERROR(ReadTokens(FieldOf(json, "tokens"), tokens));
  chunk.mutable_encoded_text()->set_tokens(ToWireBytes(tokens));
  return Ok();
}

Status ReadJsonDatum(const WireJson& json, Datum& datum) {
  const WireJson* const input = FieldOf(json, "model_input");
  const WireJson* const chunks = input == nullptr ? nullptr : FieldOf(*input, "chunks");
  const WireJson* const inputs = FieldOf(json, "loss_fn_inputs");
  if (chunks == nullptr || !chunks->is_array()) return Invalid("needs model_input.chunks");
  if (inputs == nullptr || !inputs->is_object()) return Invalid("needs loss_fn_inputs");
  for (const WireJson& chunk : *chunks) {
    TM_RETURN_IF_ERROR(ReadJsonChunk(chunk, *datum.add_model_input()));
  }
  for (const auto& [name, value] : inputs->items()) {
    WireTensor& tensor = (*datum.mutable_loss_fn_inputs())[name];
    tinker::TensorType type = tinker::TENSOR_TYPE_UNSPECIFIED;
    auto bytes = TensorJsonBytes(value, &type, tensor);
    if (!bytes.ok()) return Invalid(Quoted(name) + " " + bytes.status().message());
    tensor.set_dense(std::move(*bytes));
    tensor.set_dtype(type);
  }
  return Ok();
}

}  // namespace

Result<ForwardBackwardRequest> ParseTrainProto(std::string_view bytes) {
  ForwardBackwardRequest request;
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Invalid("the body is no ForwardBackwardRequest");
  }
  return request;
}

Result<ForwardBackwardRequest> ParseTrainJson(std::string_view text, bool forward_only) {
  TM_ASSIGN_OR_RETURN(const WireJson json, ParseFields(text));
  ForwardBackwardRequest request;
  TM_ASSIGN_OR_RETURN(*request.mutable_model_id(), TextField(json, "model_id"));
  TM_ASSIGN_OR_RETURN(const int64_t seq, WholeField(json, "seq_id", 1, INT32_MAX));
  request.set_seq_id(static_cast<int32_t>(seq));
  request.set_forward_only(forward_only);
  const WireJson* const input =
      FieldOf(json, forward_only ? "forward_input" : "forward_backward_input");
  if (input == nullptr) return Invalid("the body lacks its input");
  TM_ASSIGN_OR_RETURN(*request.mutable_loss_fn(), TextField(*input, "loss_fn"));
  if (const WireJson* const config = FieldOf(*input, "loss_fn_config"); config != nullptr) {
    if (!config->is_object()) return Invalid("\"loss_fn_config\" must be an object");
    for (const auto& [key, value] : config->items()) {
      if (!value.is_number())
        return Invalid("loss_fn_config: " + Quoted(key) + " must be a number");
      (*request.mutable_loss_fn_config())[key] = value.get<double>();
    }
  }
  const WireJson* const data = FieldOf(*input, "data");
  if (data == nullptr || !data->is_array()) return Invalid("\"data\" must be a list");
  for (const WireJson& datum : *data) {
    TM_RETURN_IF_ERROR(ReadJsonDatum(datum, *request.add_data())
                           .WithContext("datum " + std::to_string(request.data_size() - 1)));
  }
  return request;
}

Result<TrainAsk> ReadTrainAsk(const ForwardBackwardRequest& request) {
  TrainAsk ask;
  TM_ASSIGN_OR_RETURN(ask.loss, ReadLoss(request));
  ask.gradients = !request.forward_only();
  if (request.data().empty()) return Invalid("there is no datum");
  if (static_cast<size_t>(request.data_size()) > kDatumsMax) {
    return Invalid("more than " + std::to_string(kDatumsMax) + " datums in one request");
  }
  for (const Datum& datum : request.data()) {
    Result<TokenRow> row = ReadRow(datum, ask.loss.kind, request.loss_fn());
    if (!row.ok()) return row.status().WithContext("datum " + std::to_string(ask.rows.size()));
    ask.rows.push_back(std::move(*row));
  }
  return ask;
}

tinker::ForwardBackwardOutput TrainOutput(const TrainAsk& ask, const TokenLossResult& result) {
  tinker::ForwardBackwardOutput output;
  output.set_loss_fn_output_type("ArrayRecord");
  (*output.mutable_metrics())["loss:sum"] = result.loss;
  // A record is rectangular behind its datums: another number of targets a place begins another.
  for (size_t first = 0; first < ask.rows.size();) {
    const int64_t per_place = ask.rows[first].per_place;
    tinker::ArrayRecord& record = *output.add_loss_fn_outputs();
    record.set_type_tag("ArrayRecord");
    tinker::BatchedTensor& field = (*record.mutable_fields())["logprobs"];
    field.set_dtype(tinker::FLOAT32);
    if (per_place > 1) field.add_trailing_shape(per_place);
    std::vector<int64_t> offsets = {0};
    size_t last = first;
    for (; last < ask.rows.size() && ask.rows[last].per_place == per_place; ++last) {
      field.mutable_data()->append(ToWireBytes(result.logprobs[last]));
      offsets.push_back(static_cast<int64_t>(field.data().size()));
    }
    field.set_offsets(ToWireBytes(offsets));
    record.set_num_datums(static_cast<int64_t>(last - first));
    first = last;
  }
  return output;
}

Result<std::string> TrainOutputJson(std::string_view bytes) {
  tinker::ForwardBackwardOutput output;
  if (!output.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Corrupt("a stored result is no ForwardBackwardOutput");
  }
  WireJson datums = WireJson::array();
  for (const tinker::ArrayRecord& record : output.loss_fn_outputs()) {
    const auto field = record.fields().find("logprobs");
    std::vector<int64_t> offsets;
    std::vector<float> numbers;
    if (field == record.fields().end() || !FromWireBytes(field->second.offsets(), offsets) ||
        !FromWireBytes(field->second.data(), numbers)) {
      return Corrupt("a stored result lacks its log-probabilities");
    }
    const int64_t columns =
        field->second.trailing_shape().empty() ? 1 : field->second.trailing_shape(0);
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      const auto from = numbers.begin() + offsets[i] / int64_t{sizeof(float)};
      const auto to = numbers.begin() + offsets[i + 1] / int64_t{sizeof(float)};
      WireJson shape = {(to - from) / columns};
      if (columns > 1) shape.push_back(columns);
      datums.push_back({{"logprobs",
                         {{"data", std::vector<float>(from, to)},
                          {"dtype", "float32"},
                          {"shape", std::move(shape)}}}});
    }
  }
  WireJson metrics = WireJson::object();
  for (const auto& [name, value] : output.metrics()) metrics[name] = value;
  return DumpWire({{"loss_fn_output_type", output.loss_fn_output_type()},
                   {"loss_fn_outputs", std::move(datums)},
                   {"metrics", std::move(metrics)}});
}

}  // namespace tidemill
