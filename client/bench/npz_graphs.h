// Whole graphs from a .npz archive: molecules, the TU sets, or your own. npz_layout.h describes the
// arrays. The Python package (packhouse.files.npz) reads the same files as the same graphs.
#ifndef PACKHOUSE_CLIENT_BENCH_NPZ_GRAPHS_H_
#define PACKHOUSE_CLIENT_BENCH_NPZ_GRAPHS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/bench/graph_source.h"
#include "client/bench/npz_layout.h"
#include "client/graph/files/npz_archive.h"

namespace packhouse::client {

// Holds the offsets in memory, 8 bytes for each component of a graph (8 more with groups); the rest
// is streamed.
class NpzGraphs final : public GraphSource {
 public:
  // Opens an archive and reads all of it once, so that nothing of a broken file is ever sent.
  // `groups` names an array of whole numbers [graphs]: each graph's group id. This array is then no
  // tensor. Empty: no groups.
  //
  // Errors: as NpzArchive::Open, CheckArrays and ReadNpzLayout; INVALID_ARGUMENT naming file and
  // array if there is no group id for each graph; OUT_OF_RANGE naming array, graph and value if an
  // end of an edge is no row of its graph.
  static absl::StatusOr<std::unique_ptr<GraphSource>> Open(const std::string& path,
                                                           const std::string& groups);

  const v1::GraphSchema& schema() const override { return layout_.schema; }
  bool is_grouped() const override { return groups_.has_value(); }
  uint64_t num_graphs() const override { return layout_.num_graphs; }
  uint64_t GraphBytes(uint64_t graph) const override;
  std::string fingerprint() const override;
  absl::StatusOr<SourceChunk> Next(uint64_t count) override;

 private:
  struct Groups {
    std::string name;
    // One for each graph.
    std::vector<uint64_t> ids;
  };

  explicit NpzGraphs(std::unique_ptr<NpzArchive> archive) : archive_(std::move(archive)) {}
  absl::Status ReadGroups(const std::string& name);
  // Opens the streams of all columns at their first rows.
  absl::Status Rewind();
  absl::Status CheckIndices();
  // Appends the rows of graphs [begin, end), which are next in the stream of column `i`.
  absl::Status AppendRows(uint64_t begin, uint64_t end, std::size_t i, std::string& data);
  absl::Status AppendIndices(uint64_t begin, uint64_t end, std::size_t i, std::string& data);

  const std::unique_ptr<NpzArchive> archive_;
  // Below: constant after Open.
  NpzLayout layout_;
  std::optional<Groups> groups_;

  // One for each column.
  std::vector<NpzStream> streams_;
  uint64_t next_ = 0;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_NPZ_GRAPHS_H_
