// Weights of the loss by the component whose rows count.
#ifndef PACKHOUSE_CLIENT_CPP_LOSS_WEIGHTS_H_
#define PACKHOUSE_CLIENT_CPP_LOSS_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/batch_view.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// Of two full batches one may have ten times as many labelled nodes as the other. The weight of a
// batch for a component is its real rows over those of the epoch's mean batch: the sum over all
// batches of weight * (mean loss over the batch's rows), divided by their number, is the mean over
// all rows of the epoch. Each worker knows its weights by itself, and they are the same with any
// number of ranks, for dynamic workers and after a restart. Immutable; thread-safe.
class LossWeights {
 public:
  // `epoch` as LoadOpened or Loader::Describe() has it. FAILED_PRECONDITION where the rows of an
  // epoch are not known beforehand: of sub-graphs, and of parts that are joined.
  static absl::StatusOr<LossWeights> Of(const v1::Epoch& epoch);

  // In schema order, `graphs` last.
  const std::vector<std::string>& components() const { return components_; }
  // Real rows of all batches of the epoch, by component.
  const std::vector<uint64_t>& real_rows() const { return real_rows_; }
  // By component; 0 for a batch of padding. `batch` is of the epoch. O(components).
  std::vector<double> WeightsOf(const BatchView& batch) const;
  // One of these. NOT_FOUND naming the component and those that there are.
  absl::StatusOr<double> WeightOf(const BatchView& batch, absl::string_view component) const;

 private:
  LossWeights() = default;

  uint64_t num_batches_ = 0;
  std::vector<std::string> components_;
  std::vector<uint64_t> real_rows_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LOSS_WEIGHTS_H_
