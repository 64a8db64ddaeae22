// Durable source graphs: nodes and edges under a name, appended by many producers in any order,
// sealed, then read many times.
//
// Start here: SourceGraphStore is the interface that the service uses; FileSourceGraphStore
// (stored/file_source_graph_store.h) keeps them in files.
//
// A sealed graph depends on its nodes and edges alone, not on the order in which they came, nor on
// who sent them:
// - Nodes of a set are numbered in ascending order of their external ids: integers by value, text
//   by its bytes.
// - Edges of a set are numbered in ascending order of (number of the source, number of the target);
//   in a set that is stored by target only, of (target, source). Edges with the same ends are told
//   apart by their columns only. They are in ascending order of (producer, sequence, row), where
//   appends without a producer come first, in the order in which they became durable.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/base/producer.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/graphs/source_graphs/source_graph_chunk.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"

namespace packhouse {

enum class SourceGraphState {
  kOpen,     // Takes nodes and edges.
  kSealing,  // A call of Seal() is at work. If it fails, the graph is open again.
  kSealed,   // Never changes again.
  kDamaged,  // Something that was read of it fails its checksum. Only List() has this state, with
             // a name if it could be read; all else but Delete() and Verify() is DATA_LOSS.
};

// What a node set is beside its columns.
struct SourceNodeSetOptions {
  // Whether external ids are int64 numbers; otherwise they are text.
  bool integer_ids = true;
  // Whether an edge may end at a node that nobody appended. Such a node has the id that the edge
  // names, and zeros, or no steps, in every column.
  bool nodes_from_edges = true;
};

// By which end the edges of a set can be looked up. A set that is the reverse of another has what
// the other has, exchanged.
struct SourceEdgeSetOptions {
  bool by_source = true;
  bool by_target = true;
};

// The options of a new source graph; they cannot be changed later.
struct SourceGraphOptions {
  // Bytes that the graph may take on disk, while it is being sealed too. 0: only the store's bound.
  uint64_t max_bytes = 0;
  // As the schema has them; empty: the defaults for all.
  std::vector<SourceNodeSetOptions> node_sets;
  std::vector<SourceEdgeSetOptions> edge_sets;
};

struct SourceGraphInfo {
  std::string name;
  // Null only if the state is kDamaged.
  std::shared_ptr<const SourceGraphSchema> schema;
  SourceGraphOptions options;
  SourceGraphState state = SourceGraphState::kOpen;
  // Of each set. Sealed: nodes and edges. Before: rows that were appended, and a node may be there
  // twice. A reversed edge set has those of the other.
  std::vector<uint64_t> num_nodes;
  std::vector<uint64_t> num_edges;
  // Taken on disk now.
  uint64_t num_bytes = 0;
  // As SourceGraph::version(); 0 before the graph is sealed.
  uint64_t version = 0;
  // A random number, never 0, drawn when the graph is created, and kept until it is deleted.
  uint64_t id = 0;
};

struct SourceGraphList {
  std::vector<SourceGraphInfo> graphs;
  // The beginning of the next page; empty if there is none.
  std::string next_page_token;
};

struct SourceAppendResult {
  // Rows that were appended; 0 for a repetition.
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  // (producer, sequence) had been appended before: nothing happened.
  bool is_repetition = false;
  // Rows in the graph, with this append.
  uint64_t total_nodes = 0;
  uint64_t total_edges = 0;
};

// What sealing does with a node that was appended more than once.
enum class DuplicateNodes {
  kRefuse,  // FAILED_PRECONDITION naming the node, unless its rows are equal.
  kFirst,   // Takes the first in the order of (producer, sequence, row), as edges have it.
  kLast,
};

struct SealOptions {
  DuplicateNodes duplicates = DuplicateNodes::kRefuse;
  // Memory for sorting, however large the graph is; the rest is on the disk. With less there is
  // more to write and to read. Another 16 MiB are for buffers, and some 100 bytes for each append
  // and each of its arrays.
  uint64_t memory_bytes = uint64_t{256} << 20;
  // From which all of this is reserved. Null: it is not counted.
  MemoryBudget* memory = nullptr;
};

// Units of work; only their ratio means something.
struct SourceGraphProgress {
  uint64_t done = 0;
  uint64_t total = 0;
};

struct SourceGraphVerifyReport {
  static constexpr size_t kMaxListed = 1000;

  uint64_t num_bytes = 0;  // That were read.
  uint64_t num_damaged = 0;
  // The first kMaxListed of them, each naming the array, or the record, and its bytes.
  std::vector<absl::Status> damaged;

  bool ok() const { return num_damaged == 0; }
};

// A sealed source graph that is stored. Keeps the graph's bytes on the disk, also if the graph is
// deleted meanwhile. Immutable; thread-safe.
class StoredSourceGraph : public SourceGraph {
 public:
  virtual const SourceGraphInfo& info() const = 0;
  // For files that belong to the graph and shall be deleted with it, by those who make them: a
  // folder that exists. The store does not look into it.
  virtual const std::string& companion_folder() const = 0;
};

// The number of the node with an external id; nullopt if there is none. Requires that ids ascend,
// as they do in stored graphs, and that NodeIds(node_set).CheckAll() is OK. O(log n).
std::optional<uint32_t> FindNode(const SourceGraph& graph, size_t node_set, int64_t id);
std::optional<uint32_t> FindNode(const SourceGraph& graph, size_t node_set, absl::string_view id);

// Thread-safe. A change that is answered with OK is durable. A change that is answered with an
// error has not happened (unless the disk itself failed). Errors besides those named at each
// function:
// - RESOURCE_EXHAUSTED if the disk or a bound is full; names which, the value and the bound.
// - UNAVAILABLE if the file system is read-only or fails to write; reads go on.
// - DATA_LOSS naming the file that fails its checksum, or is missing.
class SourceGraphStore {
 public:
  static constexpr size_t kMaxNameLength = 128;
  // Per graph: named ones, and those whose names were made up for one call.
  static constexpr size_t kMaxProducers = 4096;
  static constexpr size_t kMaxMadeUpProducers = size_t{1} << 16;
  // Of each producer.
  static constexpr size_t kRememberedSequences = 256;
  static constexpr size_t kMaxArrays = 4096;  // Per graph: columns, ids and adjacencies.
  static constexpr size_t kMaxTextId = 4096;  // Bytes of one id.
  static constexpr size_t kDefaultPageSize = 100;
  static constexpr size_t kMaxPageSize = 1000;
  static constexpr uint64_t kMaxChunkRows = uint64_t{1} << 24;  // Of one set.
  static constexpr uint64_t kMaxChunkBytes = uint64_t{1} << 30;

  virtual ~SourceGraphStore() = default;

  // INVALID_ARGUMENT for a bad name or options. ALREADY_EXISTS.
  virtual absl::StatusOr<SourceGraphInfo> Create(absl::string_view name,
                                                 const SourceGraphSchema& schema,
                                                 const SourceGraphOptions& options) = 0;

  // A graph by its name and, unless 0, its id.
  struct Target {
    // NOLINTBEGIN(google-explicit-constructor)
    template <typename Name>
    requires std::is_convertible_v<const Name&, absl::string_view> Target(const Name& of_name,
                                                                          uint64_t of_id = 0)
        : name(of_name), id(of_id) {}
    // NOLINTEND(google-explicit-constructor)

    absl::string_view name;
    uint64_t id = 0;
  };
  // Appends all rows of a chunk; blocks until they are durable. With a producer, an append is a
  // repetition if its producer has appended the same rows under the same sequence
  // (ProducerHistory, which remembers kRememberedSequences numbers). A repetition is OK, also after
  // the graph was sealed. A producer whose name was made up for one call
  // (ProducerSequence::forget_after) is forgotten when its time is over, or later.
  //
  // NOT_FOUND; FAILED_PRECONDITION if sealed; UNAVAILABLE while it is being sealed;
  // INVALID_ARGUMENT for a bad producer or chunk, naming the set, the column, the row and the
  // value; ALREADY_EXISTS as ProducerHistory::IsRepetition(); RESOURCE_EXHAUSTED also if there are
  // kMaxProducers named producers, or kMaxMadeUpProducers others whose time is not over.
  virtual absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) = 0;

  // What is remembered of a producer; an empty history if nothing is. NOT_FOUND as Append().
  virtual absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                                      absl::string_view producer) const = 0;

  // Makes the arrays of the graph, which never changes from then on. `progress` is called every few
  // milliseconds; if it returns false, Seal() ends with CANCELLED. After an error, and after a
  // crash, the graph is open as before. Sealing a sealed graph changes nothing. O(n log n) for n
  // rows.
  //
  // NOT_FOUND as Append(); UNAVAILABLE if another call is sealing it; FAILED_PRECONDITION naming a
  // node that was appended twice (see DuplicateNodes), or the edge whose end is no node where
  // `nodes_from_edges` is false; OUT_OF_RANGE for a node set with more than
  // SourceGraph::kMaxNodes.
  virtual absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions& options,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) = 0;

  // NOT_FOUND.
  virtual absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const = 0;

  // Graphs in ascending order of names, those after `page_token`. `page_size` 0 is
  // kDefaultPageSize; a number above kMaxPageSize counts as kMaxPageSize. INVALID_ARGUMENT for a
  // token that no page gave.
  virtual absl::StatusOr<SourceGraphList> List(size_t page_size,
                                               absl::string_view page_token) const = 0;

  // Frees the name at once. The space is given back after the last reader has gone, and counts
  // until then. A seal that is at work ends with NOT_FOUND. NOT_FOUND as Append().
  virtual absl::Status Delete(const Target& target) = 0;

  // Reads everything and checks every checksum; in a sealed graph also that every edge ends at a
  // node, and that offsets ascend. `progress` as in Seal(). Findings are in the report. NOT_FOUND.
  virtual absl::StatusOr<SourceGraphVerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const = 0;

  // Maps a sealed graph; readers share one map. Takes milliseconds: checksums are looked at when
  // edges and rows are read, and that what is found stays known as long as the store is open.
  // NOT_FOUND; FAILED_PRECONDITION if it is not sealed.
  virtual absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const = 0;
  // The same, unless the graph's arrays would have to be fetched from elsewhere: CANCELLED then.
  virtual absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view name) const {
    return Open(name);
  }
};

// Checks that all implementations share. Error: INVALID_ARGUMENT.
absl::Status CheckSourceGraphName(absl::string_view name);
absl::Status CheckSourceGraphOptions(const SourceGraphSchema& schema,
                                     const SourceGraphOptions& options);
// Every array of a chunk has the length that its rows need, and no set is there twice or is
// reversed. O(rows).
absl::Status CheckSourceGraphChunk(const SourceGraphSchema& schema,
                                   const SourceGraphOptions& options,
                                   const SourceGraphChunk& chunk);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_STORE_H_
