#include "service/wings/tfgnn/wire_examples.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/tfgnn/row_builder.h"

namespace packhouse {
namespace {

// The most bytes of an example's rows: numbers of one byte become eight bytes, and rows of ragged
// features take four bytes where the example has none. A few bytes can declare billions of these.
constexpr uint64_t MostRowBytes(uint64_t example_bytes) {
  return 16 * example_bytes + (uint64_t{1} << 20);
}
// Rows grow in arrays that double: the old array, the new one, and its free half.
constexpr uint64_t kGrowth = 3;

// The ids of `wire`, before any example is left out. `ids` is empty if they are consecutive from
// `first_id`.
struct ExampleIds {
  uint64_t first_id = 0;
  std::vector<uint64_t> ids;

  uint64_t operator[](size_t i) const { return ids.empty() ? first_id + i : ids[i]; }
};

absl::StatusOr<ExampleIds> IdsFromWire(const v1::Examples& wire, uint64_t next_id) {
  const auto n = static_cast<uint64_t>(wire.examples_size());
  if (n > kMaxTableGraphs) {
    return absl::InvalidArgumentError(
        absl::StrCat("examples: ", n, ", at most ", kMaxTableGraphs, " in a message"));
  }
  ExampleIds ids;
  if (wire.ids_case() == v1::Examples::kGraphIds) {
    if (wire.graph_ids().size() != n * sizeof(uint64_t)) {
      return absl::InvalidArgumentError(
          absl::StrCat("examples: graph_ids: ", wire.graph_ids().size(), " bytes, ", n,
                       " examples take ", n * sizeof(uint64_t)));
    }
    ids.ids = Uint64sFromWire(wire.graph_ids());
    return ids;
  }
  ids.first_id = wire.ids_case() == v1::Examples::kFirstId ? wire.first_id() : next_id;
  if (n > UINT64_MAX - ids.first_id) {
    return absl::InvalidArgumentError(absl::StrCat("examples: first_id: ", ids.first_id, " and ", n,
                                                   " examples exceed 2^64 - 1"));
  }
  return ids;
}

}  // namespace

absl::StatusOr<GraphSchema> TfgnnSchemaFromWire(const v1::TfgnnSchema& wire) {
  if (wire.schema_case() == v1::TfgnnSchema::SCHEMA_NOT_SET) {
    return absl::InvalidArgumentError("tfgnn_schema: has neither text nor binary");
  }
  const absl::StatusOr<tfgnn::GraphSets> sets =
      tfgnn::GraphSets::FromTfgnnFile(wire.has_text() ? wire.text() : wire.binary());
  if (!sets.ok()) {
    return absl::Status(sets.status().code(),
                        absl::StrCat("tfgnn_schema: ", sets.status().message()));
  }
  return sets->schema();
}

absl::StatusOr<TfgnnReader> TfgnnReader::Create(const GraphSchema* schema, MemoryBudget* working,
                                                ExampleObserver observer) {
  PH_ASSIGN_OR_RETURN(tfgnn::GraphSets sets, tfgnn::GraphSets::FromSchema(*schema));
  PH_ASSIGN_OR_RETURN(tfgnn::ExampleDecoder decoder, tfgnn::ExampleDecoder::Create(sets));
  return TfgnnReader(schema, std::move(sets), std::move(decoder), working, observer);
}

void TfgnnReader::Tell(uint64_t skipped, uint64_t refused) {
  if (observer_.rpcs == nullptr || skipped + refused == 0) return;
  observer_.rpcs->OnMalformedExamples(observer_.method, skipped, refused);
}

absl::StatusOr<DecodedExamples> TfgnnReader::Read(const v1::Examples& wire, uint64_t next_id) {
  PH_ASSIGN_OR_RETURN(const ExampleIds ids, IdsFromWire(wire, next_id));
  const auto rows = std::make_shared<tfgnn::RowBuilder>(sets_.shared_schema());
  MemoryHold memory;
  const auto hold = [&](uint64_t bytes) -> absl::Status {
    constexpr absl::string_view kWhat = "the rows of examples";
    if (working_ == nullptr || bytes <= memory.bytes()) return absl::OkStatus();
    if (memory.bytes() != 0) return memory.Grow(kWhat, bytes - memory.bytes());
    PH_ASSIGN_OR_RETURN(memory, working_->Hold(kWhat, bytes));
    return absl::OkStatus();
  };
  std::vector<uint64_t> kept_ids;
  std::vector<LeftOut> left_out;
  for (int i = 0; i < wire.examples_size(); ++i) {
    const std::string& example = wire.examples(i);
    const uint64_t most = MostRowBytes(example.size());
    PH_RETURN_IF_ERROR(hold(kGrowth * (rows->num_bytes() + most)));
    decoder_.set_max_graph_bytes(most);
    const absl::Status appended = decoder_.Append(example, static_cast<uint64_t>(i), *rows);
    if (appended.ok()) {
      if (!ids.ids.empty() || !left_out.empty()) kept_ids.push_back(ids[i]);
      continue;
    }
    if (!wire.skip_malformed() || !absl::IsInvalidArgument(appended)) {
      Tell(left_out.size(), absl::IsInvalidArgument(appended) ? 1 : 0);
      return absl::Status(appended.code(), absl::StrCat("examples: ", appended.message()));
    }
    if (ids.ids.empty() && left_out.empty()) {
      kept_ids.resize(rows->num_graphs());
      std::iota(kept_ids.begin(), kept_ids.end(), ids.first_id);
    }
    left_out.push_back(
        {static_cast<uint32_t>(i), ids[i],
         left_out.size() < LeftOut::kMaxTold ? std::string(appended.message()) : ""});
  }
  const size_t n = rows->num_graphs();
  const size_t l = schema_->num_components();
  std::vector<uint32_t> counts(rows->all_counts().begin(), rows->all_counts().end());
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      ids.ids.empty() && left_out.empty()
                          ? SizeTable::WithConsecutiveIds(n, l, std::move(counts), ids.first_id)
                          : SizeTable::WithIds(n, l, std::move(counts), std::move(kept_ids)));
  std::vector<absl::string_view> columns;
  for (size_t t = 0; t < schema_->tensors().size(); ++t) columns.push_back(rows->column(t).view());
  const uint64_t bytes = 2 * rows->num_bytes();
  // The decoder has checked the indices.
  PH_ASSIGN_OR_RETURN(GraphChunk chunk, GraphChunk::CreateTrusted(schema_, std::move(sizes),
                                                                  std::move(columns), rows));
  Tell(left_out.size(), 0);
  return DecodedExamples{std::move(chunk), bytes, std::move(memory), std::move(left_out)};
}

}  // namespace packhouse
