// What a batch costs the device that computes it: a polynomial of its numbers of rows.
//
// A convolution costs as its edges, attention within graphs as the sum over graphs of squared
// nodes, attention over the whole batch as the square of all nodes.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BATCH_COST_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BATCH_COST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse {

enum class CostForm : uint8_t {
  // The batch's rows of the component.
  kRows = 1,
  // Their square.
  kSquaredRows = 2,
  // The sum over the batch's graphs of their squared rows. Not of `graphs`.
  kSumOfSquares = 3,
  // 1: each batch costs this, whatever it has. `component` is 0.
  kBatch = 4,
};

struct CostTerm {
  CostForm form = CostForm::kRows;
  // In schema order, `graphs` last.
  size_t component = 0;
  // In any unit, the same for all terms.
  double weight = 1;

  friend bool operator==(const CostTerm&, const CostTerm&) = default;
};

// Immutable; thread-safe. Costs are whole numbers, the same on every machine: batches are ordered
// by them.
class BatchCost {
 public:
  static constexpr size_t kMaxTerms = 64;
  // Weights are rounded to this share of the largest weight, and are at least it.
  static constexpr int kWeightBits = 30;

  // `num_components` without `graphs`. INVALID_ARGUMENT naming the term and the bound for no terms
  // or more than kMaxTerms, a weight that is not finite and above 0, a component that there is not,
  // or a sum of squares of `graphs`.
  static absl::StatusOr<BatchCost> Create(std::vector<CostTerm> terms, size_t num_components);

  const std::vector<CostTerm>& terms() const { return terms_; }
  // Whether Of() reads squares.
  bool has_squares() const;
  // What a cost of 1 is, in the unit of the weights.
  double unit() const { return unit_; }

  // `rows` per component, `graphs` last; `squares` the sums over graphs, or empty if it has none.
  // Below 2^127. O(terms).
  absl::uint128 Of(absl::Span<const uint64_t> rows, absl::Span<const uint64_t> squares) const;

  // "1*c0 + 0.25*c1^2 + 2*sum c0^2 + 7*batch". The same words for the same terms, and others for
  // others.
  std::string Words() const;
  // From Words(), for that many components; nullopt for other words.
  static std::optional<BatchCost> FromWords(absl::string_view words, size_t num_components);

 private:
  explicit BatchCost(std::vector<CostTerm> terms);

  std::vector<CostTerm> terms_;
  std::vector<uint64_t> scaled_;  // Weights, by term.
  double unit_ = 1;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BATCH_COST_H_
