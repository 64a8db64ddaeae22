#include "service/stores/datasets/prepared_append.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckMaxCounts(const PreparedAppend& append, const std::vector<uint32_t>& max_counts) {
  for (size_t k = 0; k < max_counts.size(); ++k) {
    if (max_counts[k] == 0 || append.sizes.maximum(k) <= max_counts[k]) continue;
    size_t i = 0;
    while (append.chunk->count(i, k) <= max_counts[k]) ++i;
    return absl::OutOfRangeError(
        absl::StrCat("data set '", append.name, "': graph ", append.chunk->sizes().graph_id(i),
                     " has ", append.chunk->count(i, k), " ",
                     append.chunk->schema().sizes().name(k), ", at most ", max_counts[k]));
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const PreparedAppend& append, bool grouped) {
  if (append.chunk->num_graphs() == 0 || append.group_ids.empty() != grouped) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data set '", append.name, "' was created ", grouped ? "with" : "without",
                   " group ids, the chunk has ", grouped ? "none" : "them"));
}

}  // namespace

absl::StatusOr<PreparedAppend> PrepareAppend(const DatasetStore::Target& target,
                                             const GraphChunk& chunk,
                                             absl::Span<const uint64_t> group_ids,
                                             const std::optional<ProducerSequence>& producer) {
  PH_RETURN_IF_ERROR(CheckChunk(target.name, chunk, group_ids));
  if (producer) PH_RETURN_IF_ERROR(CheckProducer(*producer));
  PH_ASSIGN_OR_RETURN(EncodedChunk record, EncodedChunk::Create(&chunk, group_ids));
  SizeHistogram sizes(chunk.schema().num_components());
  PH_RETURN_IF_ERROR(sizes.AddTable(chunk.sizes()));
  const uint32_t digest = record.Digest(/*with_first_id=*/!producer || !producer->counts_ids);
  return PreparedAppend{
      target.name, target.id,         &chunk,           group_ids,
      producer,    std::move(record), std::move(sizes), EncodeSchema(chunk.schema()),
      digest};
}

absl::StatusOr<bool> PreparedAppend::Repeats(const ProducerHistory& history) const {
  return history.IsRepetition(absl::StrCat("data set '", name, "'"), *producer, digest);
}

absl::Status CheckFitsDefinition(const PreparedAppend& append, const StoredDefinition& definition) {
  if (append.schema != definition.schema) {
    PH_ASSIGN_OR_RETURN(const GraphSchema stored, DecodeSchema(definition.schema));
    PH_RETURN_IF_ERROR(CheckSameSchema(append.name, stored, append.chunk->schema()));
  }
  PH_RETURN_IF_ERROR(CheckGroups(append, definition.options.grouped));
  return CheckMaxCounts(append, definition.options.max_counts);
}

absl::Status AddToTotals(const PreparedAppend& append, std::vector<uint64_t>& totals) {
  std::vector<uint64_t> sums(totals.size());
  for (size_t k = 0; k < totals.size(); ++k) {
    const auto total = CheckedAdd(totals[k], append.sizes.total(k));
    if (!total) {
      return absl::ResourceExhaustedError(
          absl::StrCat("data set '", append.name, "': total of component ", k, " ", totals[k],
                       " + ", append.sizes.total(k), " exceeds 2^64 - 1"));
    }
    sums[k] = *total;
  }
  totals = std::move(sums);
  return absl::OkStatus();
}

absl::Status CheckDatasetQuota(absl::string_view name, uint64_t used, uint64_t added,
                               uint64_t quota) {
  if (quota == 0 || (used <= quota && added <= quota - used)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("data set '", name, "': ", used, " + ", added, " bytes, its quota is ", quota));
}

absl::Status TooManyProducers(absl::string_view name, uint64_t num_producers, bool are_made_up) {
  if (are_made_up) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "data set '", name, "': there are ", num_producers,
        " producers whose names were made up for one call and whose time for retries is not over, "
        "at most ",
        DatasetStore::kMaxMadeUpProducers));
  }
  return absl::ResourceExhaustedError(absl::StrCat("data set '", name, "': there are ",
                                                   num_producers, " producers, at most ",
                                                   DatasetStore::kMaxProducers));
}

absl::Status IsSealed(absl::string_view name) {
  return absl::FailedPreconditionError(absl::StrCat("data set '", name, "' is sealed"));
}

}  // namespace packhouse
