#include "client/cli/ingest.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/reports/dataset_report.h"
#include "client/cpp/dataset_appender.h"
#include "client/cpp/dataset_client.h"

namespace packhouse::client {
namespace {

// SizeTable's bound.
constexpr uint64_t kMaxGraphsPerChunk = uint64_t{1} << 20;

// Of the tensors that a data set has which cuts graphs, the first one that appends do not send.
constexpr char kFirstOfPieces[] = "#piece";

// The tensors of the schema that appends send.
int NumSentTensors(const v1::GraphSchema& schema) {
  int sent = 0;
  while (sent < schema.tensors_size() && schema.tensors(sent).name() != kFirstOfPieces) ++sent;
  return sent;
}

std::string RowsText(const google::protobuf::RepeatedPtrField<v1::Capacity>& rows) {
  std::vector<std::string> texts;
  for (const v1::Capacity& capacity : rows) {
    texts.push_back(absl::StrCat(capacity.component(), "=", capacity.rows()));
  }
  std::sort(texts.begin(), texts.end());
  return texts.empty() ? "none" : absl::StrJoin(texts, " ");
}

// The difference between the data set and the one that Ingest would create; empty: none.
std::string Difference(const v1::Dataset& dataset, const v1::CreateDatasetRequest& wanted) {
  const v1::GraphSchema& there = dataset.schema();
  const v1::GraphSchema& ours = wanted.schema();
  const auto differ = [](const std::string& what, const std::string& has,
                         const std::string& needs) {
    return absl::StrCat("has ", what, " ", has.empty() ? "none" : has, ", the source ",
                        needs.empty() ? "none" : needs);
  };
  const std::string components = absl::StrJoin(there.components(), ", ");
  const std::string our_components = absl::StrJoin(ours.components(), ", ");
  if (components != our_components) return differ("the components", components, our_components);
  const bool cuts = dataset.max_rows_size() > 0 && NumSentTensors(there) < there.tensors_size();
  const int num_sent = cuts ? NumSentTensors(there) : there.tensors_size();
  for (int i = 0; i < std::max(num_sent, ours.tensors_size()); ++i) {
    const std::string tensor = i < num_sent ? TensorText(there.tensors(i)) : "";
    const std::string our_tensor = i < ours.tensors_size() ? TensorText(ours.tensors(i)) : "";
    if (tensor != our_tensor) return differ(absl::StrCat("tensor ", i), tensor, our_tensor);
  }
  if (dataset.grouped() != wanted.grouped()) {
    return dataset.grouped() ? "is grouped, the source has no group ids (--groups)"
                             : "is not grouped, the source has group ids (--groups)";
  }
  if (wanted.oversize_policy() == v1::OVERSIZE_POLICY_PARTITION && !cuts) {
    return "was created without cutting graphs (--oversize partition)";
  }
  if (wanted.max_rows_size() > 0 && RowsText(dataset.max_rows()) != RowsText(wanted.max_rows())) {
    return absl::StrCat("was created with max_rows ", RowsText(dataset.max_rows()), ", wanted is ",
                        RowsText(wanted.max_rows()));
  }
  if (wanted.max_bytes() != 0 && dataset.max_bytes() != wanted.max_bytes()) {
    return absl::StrCat("was created with max_bytes ", dataset.max_bytes(), ", wanted is ",
                        wanted.max_bytes());
  }
  return "";
}

absl::StatusOr<v1::Dataset> GetOrCreate(const DatasetClient& client,
                                        const v1::CreateDatasetRequest& wanted) {
  absl::StatusOr<v1::GetDatasetResponse> found = client.Get(wanted.name(), false);
  if (absl::IsNotFound(found.status())) {
    absl::StatusOr<v1::Dataset> created = client.Create(wanted);
    if (!absl::IsAlreadyExists(created.status())) return created;
    // Created by another client just now, or by a first try whose answer was lost.
    found = client.Get(wanted.name(), false);
  }
  if (!found.ok()) return found.status();
  const std::string difference = Difference(found->dataset(), wanted);
  if (!difference.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", wanted.name(), "' ", difference));
  }
  return found->dataset();
}

// For so long the same command may be run again after a crash. Then a data set that is filled from
// many files does not run out of producers.
constexpr absl::Duration kForgetAfter = absl::Hours(24 * 7);

}  // namespace

std::string DefaultProducer(const GraphSource& source, uint64_t chunk_bytes) {
  return absl::StrCat("ingest-", source.fingerprint(), "-", chunk_bytes);
}

absl::StatusOr<IngestResult> Ingest(const IngestOptions& options,
                                    const std::shared_ptr<grpc::Channel>& channel,
                                    GraphSource& source) {
  DatasetClientOptions client_options;
  client_options.retry = options.retry;
  const DatasetClient client(channel, client_options);
  v1::CreateDatasetRequest wanted;
  wanted.set_name(options.dataset);
  *wanted.mutable_schema() = source.schema();
  wanted.set_max_bytes(options.max_bytes);
  wanted.set_grouped(source.is_grouped());
  wanted.mutable_max_rows()->Add(options.max_rows.begin(), options.max_rows.end());
  if (options.cuts_oversize) wanted.set_oversize_policy(v1::OVERSIZE_POLICY_PARTITION);
  absl::StatusOr<v1::Dataset> dataset = GetOrCreate(client, wanted);
  if (!dataset.ok()) return dataset.status();
  IngestResult result;
  result.graphs_before = dataset->num_graphs();

  struct SentChunk {
    uint64_t begin;
    uint64_t end;
    uint64_t bytes;
  };
  // Those under way.
  std::deque<SentChunk> sent;
  DatasetAppenderOptions append_options;
  append_options.dataset = options.dataset;
  append_options.dataset_id = dataset->id();
  append_options.producer =
      options.producer.empty() ? DefaultProducer(source, options.chunk_bytes) : options.producer;
  if (options.producer.empty()) append_options.forget_after = kForgetAfter;
  append_options.retry = options.retry;
  append_options.on_answer = [&](const AppendAnswer& answer) {
    // Numbers ascend, so all chunks after a new chunk are new. A repetition after a new chunk is
    // therefore of this run: its first answer was lost. So is one that would exceed the graphs that
    // were there before.
    const bool is_present =
        answer.is_repetition && result.totals.graphs_stored == 0 &&
        answer.num_graphs <= result.graphs_before - result.totals.graphs_present;
    (is_present ? result.totals.graphs_present : result.totals.graphs_stored) += answer.num_graphs;
    if (!is_present) {
      result.totals.pieces_stored += answer.is_repetition ? answer.num_graphs : answer.num_stored;
    }
    result.totals.bytes += sent.front().bytes;
    sent.pop_front();
    result.totals.num_skipped += answer.num_skipped;
    for (const v1::SkippedExample& skipped : answer.skipped) {
      if (result.totals.skipped.size() == IngestTotals::kMostSkipped) break;
      result.totals.skipped.push_back(skipped);
    }
    if (options.on_progress) options.on_progress(result.totals);
  };
  DatasetAppender appender(channel, append_options);
  // The first chunk without an answer is the one that was refused.
  const auto explained = [&](absl::Status status) {
    if (!absl::IsInvalidArgument(status) || sent.empty()) return status;
    const SentChunk& refused = sent.front();
    return source.Explain(refused.begin, refused.end - refused.begin, std::move(status));
  };
  uint64_t sequence = 0;
  for (uint64_t begin = 0; begin < source.num_graphs();) {
    uint64_t end = begin;
    uint64_t bytes = 0;
    do {
      bytes += source.GraphBytes(end);
      ++end;
    } while (end < source.num_graphs() && end - begin < kMaxGraphsPerChunk &&
             bytes + source.GraphBytes(end) <= options.chunk_bytes);
    absl::StatusOr<SourceChunk> chunk = source.Next(end - begin);
    if (!chunk.ok()) return chunk.status();
    sent.push_back({begin, end, bytes});
    absl::Status status =
        chunk->examples
            ? appender.AppendExamples(++sequence, *std::move(chunk->examples),
                                      std::move(chunk->group_ids))
            : appender.Append(++sequence, std::move(chunk->graphs), std::move(chunk->group_ids));
    if (!status.ok()) return explained(std::move(status));
    begin = end;
  }
  if (absl::Status status = appender.Finish(); !status.ok()) return explained(std::move(status));

  if (options.seal) {
    absl::StatusOr<v1::Dataset> sealed = client.Seal(options.dataset);
    if (!sealed.ok()) return sealed.status();
    result.dataset = *std::move(sealed);
  } else {
    absl::StatusOr<v1::GetDatasetResponse> now = client.Get(options.dataset, false);
    if (!now.ok()) return now.status();
    result.dataset = std::move(*now->mutable_dataset());
  }
  return result;
}

}  // namespace packhouse::client
