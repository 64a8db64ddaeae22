#include "client/cpp/loss_weights.h"

#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse::client {

absl::StatusOr<LossWeights> LossWeights::Of(const v1::Epoch& epoch) {
  LossWeights weights;
  weights.num_batches_ = epoch.num_batches();
  for (const v1::EpochRankGroup& rank_group : epoch.rank_groups()) {
    for (const v1::EpochShape& shape : rank_group.shapes()) {
      for (int k = 0; k < shape.components_size(); ++k) {
        const v1::ComponentEfficiency& of = shape.components(k);
        const auto c = static_cast<std::size_t>(k);
        if (c == weights.components_.size()) {
          weights.components_.push_back(of.component());
          weights.real_rows_.push_back(0);
        }
        // Exact up to 2^50 rows.
        weights.real_rows_[c] += static_cast<uint64_t>(
            std::llround(of.efficiency_of_fullest() * static_cast<double>(of.fullest_pack()) *
                         static_cast<double>(shape.num_batches())));
      }
    }
  }
  if (epoch.has_samples() || epoch.has_joined_parts() || weights.components_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("loss weights: the rows of epoch ", epoch.epoch(),
                     " are not known beforehand, as of sub-graphs and of parts that are joined"));
  }
  return weights;
}

std::vector<double> LossWeights::WeightsOf(const BatchView& batch) const {
  std::vector<double> weights;
  for (std::size_t c = 0; c < real_rows_.size(); ++c) {
    const uint64_t rows = c < batch.real_rows().size() ? batch.real_rows()[c] : 0;
    weights.push_back(real_rows_[c] == 0
                          ? 0
                          : static_cast<double>(rows) * static_cast<double>(num_batches_) /
                                static_cast<double>(real_rows_[c]));
  }
  return weights;
}

absl::StatusOr<double> LossWeights::WeightOf(const BatchView& batch,
                                             absl::string_view component) const {
  for (std::size_t c = 0; c < components_.size(); ++c) {
    if (components_[c] == component) return WeightsOf(batch)[c];
  }
  return absl::NotFoundError(absl::StrCat("loss weights: no component '", component,
                                          "', there are ", absl::StrJoin(components_, ", ")));
}

}  // namespace packhouse::client
