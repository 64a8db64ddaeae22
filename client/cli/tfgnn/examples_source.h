// Graphs of TFRecord files of tf.Examples, for an ingest.
#ifndef PACKHOUSE_CLIENT_CLI_TFGNN_EXAMPLES_SOURCE_H_
#define PACKHOUSE_CLIENT_CLI_TFGNN_EXAMPLES_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/files/graph_source.h"
#include "client/graph/tfgnn/example_graphs.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "packhouse/v1/graphs.pb.h"
#include "service/tfgnn/example_decoder.h"
#include "service/tfgnn/graph_sets.h"
#include "service/tfgnn/readout.h"
#include "service/tfgnn/row_builder.h"

namespace packhouse::client {

// The schema as the contract's message.
v1::GraphSchema WireSchema(const GraphSchema& schema);

struct ExamplesOptions {
  // TF-GNN's schema of the records.
  std::string graph_schema;
  // See FilesOf.
  std::string pattern;
  // Before every key.
  std::string key_prefix;
  // Malformed records are left out and counted; otherwise they are errors.
  bool skip_malformed = false;
  // KEY=NODE_SET: each graph gets a read-out from the first node of that set; empty: none.
  std::string readout;
};

// Holds 8 bytes a record in memory; the records are streamed. Not thread-safe.
//
// Records are sent as they are, and the server decodes them; with a prefix or a read-out, which a
// server does not know, they are decoded here. Chunks before a malformed record stay.
class ExamplesSource final : public GraphSource {
 public:
  // Reads all files once and checks the framing of all records, so that nothing of a damaged file
  // is ever sent.
  //
  // Errors: ReadGraphSets, FilesOf, TfrecordReader, FirstNodeReadout::Create; INVALID_ARGUMENT for
  // an option.
  static absl::StatusOr<std::unique_ptr<ExamplesSource>> Open(const ExamplesOptions& options);

  const v1::GraphSchema& schema() const override { return schema_; }
  bool is_grouped() const override { return false; }
  // Of all records, also of those that will be left out.
  uint64_t num_graphs() const override { return record_bytes_.size(); }
  // The bytes of its record, from which those of its rows differ a little.
  uint64_t GraphBytes(uint64_t graph) const override { return record_bytes_[graph]; }
  std::string fingerprint() const override { return fingerprint_; }
  // A graph's id is its record's number. A chunk may have fewer graphs, or none, if malformed
  // records are left out.
  absl::StatusOr<SourceChunk> Next(uint64_t count) override;

  // Decodes the records, to name the malformed one with its file.
  absl::Status Explain(uint64_t first, uint64_t count, absl::Status refused) const override;

  // Records that were left out here so far, and what was wrong with the first ones.
  uint64_t num_skipped() const { return num_skipped_; }
  const std::vector<std::string>& skipped() const { return skipped_; }
  // What is wrong with a record that the server left out, with its file and its number there.
  // `graph` is its number in the source.
  std::string Describe(uint64_t graph, absl::string_view message) const;

 private:
  ExamplesSource(ExamplesOptions options, std::vector<std::string> paths, tfgnn::GraphSets sets,
                 tfgnn::ExampleDecoder decoder);

  absl::StatusOr<SourceChunk> Records(uint64_t count);
  absl::StatusOr<SourceChunk> Graphs(uint64_t count);
  // The next record, which was there when the files were opened.
  absl::StatusOr<absl::string_view> NextRecord();

  const ExamplesOptions options_;
  const std::vector<std::string> paths_;
  const tfgnn::GraphSets sets_;
  std::optional<tfgnn::FirstNodeReadout> readout_;
  v1::GraphSchema schema_;
  std::vector<uint64_t> record_bytes_;
  // The files that have records: the number of the first one, and the path.
  std::vector<std::pair<uint64_t, std::string>> first_records_;
  std::string fingerprint_;

  tfgnn::ExampleDecoder decoder_;
  tfgnn::RowBuilder rows_;
  TfrecordReader reader_;
  uint64_t next_ = 0;
  uint64_t num_skipped_ = 0;
  std::vector<std::string> skipped_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_TFGNN_EXAMPLES_SOURCE_H_
