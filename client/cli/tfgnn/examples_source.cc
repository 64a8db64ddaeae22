#include "client/cli/tfgnn/examples_source.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/little_endian.h"
#include "service/base/in_file.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kMaxSkippedShown = 10;

// The contract numbers types in the order of DType, from 1.
v1::DataType WireDtype(DType dtype) {
  static_assert(static_cast<int>(DType::kBool) + 1 == v1::DATA_TYPE_BOOL);
  static_assert(static_cast<int>(DType::kUint8) + 1 == v1::DATA_TYPE_UINT8);
  static_assert(static_cast<int>(DType::kFloat64) + 1 == v1::DATA_TYPE_FLOAT64);
  return static_cast<v1::DataType>(static_cast<int>(dtype) + 1);
}

}  // namespace

v1::GraphSchema WireSchema(const GraphSchema& schema) {
  v1::GraphSchema wire;
  for (const std::string& name : schema.sizes().components()) wire.add_components(name);
  for (const TensorSpec& tensor : schema.tensors()) {
    v1::TensorSpec& spec = *wire.add_tensors();
    spec.set_name(tensor.name);
    spec.set_dtype(WireDtype(tensor.dtype));
    for (const uint32_t extent : tensor.row_shape) spec.add_row_shape(extent);
    spec.set_component(std::string(schema.sizes().name(tensor.component)));
    if (tensor.index_into) {
      spec.set_index_into(std::string(schema.sizes().name(*tensor.index_into)));
    }
  }
  return wire;
}

ExamplesSource::ExamplesSource(ExamplesOptions options, std::vector<std::string> paths,
                               tfgnn::GraphSets sets, tfgnn::ExampleDecoder decoder)
    : options_(std::move(options)),
      paths_(std::move(paths)),
      sets_(std::move(sets)),
      decoder_(std::move(decoder)),
      rows_(sets_.shared_schema()),
      reader_(paths_) {}

absl::StatusOr<std::unique_ptr<ExamplesSource>> ExamplesSource::Open(
    const ExamplesOptions& options) {
  absl::StatusOr<tfgnn::GraphSets> sets = ReadGraphSets(options.graph_schema);
  if (!sets.ok()) return sets.status();
  absl::StatusOr<std::vector<std::string>> paths = FilesOf(options.pattern);
  if (!paths.ok()) return paths.status();
  tfgnn::DecoderOptions decoder_options;
  decoder_options.prefix = options.key_prefix;
  absl::StatusOr<tfgnn::ExampleDecoder> decoder =
      tfgnn::ExampleDecoder::Create(*sets, decoder_options);
  if (!decoder.ok()) return decoder.status();
  std::unique_ptr<ExamplesSource> source(
      new ExamplesSource(options, *paths, *sets, *std::move(decoder)));
  source->schema_ = WireSchema(sets->schema());
  if (!options.readout.empty()) {
    const std::vector<std::string> parts = absl::StrSplit(options.readout, absl::MaxSplits('=', 1));
    if (parts.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("--readout '", options.readout, "': must be KEY=NODE_SET"));
    }
    absl::StatusOr<tfgnn::FirstNodeReadout> readout =
        tfgnn::FirstNodeReadout::Create(*sets, parts[0], parts[1]);
    if (!readout.ok()) return readout.status();
    source->schema_ = WireSchema(readout->sets().schema());
    source->readout_.emplace(*std::move(readout));
  }

  Fingerprint fingerprint;
  fingerprint.Add(source->schema_.SerializeAsString());
  fingerprint.Add(uint64_t{options.skip_malformed});
  TfrecordReader reader(*paths);
  while (true) {
    const absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
    if (!record.ok()) return record.status();
    if (!*record) break;
    if (reader.record_of_file() == 0) {
      source->first_records_.emplace_back(source->num_graphs(), reader.file());
    }
    source->record_bytes_.push_back((*record)->size());
    // The checksum stands for the content; both of them, for the whole file, for all content.
    fingerprint.Add((*record)->size());
    fingerprint.Add(uint64_t{tfgnn::MaskedCrc32c(**record)});
  }
  source->fingerprint_ = fingerprint.Hex();
  return source;
}

absl::StatusOr<absl::string_view> ExamplesSource::NextRecord() {
  const absl::StatusOr<std::optional<absl::string_view>> record = reader_.Next();
  if (!record.ok()) return record.status();
  if (!*record) {
    return absl::DataLossError(absl::StrCat("'", options_.pattern, "': there were ", num_graphs(),
                                            " records, now there are ", next_));
  }
  return **record;
}

absl::StatusOr<SourceChunk> ExamplesSource::Next(uint64_t count) {
  return options_.key_prefix.empty() && !readout_ ? Records(count) : Graphs(count);
}

absl::StatusOr<SourceChunk> ExamplesSource::Records(uint64_t count) {
  SourceChunk chunk;
  v1::Examples& examples = chunk.examples.emplace();
  examples.set_first_id(next_);
  examples.set_skip_malformed(options_.skip_malformed);
  for (uint64_t i = 0; i < count; ++i, ++next_) {
    const absl::StatusOr<absl::string_view> record = NextRecord();
    if (!record.ok()) return record.status();
    examples.add_examples(record->data(), record->size());
  }
  return chunk;
}

absl::StatusOr<SourceChunk> ExamplesSource::Graphs(uint64_t count) {
  std::vector<uint64_t> ids;
  const uint64_t first = next_;
  for (uint64_t i = 0; i < count; ++i) {
    const absl::StatusOr<absl::string_view> record = NextRecord();
    if (!record.ok()) return record.status();
    const absl::Status status = decoder_.Append(*record, reader_.record_of_file(), rows_);
    if (status.ok()) {
      ids.push_back(next_);
    } else if (!options_.skip_malformed) {
      return InFile(reader_.file(), status);
    } else {
      ++num_skipped_;
      if (skipped_.size() < kMaxSkippedShown) {
        skipped_.push_back(absl::StrCat(reader_.file(), ": ", status.message()));
      }
    }
    ++next_;
  }
  absl::StatusOr<GraphChunk> graphs = rows_.Build(first);
  if (graphs.ok() && readout_) graphs = readout_->Add(*std::move(graphs));
  if (!graphs.ok()) return graphs.status();
  SourceChunk chunk;
  v1::SizeTable& table = *chunk.graphs.mutable_sizes();
  table.set_num_graphs(graphs->num_graphs());
  AppendLittleEndian(graphs->sizes().counts(), *table.mutable_counts());
  if (ids.size() == count) {
    table.set_first_id(first);
  } else {
    AppendLittleEndian(absl::MakeConstSpan(ids), *table.mutable_graph_ids());
  }
  for (std::size_t t = 0; t < graphs->num_columns(); ++t) {
    v1::TensorData& data = *chunk.graphs.add_tensors();
    data.set_name(graphs->schema().tensors()[t].name);
    data.set_data(graphs->column(t).data(), graphs->column(t).size());
  }
  return chunk;
}

absl::Status ExamplesSource::Explain(uint64_t first, uint64_t count, absl::Status refused) const {
  tfgnn::DecoderOptions options;
  options.prefix = options_.key_prefix;
  absl::StatusOr<tfgnn::ExampleDecoder> decoder = tfgnn::ExampleDecoder::Create(sets_, options);
  if (!decoder.ok()) return refused;
  TfrecordReader reader(paths_);
  for (uint64_t i = 0; i < first + count; ++i) {
    const absl::StatusOr<std::optional<absl::string_view>> record = reader.Next();
    if (!record.ok() || !*record) return refused;
    if (i < first) continue;
    tfgnn::RowBuilder rows(sets_.shared_schema());
    const absl::Status status = decoder->Append(**record, reader.record_of_file(), rows);
    if (!status.ok()) return InFile(reader.file(), status);
  }
  return refused;
}

std::string ExamplesSource::Describe(uint64_t graph, absl::string_view message) const {
  auto file = std::upper_bound(
      first_records_.begin(), first_records_.end(), graph,
      [](uint64_t number, const auto& first_record) { return number < first_record.first; });
  if (file == first_records_.begin()) return std::string(message);
  --file;
  // The server's number is that in its message.
  const std::size_t colon = message.find(": ");
  return absl::StrCat(
      file->second, ": record ", graph - file->first,
      colon == absl::string_view::npos ? absl::StrCat(": ", message) : message.substr(colon));
}

}  // namespace packhouse::client
