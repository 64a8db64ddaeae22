#include "service/wings/tfgnn/row_builder.h"

#include <algorithm>
#include <cstddef>

#include "service/algorithms/sizes/size_table.h"
#include "service/base/status_macros.h"

namespace packhouse::tfgnn {

RowBuilder::RowBuilder(std::shared_ptr<const GraphSchema> schema)
    : schema_(std::move(schema)), num_components_(schema_->num_components()) {
  Begin();
}

void RowBuilder::Begin() {
  num_graphs_ = 0;
  num_bytes_ = 0;
  counts_.assign(num_components_, 0);
  columns_.clear();
  columns_.resize(schema_->tensors().size());
  ends_.assign(columns_.size(), 0);
}

void RowBuilder::EndGraph() {
  ++num_graphs_;
  counts_.resize(counts_.size() + num_components_, 0);
  num_bytes_ = 0;
  for (size_t t = 0; t < columns_.size(); ++t) {
    ends_[t] = columns_[t].size();
    num_bytes_ += ends_[t];
  }
  num_bytes_ += num_graphs_ * num_components_ * sizeof(uint32_t);
}

void RowBuilder::DropGraph() {
  for (size_t t = 0; t < columns_.size(); ++t) columns_[t].Truncate(ends_[t]);
  std::fill(counts_.end() - static_cast<std::ptrdiff_t>(num_components_), counts_.end(), 0U);
}

absl::StatusOr<GraphChunk> RowBuilder::Build(uint64_t first_id) {
  struct Owned {
    std::shared_ptr<const GraphSchema> schema;
    std::vector<GrowingBytes> columns;
  };
  DropGraph();
  counts_.resize(num_graphs_ * num_components_);
  const size_t num_graphs = num_graphs_;
  auto owned = std::make_shared<Owned>(Owned{schema_, std::move(columns_)});
  std::vector<uint32_t> counts = std::move(counts_);
  Begin();
  PH_ASSIGN_OR_RETURN(SizeTable sizes, SizeTable::WithConsecutiveIds(num_graphs, num_components_,
                                                                     std::move(counts), first_id));
  std::vector<absl::string_view> columns;
  columns.reserve(owned->columns.size());
  for (const GrowingBytes& column : owned->columns) columns.push_back(column.view());
  const GraphSchema* const schema = owned->schema.get();
  return GraphChunk::CreateTrusted(schema, std::move(sizes), std::move(columns), std::move(owned));
}

}  // namespace packhouse::tfgnn
