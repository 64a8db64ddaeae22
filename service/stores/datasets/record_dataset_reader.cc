#include "service/stores/datasets/record_dataset_reader.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

void StoredDataset::Add(uint64_t first_graph, absl::string_view bytes) {
  const uint64_t expected = records.empty() ? 0 : records.back().end_graph;
  if (first_graph < expected || first_graph >= info.num_graphs) {
    ++num_stray_records;
    return;
  }
  if (first_graph > expected) {
    // There is a gap before this record. Its graphs are missing; or they belong to the previous
    // record, if that cannot tell how many graphs it has.
    if (!records.empty() && !View(records.back()).ok()) {
      records.back().end_graph = first_graph;
    } else {
      records.push_back({records.size(), expected, first_graph, ""});
    }
  }
  StoredRecord record = {records.size(), first_graph, first_graph + 1, bytes};
  const auto view = ChunkRecordView::Parse(bytes);
  if (view.ok() && view->num_graphs() != 0 && view->num_graphs() <= info.num_graphs - first_graph) {
    record.end_graph = first_graph + view->num_graphs();
  }
  records.push_back(record);
}

void StoredDataset::AddExact(uint64_t end_graph, uint64_t tag, absl::string_view bytes) {
  const uint64_t first_graph = records.empty() ? 0 : records.back().end_graph;
  records.push_back({records.size(), first_graph, end_graph, bytes, tag});
}

void StoredDataset::End() {
  const uint64_t end = records.empty() ? 0 : records.back().end_graph;
  if (end == info.num_graphs) return;
  if (!records.empty() && !View(records.back()).ok()) {
    records.back().end_graph = info.num_graphs;
  } else {
    records.push_back({records.size(), end, info.num_graphs, ""});
  }
}

StoredDataset StoredDataset::Part(absl::Span<const uint32_t> numbers) const {
  StoredDataset part;
  part.id = id;
  part.info = info;
  part.records.reserve(numbers.size());
  uint64_t end = 0;
  for (const uint32_t number : numbers) {
    StoredRecord record = records[number];
    record.tag = record.tag.value_or(record.first_graph);
    record.first_of_all = record.first_graph;
    const uint64_t first = end;
    end += record.end_graph - record.first_graph;
    record.first_graph = first;
    record.end_graph = end;
    part.records.push_back(record);
  }
  part.info.num_graphs = end;
  part.info.num_records = numbers.size();
  return part;
}

absl::Status StoredDataset::Named(const StoredRecord& record, const absl::Status& status) const {
  const uint64_t first = record.first_of_all.value_or(record.first_graph);
  const uint64_t end = first + (record.end_graph - record.first_graph);
  return absl::Status(status.code(),
                      absl::StrCat("data set '", info.name, "': record ", record.number,
                                   " (graphs [", first, ", ", end, ")): ", status.message()));
}

absl::StatusOr<ChunkRecordView> StoredDataset::View(const StoredRecord& record) const {
  if (record.bytes.empty()) return Named(record, absl::DataLossError("is missing"));
  auto view = ChunkRecordView::Parse(record.bytes);
  if (!view.ok()) return Named(record, view.status());
  const ChunkRecordPlace place = {id, record.tag.value_or(record.first_graph)};
  if (!(view->place() == place) || view->num_graphs() != record.end_graph - record.first_graph) {
    return Named(record,
                 absl::DataLossError(absl::StrCat("holds ", view->num_graphs(), " graphs from ",
                                                  view->place().first_graph, " of data set number ",
                                                  view->place().dataset, ", should be ",
                                                  record.end_graph - record.first_graph, " from ",
                                                  place.first_graph, " of number ", id)));
  }
  if (view->num_components() != info.schema->num_components() ||
      view->num_columns() != info.schema->tensors().size() ||
      view->has_group_ids() != info.options.grouped) {
    return Named(record, absl::DataLossError("is not as the data set's schema says"));
  }
  return view;
}

RecordDatasetReader::RecordDatasetReader(StoredDataset dataset,
                                         std::optional<SizeHistogram> histogram,
                                         std::function<absl::Status()> check_intact,
                                         std::shared_ptr<const void> owner)
    : owner_(std::move(owner)),
      check_intact_(std::move(check_intact)),
      dataset_(std::move(dataset)),
      has_stored_histogram_(histogram.has_value()),
      histogram_(has_stored_histogram_ ? *std::move(histogram)
                                       : SizeHistogram(dataset_.info.schema->num_components())),
      decoded_(dataset_.records.size()) {
  const size_t l = dataset_.info.schema->num_components();
  const size_t n = dataset_.info.num_graphs;
  counts_.reserve(n * l);
  graph_ids_.reserve(n);
  if (dataset_.info.options.grouped) group_ids_.reserve(n);
  for (const StoredRecord& record : dataset_.records) {
    const auto view = dataset_.View(record);
    if (view.ok()) {
      view->AppendCounts(counts_);
      view->AppendGraphIds(graph_ids_);
      view->AppendGroupIds(group_ids_);
      continue;
    }
    counts_.resize(record.end_graph * l);
    graph_ids_.resize(record.end_graph);
    if (dataset_.info.options.grouped) group_ids_.resize(record.end_graph);
    unreadable_.push_back(
        {record.number, record.first_graph, record.end_graph - record.first_graph, view.status()});
  }
  // About two blocks for each record.
  while ((n >> block_shift_) > 2 * dataset_.records.size()) ++block_shift_;
  size_t record = 0;
  for (size_t first = 0; first < n; first += size_t{1} << block_shift_) {
    while (dataset_.records[record].end_graph <= first) ++record;
    record_of_block_.push_back(static_cast<uint32_t>(record));
  }
  record_of_block_.push_back(static_cast<uint32_t>(dataset_.records.size()) - 1);
}

const SizeHistogram& RecordDatasetReader::histogram() const {
  if (has_stored_histogram_) return histogram_;
  std::call_once(count_once_, [this] {
    const size_t l = dataset_.info.schema->num_components();
    // What was counted before memory ran out.
    histogram_ = SizeHistogram(l);
    for (size_t i = 0; i < dataset_.info.num_graphs; ++i) {
      // Sums that do not fit were refused when the graphs were appended.
      histogram_.Add(absl::MakeConstSpan(counts_).subspan(i * l, l)).IgnoreError();
    }
  });
  return histogram_;
}

absl::StatusOr<StoredGraph> RecordDatasetReader::Graph(size_t i) const {
  if (i >= num_graphs()) {
    return absl::OutOfRangeError(
        absl::StrCat("data set '", info().name, "': graph ", i, ", there are ", num_graphs()));
  }
  const size_t number = RecordOf(i);
  const StoredRecord& record = dataset_.records[number];
  DecodedRecord& decoded = decoded_[number];
  const GraphChunk* chunk = decoded.ready.load(std::memory_order_acquire);
  if (chunk == nullptr) {
    std::call_once(decoded.once, [&] { Decode(record, decoded); });
    if (!decoded.chunk) return decoded.status;
    chunk = &*decoded.chunk;
  }
  return StoredGraph{chunk, i - record.first_graph};
}

size_t RecordDatasetReader::RecordOf(size_t i) const {
  const size_t block = i >> block_shift_;
  const auto first = dataset_.records.begin() + record_of_block_[block];
  const auto last = dataset_.records.begin() + record_of_block_[block + 1];
  // Usually first == last, or the next one.
  const auto found = std::lower_bound(
      first, last, i,
      [](const StoredRecord& record, uint64_t graph) { return record.end_graph <= graph; });
  return static_cast<size_t>(found - dataset_.records.begin());
}

void RecordDatasetReader::Decode(const StoredRecord& record, DecodedRecord& decoded) const {
  const auto decode = [&]() -> absl::StatusOr<GraphChunk> {
    PH_ASSIGN_OR_RETURN(const ChunkRecordView view, dataset_.View(record));
    if (const absl::Status columns = view.CheckColumns(); !columns.ok()) {
      return dataset_.Named(record, columns);
    }
    // The chunk does not outlive the reader, which keeps the bytes.
    auto chunk = view.ToChunk(dataset_.info.schema.get(), nullptr);
    if (!chunk.ok()) return dataset_.Named(record, chunk.status());
    return chunk;
  };
  auto chunk = decode();
  decoded.status = chunk.status();
  if (!chunk.ok()) return;
  decoded.chunk.emplace(*std::move(chunk));
  decoded.ready.store(&*decoded.chunk, std::memory_order_release);
}

RecordDatasetChunks::RecordDatasetChunks(StoredDataset dataset,
                                         std::function<absl::Status()> check_intact,
                                         std::shared_ptr<const void> owner)
    : owner_(std::move(owner)),
      check_intact_(std::move(check_intact)),
      dataset_(std::move(dataset)) {
  num_graphs_.reserve(dataset_.records.size());
  for (const StoredRecord& record : dataset_.records) {
    num_graphs_.push_back(static_cast<uint32_t>(record.end_graph - record.first_graph));
  }
}

uint64_t RecordDatasetChunks::bytes() const {
  return sizeof(StoredRecord) * dataset_.records.capacity() +
         sizeof(uint32_t) * num_graphs_.capacity();
}

absl::Status RecordDatasetChunks::AddSizes(uint32_t chunk, SizeHistogram& histogram) const {
  PH_ASSIGN_OR_RETURN(const ChunkRecordView view, dataset_.View(dataset_.records[chunk]));
  std::vector<uint32_t> counts;
  view.AppendCounts(counts);
  const size_t l = view.num_components();
  for (size_t i = 0; i < view.num_graphs(); ++i) {
    PH_RETURN_IF_ERROR(histogram.Add(absl::MakeConstSpan(counts).subspan(i * l, l)));
  }
  return check_intact_();
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> RecordDatasetChunks::Open(
    absl::Span<const uint32_t> chunks) const {
  auto reader = std::make_shared<const RecordDatasetReader>(
      dataset_.Part(chunks), SizeHistogram(dataset_.info.schema->num_components()), check_intact_,
      owner_);
  PH_RETURN_IF_ERROR(reader->CheckIntact());
  return reader;
}

}  // namespace packhouse
