// Seeds that a file has: nodes or links, with their times and features.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SEEDS_FILE_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SEEDS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/source_graph_client.h"
#include "packhouse/v1/sampling.pb.h"

namespace packhouse::client {

struct SeedsFileOptions {
  // CSV with a header. Nodes: a column `id`, `row` or `number`. Links: `source` and `target`, which
  // are ids, rows or numbers. `time`: of each seed or link, whole numbers. Further columns are
  // features if SubGraphs.readout_columns names them.
  std::string path;
  // What the nodes are called by: "id", "row" or "number".
  std::string by = "id";
  // For links: PyG's "binary" or "triplet"; empty: none are drawn.
  std::string negatives;
  double amount = 1;
  // Decides the negative links.
  uint64_t seed = 0;
  // A file of links that a negative one must not be; empty: any.
  std::string avoid;
};

// The feature of links that tells which of them are negative: 1 for those of the file, then 0.
inline constexpr char kLabelOfLinks[] = "label";

// Adds to `names` (`NAME` or `NAME=DTYPE`, by default int64) the columns of SubGraphs they mean.
// INVALID_ARGUMENT naming the value.
absl::Status AddReadoutColumns(const std::vector<std::string>& names, v1::SubGraphs& sub_graphs);

// The seeds of the file; links are numbers, negative ones behind those of the file, whose labels
// are the readout column kLabelOfLinks.
//
// Errors: INVALID_ARGUMENT naming file, line, column and value, or the option that is missing;
// NOT_FOUND naming a node that the graph does not have; of the client.
absl::StatusOr<v1::Seeds> ReadSeedsFile(const SeedsFileOptions& options,
                                        const v1::SubGraphs& sub_graphs,
                                        const SourceGraphClient& client);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_SEEDS_FILE_H_
