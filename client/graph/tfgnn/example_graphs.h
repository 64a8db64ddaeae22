// The graphs of TFRecord files one by one, and as JSON.
#ifndef PACKHOUSE_CLIENT_GRAPH_TFGNN_EXAMPLE_GRAPHS_H_
#define PACKHOUSE_CLIENT_GRAPH_TFGNN_EXAMPLE_GRAPHS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/base/command_line/json.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse::client {

// The sets of the schema in a file, text or binary. NOT_FOUND, or the errors of
// GraphSets::FromTfgnnFile, naming the file.
absl::StatusOr<tfgnn::GraphSets> ReadGraphSets(const std::string& path);

// Which records to read.
struct ExamplesToRead {
  // See FilesOf; one after the other.
  std::vector<std::string> patterns;
  // Before every key.
  std::string key_prefix;
  // The first so many; 0: all.
  uint64_t most = 0;
};

// Calls `take` with each graph, the only one of its chunk, and its record. An error of `take` ends
// it. Errors: FilesOf, TfrecordReader; INVALID_ARGUMENT for a malformed record, naming file and
// record.
absl::Status ForEachExample(
    const tfgnn::GraphSets& sets, const ExamplesToRead& examples,
    absl::FunctionRef<absl::Status(const GraphChunk& graph, absl::string_view record)> take);

// Graph i: {"context": {FEATURE: value}, "node_sets": {SET: {"size": n, "features": {FEATURE:
// rows}}}, "edge_sets": {SET: {"size", "source", "target", "features"}}}. Rows are nested lists in
// the feature's shape; numbers that are not finite become null.
Json GraphJson(const tfgnn::GraphSets& sets, const GraphChunk& chunk, std::size_t i);

// What a feature holds, as in `float32[2]`, `string[-1]`.
std::string TypeText(const tfgnn::Feature& feature);

// The rows of a feature as a list.
Json FeatureRows(const tfgnn::Feature& feature, const GraphChunk& chunk, std::size_t i);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_TFGNN_EXAMPLE_GRAPHS_H_
