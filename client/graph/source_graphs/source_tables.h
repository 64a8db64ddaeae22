// One large graph as its files have it: a schema, and the tables of its sets, read one after the
// other in pieces of bounded size.
//
// Start here: OpenSourceTables. Each format has a header of its own: unigraph_tables.h,
// array_tables.h, chunked_tables.h, ogb_tables.h; mag_tables.h draws a graph.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/graphs/files/source_rows.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"

namespace packhouse::client {

// The rows of one set, in order. Not thread-safe.
class TableReader {
 public:
  virtual ~TableReader() = default;

  // The next rows, about `max_bytes` of them and at least one; false after the last. The same files
  // and `max_bytes` give the same pieces. Errors name file, line or record, column and value.
  virtual absl::StatusOr<bool> Read(size_t max_bytes, graph_files::SourceRows* rows) = 0;
};

using OpenTable = std::function<absl::StatusOr<std::unique_ptr<TableReader>>()>;

struct SourceTables {
  SourceGraphSchema schema;
  // Whether ids of nodes are texts; otherwise numbers. All sets alike.
  bool has_text_ids = false;
  // Of node sets, then of edge sets; a set may have none.
  std::vector<OpenTable> tables;
  // 16 hexadecimal digits that tell the source from another: its files' names, lengths and times of
  // modification, or how it is drawn.
  std::string fingerprint;
  // Lines for whoever asked for the graph: what was added to the files' rows, and each file that is
  // not read.
  std::vector<std::string> notes = {};
};

// All tables, one after the other. Not thread-safe.
class SourceTablesReader {
 public:
  // `tables` must outlive it.
  explicit SourceTablesReader(const SourceTables& tables) : tables_(tables) {}

  // As TableReader::Read. No piece has rows of two tables, or none.
  absl::StatusOr<bool> Read(size_t max_bytes, graph_files::SourceRows* rows);

 private:
  const SourceTables& tables_;
  size_t next_ = 0;
  std::unique_ptr<TableReader> table_;
};

// The graph in `path`, whose format is known by what is there:
// - FILE.pbtxt, or a folder with one such file: a unigraph of TF-GNN;
// - FILE.npz, or a folder with `nodes/` or `edges/`: arrays;
// - metadata.json, or a folder with it: DGL's chunked graph;
// - a folder with `raw/`: a downloaded data set of OGB, `ogb_name` as OpenOgbTables takes it.
//
// NOT_FOUND, INVALID_ARGUMENT naming the path; errors of the format. INVALID_ARGUMENT for an
// `ogb_name` of what is no data set of OGB.
absl::StatusOr<SourceTables> OpenSourceTables(const std::string& path,
                                              const std::string& ogb_name = "");

// Adds edge sets that are reverses: each of `reverses` is `NAME=SET`. INVALID_ARGUMENT naming it.
absl::Status AddReverses(const std::vector<std::string>& reverses, SourceTables* tables);

// The fingerprint of files.
std::string FingerprintOfFiles(const std::vector<std::string>& paths);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_TABLES_H_
