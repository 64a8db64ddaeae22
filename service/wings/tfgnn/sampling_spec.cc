#include "service/wings/tfgnn/sampling_spec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/text_or_binary.h"
#include "tensorflow_gnn/proto/sampling_spec.pb.h"

namespace packhouse::tfgnn {
namespace {

namespace sampler = tensorflow_gnn::sampler;

// Whether the op has a strategy that this release has no name for: the parser keeps it apart, and
// the field reads as unset.
bool HasUnknownStrategy(const sampler::SamplingOp& op) {
  const google::protobuf::UnknownFieldSet& unknown = op.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() == sampler::SamplingOp::kStrategyFieldNumber) return true;
  }
  return false;
}

sampler::SamplingSpec ToMessage(const SamplingSpec& spec) {
  sampler::SamplingSpec message;
  if (spec.link_seeds) {
    message.mutable_symmetric_link_seed_op()->set_op_name(spec.seed_op);
  } else {
    message.mutable_seed_op()->set_op_name(spec.seed_op);
    message.mutable_seed_op()->set_node_set_name(spec.seed_node_set);
  }
  for (const SamplingOp& op : spec.ops) {
    sampler::SamplingOp& to = *message.add_sampling_ops();
    to.set_op_name(op.name);
    for (const std::string& input : op.inputs) to.add_input_op_names(input);
    to.set_edge_set_name(op.edge_set);
    to.set_sample_size(op.sample_size);
    to.set_strategy(static_cast<sampler::SamplingStrategy>(op.strategy));
  }
  return message;
}

}  // namespace

absl::string_view SamplingStrategyName(SamplingStrategy strategy) {
  switch (strategy) {
    case SamplingStrategy::kTopK:
      return "TOP_K";
    case SamplingStrategy::kRandomUniform:
      return "RANDOM_UNIFORM";
    case SamplingStrategy::kRandomWeighted:
      return "RANDOM_WEIGHTED";
    case SamplingStrategy::kLatestK:
      return "LATEST_K";
  }
  return "?";
}

absl::StatusOr<SamplingSpec> ParseSamplingSpec(absl::string_view bytes) {
  sampler::SamplingSpec message;
  PH_RETURN_IF_ERROR(ParseTextOrBinary("sampling spec", bytes, kMaxSamplingSpecBytes, message));
  SamplingSpec spec;
  switch (message.seeds_case()) {
    case sampler::SamplingSpec::kSeedOp:
      spec.seed_op = message.seed_op().op_name();
      spec.seed_node_set = message.seed_op().node_set_name();
      break;
    case sampler::SamplingSpec::kSymmetricLinkSeedOp:
      spec.seed_op = message.symmetric_link_seed_op().op_name();
      spec.link_seeds = true;
      break;
    case sampler::SamplingSpec::SEEDS_NOT_SET:
      return absl::InvalidArgumentError(
          "sampling spec: it has neither seed_op nor symmetric_link_seed_op");
  }
  for (const sampler::SamplingOp& from : message.sampling_ops()) {
    if (HasUnknownStrategy(from)) {
      return absl::InvalidArgumentError(absl::StrCat("sampling spec: op ", Quoted(from.op_name()),
                                                     ": strategy: its number has no name"));
    }
    SamplingOp op;
    op.name = from.op_name();
    op.inputs.assign(from.input_op_names().begin(), from.input_op_names().end());
    op.edge_set = from.edge_set_name();
    op.sample_size = from.sample_size();
    op.strategy = static_cast<SamplingStrategy>(from.strategy());
    spec.ops.push_back(std::move(op));
  }
  return spec;
}

std::string SamplingSpecText(const SamplingSpec& spec) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(ToMessage(spec), &text);
  return text;
}

std::string SamplingSpecBytes(const SamplingSpec& spec) {
  return ToMessage(spec).SerializeAsString();
}

}  // namespace packhouse::tfgnn
