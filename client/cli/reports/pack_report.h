// What `packhouse pack` prints.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_PACK_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_PACK_REPORT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/graph/files/sizes_file.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/packing.pb.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// What batches are made for: either the limits, or the device that they are chosen for.
struct PackTarget {
  v1::Limits limits;
  std::optional<v1::DeviceProfile> device;
};

struct PackingTotals {
  uint64_t batches = 0;
  uint64_t graphs = 0;
  // Graphs that alone exceed the capacities; they are in no batch and in no total.
  uint64_t rejected = 0;
  // Real rows per component, then graphs.
  std::vector<uint64_t> rows;
  // The same with padding; empty if every batch has the largest shape.
  std::vector<uint64_t> padded_rows = {};
};

struct PackResult {
  v1::PackOpened opened;
  // Of a stream with a device.
  std::optional<v1::PackTuned> tuned;
  // Of a stream whose sizes are watched.
  std::vector<v1::PackDrifted> drifted = {};
  PackingTotals totals;
  // The first graph that was rejected, and why.
  std::optional<v1::Rejection> first_rejected;
  // The batch of each graph of the file; kNoBatch if it was rejected.
  std::vector<uint64_t> batch_of_graph;
  std::chrono::duration<double> elapsed{};
};

// How the stream was made.
struct PackReport {
  // Files.
  std::string sizes;
  std::string device;
  bool is_padded = false;
  std::optional<uint64_t> shuffle_seed;
};

// Why a graph was rejected: `graph 7 has 90 nodes, a batch takes at most 64`.
std::string RejectionText(const v1::Rejection& rejection);

// A table of the stream beside next-fit and the volume bound, and the shapes of a device.
void PrintPackReport(const PackReport& report, const PackTarget& target, const GraphSizes& sizes,
                     const PackResult& result);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_PACK_REPORT_H_
