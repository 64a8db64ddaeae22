// The options of `packhouse partition`, as they are given and as they are meant.
#ifndef PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_ARGUMENTS_H_
#define PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_ARGUMENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/jobs/partition_plan.h"

namespace packhouse::client {

struct PartitionArguments {
  std::string graph;
  std::string output;
  std::string name = "graph";
  std::string assignment;
  uint32_t parts = 0;
  uint32_t hops = 1;
  uint32_t trainers = 1;
  std::string method = "automatic";
  std::string scheme = "k-way";
  std::string objective = "cut";
  std::string quality = "default";
  std::string halo = "all";
  std::vector<std::string> balance_ntypes;
  bool balance_edges = false;
  double imbalance = 1.03;
  uint64_t seed = 1;
  std::vector<std::string> formats;
  std::vector<std::string> graph_formats;
  bool mapping = false;
  bool original_ids = false;
  bool write_assignment = false;
  std::string memory;
  std::string time_limit;
  bool json = false;
};

// --method with the words that MethodOf() knows.
void AddMethodOption(std::string& method, CLI::App& command);
PartMethod MethodOf(const std::string& word);

void AddPartitionOptions(PartitionArguments& arguments, CLI::App& command);

// What the words mean. `only_node_set` is the name of the graph's node set if it has one only, and
// else empty: then columns must be given as SET:COLUMN. INVALID_ARGUMENT naming the option.
absl::StatusOr<PartitionPlan> PlanOf(const PartitionArguments& arguments,
                                     const std::string& only_node_set);

// Whether `path` is read as a METIS graph file, whose weights METIS heeds.
bool IsMetisGraphPath(const std::string& path);
// A graph from files: a folder with metadata.json, or a METIS graph file.
absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadLocalGraph(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_ARGUMENTS_H_
