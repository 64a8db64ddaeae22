#include "service/algorithms/planning/batch_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace packhouse {
namespace {

constexpr absl::string_view kPlus = " + ";
// A value of a term beyond it counts as it, so that no sum of terms overflows.
constexpr absl::uint128 kMostOfTerm = absl::uint128(1) << 90;

std::string WeightWords(double weight) {
  const std::string brief = absl::StrCat(weight);
  double read = 0;
  // So that other numbers have other words.
  return absl::SimpleAtod(brief, &read) && read == weight ? brief
                                                          : absl::StrFormat("%.17g", weight);
}

std::string FormWords(const CostTerm& term) {
  switch (term.form) {
    case CostForm::kRows:
      return absl::StrCat("c", term.component);
    case CostForm::kSquaredRows:
      return absl::StrCat("c", term.component, "^2");
    case CostForm::kSumOfSquares:
      return absl::StrCat("sum c", term.component, "^2");
    case CostForm::kBatch:
      break;
  }
  return "batch";
}

std::optional<CostTerm> TermFromWords(absl::string_view words) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(words, absl::MaxSplits('*', 1));
  CostTerm term;
  if (!absl::SimpleAtod(parts.first, &term.weight)) return std::nullopt;
  absl::string_view form = parts.second;
  if (form == "batch") {
    term.form = CostForm::kBatch;
    return term;
  }
  const bool is_sum = absl::ConsumePrefix(&form, "sum ");
  const bool is_square = absl::ConsumeSuffix(&form, "^2");
  if (!absl::ConsumePrefix(&form, "c") || (is_sum && !is_square)) return std::nullopt;
  if (!absl::SimpleAtoi(form, &term.component)) return std::nullopt;
  if (is_square) term.form = is_sum ? CostForm::kSumOfSquares : CostForm::kSquaredRows;
  return term;
}

}  // namespace

BatchCost::BatchCost(std::vector<CostTerm> terms) : terms_(std::move(terms)) {
  double largest = 0;
  for (const CostTerm& term : terms_) largest = std::max(largest, term.weight);
  // Divisions of fractions and multiplications by powers of two are exact to the last bit
  // everywhere.
  for (const CostTerm& term : terms_) {
    const double scaled = std::round(std::ldexp(term.weight / largest, kWeightBits));
    scaled_.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(scaled)));
  }
  unit_ = std::ldexp(largest, -kWeightBits);
}

absl::StatusOr<BatchCost> BatchCost::Create(std::vector<CostTerm> terms, size_t num_components) {
  if (terms.empty() || terms.size() > kMaxTerms) {
    return absl::InvalidArgumentError(
        absl::StrCat("cost: ", terms.size(), " terms, must be 1 to ", kMaxTerms));
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    const CostTerm& term = terms[i];
    if (!(term.weight > 0 && std::isfinite(term.weight))) {
      return absl::InvalidArgumentError(absl::StrCat("cost: term ", i, " has weight ", term.weight,
                                                     ", must be a finite number above 0"));
    }
    const bool is_sum = term.form == CostForm::kSumOfSquares;
    if (term.component > num_components || (is_sum && term.component == num_components)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cost: term ", i, " is of component ", term.component, ", there are ",
                       num_components, is_sum ? " that graphs have rows of" : " and graphs"));
    }
  }
  return BatchCost(std::move(terms));
}

bool BatchCost::has_squares() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const CostTerm& term) { return term.form == CostForm::kSumOfSquares; });
}

absl::uint128 BatchCost::Of(absl::Span<const uint64_t> rows,
                            absl::Span<const uint64_t> squares) const {
  absl::uint128 sum = 0;
  for (size_t i = 0; i < terms_.size(); ++i) {
    const CostTerm& term = terms_[i];
    absl::uint128 value = 1;
    if (term.form == CostForm::kRows) value = rows[term.component];
    if (term.form == CostForm::kSquaredRows) {
      value = absl::uint128(rows[term.component]) * rows[term.component];
    }
    if (term.form == CostForm::kSumOfSquares) value = squares[term.component];
    sum += std::min(value, kMostOfTerm) * scaled_[i];
  }
  return sum;
}

std::string BatchCost::Words() const {
  return absl::StrJoin(terms_, kPlus, [](std::string* out, const CostTerm& term) {
    absl::StrAppend(out, WeightWords(term.weight), "*", FormWords(term));
  });
}

std::optional<BatchCost> BatchCost::FromWords(absl::string_view words, size_t num_components) {
  std::vector<CostTerm> terms;
  for (const absl::string_view each : absl::StrSplit(words, kPlus)) {
    const std::optional<CostTerm> term = TermFromWords(each);
    if (!term) return std::nullopt;
    terms.push_back(*term);
  }
  absl::StatusOr<BatchCost> cost = Create(std::move(terms), num_components);
  if (!cost.ok()) return std::nullopt;
  return *std::move(cost);
}

}  // namespace packhouse
