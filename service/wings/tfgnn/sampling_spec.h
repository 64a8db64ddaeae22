// How sub-graphs are drawn around seeds: TF-GNN's SamplingSpec as plain structs, and its files.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_SAMPLING_SPEC_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_SAMPLING_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

// By the numbers of TF-GNN.
enum class SamplingStrategy : uint8_t {
  kTopK = 0,  // What an unset strategy means.
  kRandomUniform = 1,
  kRandomWeighted = 2,
  kLatestK = 3,
};

// For example "RANDOM_UNIFORM".
absl::string_view SamplingStrategyName(SamplingStrategy strategy);

// Takes the nodes that its inputs give, each once, and draws for each of them up to `sample_size`
// of the edges that leave it in `edge_set`. Gives the targets of these edges.
struct SamplingOp {
  std::string name;
  std::vector<std::string> inputs;
  std::string edge_set;
  int32_t sample_size = 0;
  SamplingStrategy strategy = SamplingStrategy::kTopK;

  friend bool operator==(const SamplingOp&, const SamplingOp&) = default;
};

struct SamplingSpec {
  // How the op is called that gives the seeds.
  std::string seed_op;
  // The seeds' node set. Empty for link seeds: the graph's schema says it.
  std::string seed_node_set;
  // Whether the seeds are the two ends of a link (symmetric_link_seed_op).
  bool link_seeds = false;
  // Each after its inputs.
  std::vector<SamplingOp> ops;

  friend bool operator==(const SamplingSpec&, const SamplingSpec&) = default;
};

// The most bytes of a spec, in either form.
inline constexpr size_t kMaxSamplingSpecBytes = size_t{1} << 20;

// Takes text (as in sampling_spec.pbtxt) and the binary form of
// `tensorflow_gnn.sampler.SamplingSpec`. Text is what parses as text. Only the form is checked:
// see SamplingPlan::Create.
//
// INVALID_ARGUMENT, for text with line and column; for more than kMaxSamplingSpecBytes; without a
// seed op; naming the op, for a strategy that has no name. Thread-safe.
absl::StatusOr<SamplingSpec> ParseSamplingSpec(absl::string_view bytes);

// ParseSamplingSpec of either gives an equal spec. The bytes are those of TF-GNN's message.
std::string SamplingSpecText(const SamplingSpec& spec);
std::string SamplingSpecBytes(const SamplingSpec& spec);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_SAMPLING_SPEC_H_
