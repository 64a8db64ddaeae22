#include "service/stores/datasets/dataset_copy.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status IsAnother(absl::string_view name, absl::string_view why) {
  return absl::AlreadyExistsError(
      absl::StrCat("data set '", name, "' is there, and is another one: ", why));
}

absl::Status CheckIsCopy(const DatasetInfo& copy, const DatasetInfo& of) {
  if (!CheckSameSchema(of.name, *of.schema, *copy.schema).ok()) {
    return IsAnother(of.name, "its schema differs");
  }
  if (copy.options.grouped != of.options.grouped ||
      copy.options.max_bytes != of.options.max_bytes ||
      copy.options.max_counts != of.options.max_counts) {
    return IsAnother(of.name, "its options differ");
  }
  const bool is_whole = copy.state == DatasetState::kSealed;
  if (copy.num_graphs > of.num_graphs || (is_whole && copy.num_graphs != of.num_graphs)) {
    return IsAnother(of.name,
                     absl::StrCat("it has ", copy.num_graphs, " graphs, not ", of.num_graphs));
  }
  return absl::OkStatus();
}

// That the copy has the sizes of the first graphs of `reader`, as many as it has. This tells it
// from another data set at little cost.
absl::Status CheckSameSizes(const DatasetReader& reader, const DatasetStore& to,
                            uint64_t num_graphs) {
  const std::string& name = reader.info().name;
  PH_ASSIGN_OR_RETURN(const SizeHistogram copied, to.GetHistogram(name));
  const size_t l = reader.info().schema->num_components();
  SizeHistogram first(l);
  for (size_t i = 0; i < num_graphs; ++i) {
    PH_RETURN_IF_ERROR(first.Add(reader.counts().subspan(i * l, l)));
  }
  return copied == first ? absl::OkStatus() : IsAnother(name, "the sizes of its graphs differ");
}

}  // namespace

absl::StatusOr<DatasetCopy> CopyDataset(
    const DatasetStore& from, DatasetStore& to, absl::string_view name,
    absl::FunctionRef<bool(const DatasetCopy& copied, const DatasetInfo& of)> progress) {
  PH_ASSIGN_OR_RETURN(const auto reader, from.OpenReader(name));
  const DatasetInfo& info = reader->info();
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", name, "' is open; only sealed data sets are copied"));
  }
  if (!reader->unreadable().empty()) return reader->unreadable()[0].status;
  auto copy = to.Get(name);
  if (absl::IsNotFound(copy.status())) copy = to.Create(name, *info.schema, info.options);
  PH_RETURN_IF_ERROR(copy.status());
  PH_RETURN_IF_ERROR(CheckIsCopy(*copy, info));
  PH_RETURN_IF_ERROR(CheckSameSizes(*reader, to, copy->num_graphs));
  if (copy->state == DatasetState::kSealed) {
    return DatasetCopy{info.num_graphs, info.num_records, info.num_records};
  }
  DatasetCopy copied;
  ProducerSequence producer = {absl::StrCat("copy-of-", absl::Hex(info.version, absl::kZeroPad16)),
                               0};
  while (copied.num_graphs < info.num_graphs) {
    PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader->Graph(copied.num_graphs));
    const GraphChunk& chunk = *graph.chunk;
    const size_t n = chunk.num_graphs();
    absl::Span<const uint64_t> groups = reader->group_ids();
    if (!groups.empty()) groups = groups.subspan(copied.num_graphs, n);
    PH_RETURN_IF_ERROR(reader->CheckIntact());
    ++producer.sequence;
    if (copied.num_graphs + n <= copy->num_graphs) {
      copied.num_graphs += n;
      ++copied.num_records;
      ++copied.num_old_records;
      continue;
    }
    if (copied.num_graphs < copy->num_graphs) {
      return IsAnother(name, absl::StrCat("it has ", copy->num_graphs,
                                          " graphs, where no record of the data set ends"));
    }
    PH_ASSIGN_OR_RETURN(const AppendResult result,
                        to.AppendTo({name, copy->id}, chunk, groups, producer));
    if (!result.is_repetition && result.first_graph != copied.num_graphs) {
      return IsAnother(name, absl::StrCat("others append to it: graph ", copied.num_graphs,
                                          " is at ", result.first_graph));
    }
    copied.num_graphs += n;
    ++copied.num_records;
    copied.num_old_records += result.is_repetition ? 1 : 0;
    if (!progress(copied, info)) {
      return absl::CancelledError(absl::StrCat("data set '", name, "': the copy was cancelled"));
    }
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo whole, to.Get(name));
  if (whole.num_graphs != info.num_graphs) {
    return IsAnother(
        name, absl::StrCat("it has ", whole.num_graphs, " graphs now, not ", info.num_graphs));
  }
  PH_RETURN_IF_ERROR(CheckSameSizes(*reader, to, info.num_graphs));
  PH_RETURN_IF_ERROR(to.Seal({name, copy->id}).status());
  return copied;
}

}  // namespace packhouse
