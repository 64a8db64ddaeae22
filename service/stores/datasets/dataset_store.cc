#include "service/stores/datasets/dataset_store.h"

#include <algorithm>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

bool SameTensor(const TensorSpec& a, const TensorSpec& b) {
  return a.name == b.name && a.dtype == b.dtype && a.row_shape == b.row_shape &&
         a.component == b.component && a.index_into == b.index_into &&
         a.padding_value == b.padding_value && a.layout == b.layout;
}

class SizesOneByOne final : public ChunkSizes {
 public:
  SizesOneByOne(const DatasetChunks& all, absl::Span<const uint32_t> chunks)
      : all_(all), left_(chunks) {}

  uint64_t bytes() const override { return 0; }
  absl::Status AddNext(SizeHistogram& histogram) override {
    const uint32_t chunk = left_.front();
    left_.remove_prefix(1);
    return all_.AddSizes(chunk, histogram);
  }

 private:
  const DatasetChunks& all_;
  absl::Span<const uint32_t> left_;
};

}  // namespace

std::unique_ptr<ChunkSizes> DatasetChunks::ReadSizes(absl::Span<const uint32_t> chunks) const {
  return std::make_unique<SizesOneByOne>(*this, chunks);
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> DatasetStore::OpenChunks(
    absl::string_view name) const {
  return absl::UnimplementedError(
      absl::StrCat("data set '", name, "': this store reads data sets only as a whole"));
}

absl::Status CheckSealed(const DatasetInfo& info) {
  if (info.state == DatasetState::kSealed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data set '", info.name, "' is not sealed: seal it to load epochs from it"));
}

absl::Status CheckDatasetName(absl::string_view name) {
  if (IsValidName(name, DatasetStore::kMaxNameLength, "_./-")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data set: name '", absl::CHexEscape(name.substr(0, DatasetStore::kMaxNameLength)),
      "' is not 1 to ", DatasetStore::kMaxNameLength, " characters of [A-Za-z0-9_./-]"));
}

absl::Status CheckDatasetOptions(absl::string_view name, const GraphSchema& schema,
                                 const DatasetOptions& options) {
  if (options.max_counts.empty() || options.max_counts.size() == schema.num_components()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data set '", name, "': ", options.max_counts.size(),
                   " largest counts, the schema has ", schema.num_components(), " components"));
}

absl::Status CheckDatasetId(absl::string_view name, uint64_t id, uint64_t asked_for) {
  if (asked_for == 0 || asked_for == id) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("data set '", name, "': its id is ", id,
                                          ", asked for is ", asked_for,
                                          ", which was deleted, or never was"));
}

absl::Status CheckChunk(absl::string_view name, const GraphChunk& chunk,
                        absl::Span<const uint64_t> group_ids) {
  if (chunk.num_columns() != chunk.schema().tensors().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set '", name, "': a chunk of sizes without rows, the schema has ",
                     chunk.schema().tensors().size(), " tensors"));
  }
  if (!group_ids.empty() && group_ids.size() != chunk.num_graphs()) {
    return absl::InvalidArgumentError(absl::StrCat("data set '", name, "': ", group_ids.size(),
                                                   " group ids for ", chunk.num_graphs(),
                                                   " graphs"));
  }
  return absl::OkStatus();
}

absl::Status CheckSameSchema(absl::string_view name, const GraphSchema& stored,
                             const GraphSchema& given) {
  if (!(stored.sizes() == given.sizes())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", name, "': components [", absl::StrJoin(given.sizes().components(), ", "),
        "], it was created with [", absl::StrJoin(stored.sizes().components(), ", "), "]"));
  }
  const size_t common = std::min(stored.tensors().size(), given.tensors().size());
  for (size_t t = 0; t < common; ++t) {
    if (SameTensor(stored.tensors()[t], given.tensors()[t])) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", name, "': tensor ", t, ", '", given.tensors()[t].name,
                     "', is not as it was created: '", stored.tensors()[t].name, "', ",
                     DTypeName(stored.tensors()[t].dtype), " [",
                     absl::StrJoin(stored.tensors()[t].row_shape, ", "), "] along ",
                     stored.sizes().name(stored.tensors()[t].component),
                     stored.tensors()[t].layout == Layout::kRowsLast ? ", rows last" : ""));
  }
  if (stored.tensors().size() != given.tensors().size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data set '", name, "': ", given.tensors().size(),
                     " tensors, it was created with ", stored.tensors().size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeHistogram> DatasetStore::GetReservedHistogram(
    absl::string_view name, absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const {
  PH_ASSIGN_OR_RETURN(SizeHistogram histogram, GetHistogram(name));
  PH_RETURN_IF_ERROR(reserve(histogram.bytes()));
  return histogram;
}

}  // namespace packhouse
