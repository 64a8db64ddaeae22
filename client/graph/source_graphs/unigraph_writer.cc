#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/graph/source_graphs/table_writers.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "service/base/file_name.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/table_rows.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "tensorflow/core/framework/types.pb.h"

namespace packhouse::client {
namespace {

using graph_files::IdRows;
using graph_files::RowsSpec;
using graph_files::SourceRows;

tensorflow::DataType TfgnnDtype(const SourceColumnSpec& column) {
  if (column.text) return tensorflow::DT_STRING;
  switch (column.dtype) {
    case DType::kBool:
      return tensorflow::DT_BOOL;
    case DType::kInt8:
      return tensorflow::DT_INT8;
    case DType::kInt16:
      return tensorflow::DT_INT16;
    case DType::kInt32:
      return tensorflow::DT_INT32;
    case DType::kInt64:
      return tensorflow::DT_INT64;
    case DType::kUint8:
      return tensorflow::DT_UINT8;
    case DType::kUint16:
      return tensorflow::DT_UINT16;
    case DType::kUint32:
      return tensorflow::DT_UINT32;
    case DType::kUint64:
      return tensorflow::DT_UINT64;
    case DType::kFloat16:
      return tensorflow::DT_HALF;
    case DType::kBfloat16:
      return tensorflow::DT_BFLOAT16;
    case DType::kFloat32:
      return tensorflow::DT_FLOAT;
    case DType::kFloat64:
      return tensorflow::DT_DOUBLE;
  }
  return tensorflow::DT_INVALID;
}

template <typename Features>
void AddFeatures(const std::vector<SourceColumnSpec>& columns, Features& features) {
  for (const SourceColumnSpec& column : columns) {
    tensorflow_gnn::Feature& feature = features[column.name];
    feature.set_dtype(TfgnnDtype(column));
    if (column.text) continue;
    if (column.ragged) feature.mutable_shape()->add_dim()->set_size(-1);
    for (const uint32_t extent : column.row_shape) {
      feature.mutable_shape()->add_dim()->set_size(extent);
    }
  }
}

std::string TableName(bool is_edges, const std::string& set, uint32_t shards) {
  const std::string name =
      absl::StrCat(is_edges ? "edges-" : "nodes-", FileNameOf(set), ".tfrecords");
  return shards == 1 ? name : absl::StrCat(name, "@", shards);
}

class UnigraphWriter {
 public:
  UnigraphWriter(const SourceTables& tables, std::filesystem::path folder,
                 const UnigraphOptions& options)
      : tables_(tables),
        schema_(tables.schema),
        folder_(std::move(folder)),
        options_(options),
        counts_{std::vector<uint64_t>(schema_.node_sets().size()),
                std::vector<uint64_t>(schema_.edge_sets().size())} {}

  absl::StatusOr<WrittenTables> Write() {
    SourceTablesReader reader(tables_);
    SourceRows rows;
    // Every set has a file, also one without rows.
    std::vector<bool> is_written[2] = {std::vector<bool>(counts_[0].size()),
                                       std::vector<bool>(counts_[1].size())};
    while (true) {
      PH_ASSIGN_OR_RETURN(const bool has_rows, reader.Read(size_t{1} << 20, &rows));
      if (!has_rows) break;
      if (writer_ == nullptr || rows.is_edges != is_edges_ || rows.set != set_) {
        PH_RETURN_IF_ERROR(Begin(rows.is_edges, rows.set));
        is_written[rows.is_edges ? 1 : 0][rows.set] = true;
      }
      PH_RETURN_IF_ERROR(Append(rows));
    }
    PH_RETURN_IF_ERROR(End());
    for (const bool is_edges : {false, true}) {
      for (size_t set = 0; set < counts_[is_edges ? 1 : 0].size(); ++set) {
        if (is_written[is_edges ? 1 : 0][set]) continue;
        if (is_edges && schema_.edge_sets()[set].reverse_of.has_value()) continue;
        PH_RETURN_IF_ERROR(Begin(is_edges, set));
        PH_RETURN_IF_ERROR(End());
      }
    }
    PH_RETURN_IF_ERROR(WriteSchema());
    WrittenTables written;
    for (const uint64_t count : counts_[0]) written.num_nodes += count;
    for (const uint64_t count : counts_[1]) written.num_edges += count;
    return written;
  }

 private:
  absl::Status Begin(bool is_edges, size_t set) {
    PH_RETURN_IF_ERROR(End());
    is_edges_ = is_edges;
    set_ = set;
    spec_ = graph_files::RowsSpecOf(schema_, is_edges, set, /*is_swapped=*/false);
    const std::string& name =
        is_edges ? schema_.edge_sets()[set].name : schema_.node_sets()[set].name;
    PH_ASSIGN_OR_RETURN(
        const std::vector<std::string> paths,
        FilesToWrite((folder_ / TableName(is_edges, name, options_.shards)).string()));
    PH_ASSIGN_OR_RETURN(writer_, TfrecordWriter::Create(paths));
    return absl::OkStatus();
  }

  absl::Status End() {
    if (writer_ == nullptr) return absl::OkStatus();
    const std::unique_ptr<TfrecordWriter> writer = std::move(writer_);
    return writer->Finish();
  }

  void NameIds(size_t node_set, IdRows* ids) const {
    if (ids->is_text) return;
    const std::string& set = schema_.node_sets()[node_set].name;
    for (const int64_t number : ids->numbers) ids->AddText(UnigraphId(set, number, options_));
    ids->numbers.clear();
    ids->is_text = true;
  }

  absl::Status Append(SourceRows& rows) {
    if (is_edges_) {
      NameIds(schema_.edge_sets()[set_].source, &rows.sources);
      NameIds(schema_.edge_sets()[set_].target, &rows.targets);
    } else {
      NameIds(set_, &rows.ids);
    }
    counts_[is_edges_ ? 1 : 0][set_] += rows.count;
    return graph_files::ForEachExample(
        spec_, rows, [this](absl::string_view record) { return writer_->Write(record); });
  }

  absl::Status WriteSchema() const {
    tensorflow_gnn::GraphSchema schema;
    for (size_t set = 0; set < counts_[0].size(); ++set) {
      const SourceNodeSetSpec& spec = schema_.node_sets()[set];
      tensorflow_gnn::NodeSet& nodes = (*schema.mutable_node_sets())[spec.name];
      AddFeatures(spec.columns, *nodes.mutable_features());
      nodes.mutable_metadata()->set_filename(TableName(false, spec.name, options_.shards));
      nodes.mutable_metadata()->set_cardinality(static_cast<int64_t>(counts_[0][set]));
    }
    for (size_t set = 0; set < counts_[1].size(); ++set) {
      const SourceEdgeSetSpec& spec = schema_.edge_sets()[set];
      const size_t stored = spec.reverse_of.value_or(set);
      tensorflow_gnn::EdgeSet& edges = (*schema.mutable_edge_sets())[spec.name];
      edges.set_source(schema_.node_sets()[spec.source].name);
      edges.set_target(schema_.node_sets()[spec.target].name);
      AddFeatures(schema_.edge_sets()[stored].columns, *edges.mutable_features());
      tensorflow_gnn::Metadata& metadata = *edges.mutable_metadata();
      metadata.set_filename(TableName(true, schema_.edge_sets()[stored].name, options_.shards));
      metadata.set_cardinality(static_cast<int64_t>(counts_[1][stored]));
      if (spec.reverse_of.has_value()) {
        tensorflow_gnn::Metadata::KeyValue& extra = *metadata.add_extra();
        extra.set_key("edge_type");
        extra.set_value("reversed");
      }
    }
    const std::string path = (folder_ / "graph_schema.pbtxt").string();
    std::ofstream file(path, std::ios::binary);
    file << tfgnn::GraphSchemaText(schema);
    file.close();
    if (file) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }

  const SourceTables& tables_;
  const SourceGraphSchema& schema_;
  const std::filesystem::path folder_;
  const UnigraphOptions options_;
  // Rows of node sets, and of edge sets.
  std::vector<uint64_t> counts_[2];

  // The table that is being written; null between tables.
  std::unique_ptr<TfrecordWriter> writer_;
  bool is_edges_ = false;
  size_t set_ = 0;
  RowsSpec spec_;
};

}  // namespace

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
}

std::string UnigraphId(const std::string& set, int64_t number, const UnigraphOptions& options) {
  return options.ids_have_set_names ? absl::StrCat(set, number) : absl::StrCat(number);
}

absl::StatusOr<WrittenTables> WriteUnigraph(const SourceTables& tables, const std::string& folder,
                                            const UnigraphOptions& options) {
  PH_RETURN_IF_ERROR(MakeFolder(folder));
  return UnigraphWriter(tables, folder, options).Write();
}

}  // namespace packhouse::client
