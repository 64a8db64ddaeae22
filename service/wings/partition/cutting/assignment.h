// A part for each node of a graph.
//
// Start here: AssignParts() chooses a method, checks what goes into it and what comes out of it,
// and says what was asked for and reached.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

class AssignmentEngine;  // assignment_engine.h

// One thing that was to be spread evenly.
struct BalanceReport {
  std::string name;      // For example: nodes of class 1 of "paper"
  uint64_t total = 0;    // Of all nodes.
  uint64_t largest = 0;  // Of the part with most of it.
  double asked = 0;      // largest / (total / parts) may be at most this.
  double achieved = 0;   // And is this; 1 if the total is 0.
  bool met = false;      // Whether it is kept, the weight of one node aside.
  std::string dropped;   // Why it was not asked for in the end; empty if it was.
};

struct Assignment {
  uint32_t num_parts = 1;
  // For each homogeneous node, below num_parts.
  std::vector<uint32_t> part;
  // With several trainers a machine: below num_parts * trainers, and part is trainer / trainers per
  // machine. Otherwise empty.
  std::vector<uint32_t> trainer;

  PartMethod method = PartMethod::kMetis;  // What was used; never kAutomatic.
  std::string reason;                      // Why this method, in a sentence.
  // What the caller should know: constraints dropped, attempts repeated, parts without nodes.
  std::vector<std::string> notes;

  // The figures below are of parts, not of trainers.
  // Edges whose ends have different owners, of all edge types, each counted.
  uint64_t cut_edges = 0;
  // The sum over nodes of the number of other parts among their neighbours.
  uint64_t volume = 0;
  std::vector<uint64_t> nodes_of_part;
  std::vector<uint64_t> edges_of_part;  // By their target's part.
  std::vector<BalanceReport> balance;
};

// INVALID_ARGUMENT naming the option, its value and its bound. The first checks what is known
// without the graph: all but classes.
absl::Status CheckPartitionNumbers(const PartitionOptions& options);
absl::Status CheckPartitionOptions(const HomogeneousGraph& graph, const PartitionOptions& options);

// The same graph, options and engine give the same assignment. `engine` calls METIS; null where
// METIS cannot be called, and then kAutomatic streams.
//
// One part, no nodes, and at least as many parts as nodes need no partitioner: then node i has part
// i. Balance that cannot be met is named and given up, with what is next best; the result is then
// still OK.
//
// Errors: as CheckPartitionOptions. CANCELLED by `watch`. With kMetis: FAILED_PRECONDITION without
// an engine, OUT_OF_RANGE if the graph has more than METIS can count, RESOURCE_EXHAUSTED if it
// needs more than `memory_bytes`, and the engine's errors. kAutomatic streams after an error of
// METIS that is not CANCELLED, and says so. Memory: streaming and random, 8 bytes a node; METIS, as
// MetisBytes(), most of it in its process.
absl::StatusOr<Assignment> AssignParts(const HomogeneousGraph& graph,
                                       const PartitionOptions& options, AssignmentEngine* engine,
                                       const PartitionWatch& watch = {});

// Describes parts that came from elsewhere: method and reason are left to the caller.
// INVALID_ARGUMENT if `part` has not one number below options.num_parts for each node. With
// trainers, `part` has the trainers.
absl::StatusOr<Assignment> DescribeParts(const HomogeneousGraph& graph,
                                         const PartitionOptions& options,
                                         std::vector<uint32_t> part,
                                         const PartitionWatch& watch = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_ASSIGNMENT_H_
