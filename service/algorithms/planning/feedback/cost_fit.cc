#include "service/algorithms/planning/feedback/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

namespace packhouse {
namespace {

// All in units in which capacities and values are at most 1 or about 1.
constexpr double kEvenly = 3e-4;        // How much a share of what is undetermined counts.
constexpr double kGraphsEvenly = 3e-2;  // The same for `graphs`.
constexpr double kLeastDeviation = 1e-3;
constexpr int kReweightings = 40;
constexpr size_t kLeastKneePoints = 6;
constexpr size_t kMostKneeColumns = 18;  // With more, many fits take too long.
constexpr double kKneeGain = 0.67;

using Matrix = std::vector<std::vector<double>>;

// Solves the equations of the columns in `active`; they are positive definite. By Cholesky.
std::vector<double> Solve(const Matrix& a, const std::vector<double>& b,
                          const std::vector<size_t>& active) {
  const size_t n = active.size();
  Matrix lower(n, std::vector<double>(n, 0));
  std::vector<double> x(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[active[i]][active[j]];
      for (size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / lower[j][j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    double sum = b[active[i]];
    for (size_t k = 0; k < i; ++k) sum -= lower[i][k] * x[k];
    x[i] = sum / lower[i][i];
  }
  for (size_t i = n; i-- > 0;) {
    double sum = x[i];
    for (size_t k = i + 1; k < n; ++k) sum -= lower[k][i] * x[k];
    x[i] = sum / lower[i][i];
  }
  return x;
}

// The x >= 0 with the least x'ax - 2b'x (Lawson and Hanson 1974, chapter 23). `a` is positive
// definite, so that there is one.
std::vector<double> SolveNonNegative(const Matrix& a, const std::vector<double>& b) {
  const size_t n = b.size();
  std::vector<double> x(n, 0);
  std::vector<size_t> active;
  for (size_t step = 0; step < 3 * n + 10; ++step) {
    // The column whose growth helps most.
    std::optional<size_t> entering;
    double most = 1e-12;
    for (size_t j = 0; j < n; ++j) {
      if (std::find(active.begin(), active.end(), j) != active.end()) continue;
      double gradient = b[j];
      for (size_t k = 0; k < n; ++k) gradient -= a[j][k] * x[k];
      if (gradient > most) {
        most = gradient;
        entering = j;
      }
    }
    if (!entering) break;
    active.push_back(*entering);
    while (!active.empty()) {
      const std::vector<double> solved = Solve(a, b, active);
      // As far towards the solution as nothing becomes negative.
      double share = 1;
      for (size_t i = 0; i < active.size(); ++i) {
        const double before = x[active[i]];
        if (solved[i] <= 0) share = std::min(share, before / std::max(before - solved[i], 1e-300));
      }
      for (size_t i = 0; i < active.size(); ++i) {
        x[active[i]] += share * (solved[i] - x[active[i]]);
      }
      if (share >= 1) break;
      std::erase_if(active, [&](size_t j) {
        if (x[j] > 1e-14) return false;
        x[j] = 0;
        return true;
      });
    }
  }
  return x;
}

// Points in units of about 1; the constant is the last column.
struct Scaled {
  std::vector<std::vector<double>> rows;
  std::vector<double> values;
  std::vector<double> weights;
  std::vector<double> units;  // Of the columns.
  double value_unit = 1;
};

Scaled Scale(absl::Span<const CostPoint> points) {
  Scaled scaled;
  const size_t columns = points[0].capacities.size() + 1;
  scaled.units.assign(columns, 1);
  double total = 0;
  scaled.value_unit = 0;
  for (const CostPoint& point : points) {
    for (size_t k = 0; k + 1 < columns; ++k) {
      scaled.units[k] = std::max(scaled.units[k], static_cast<double>(point.capacities[k]));
    }
    scaled.value_unit = std::max(scaled.value_unit, point.value);
    total += point.weight;
  }
  for (const CostPoint& point : points) {
    std::vector<double> row(columns, 1);
    for (size_t k = 0; k + 1 < columns; ++k) {
      row[k] = static_cast<double>(point.capacities[k]) / scaled.units[k];
    }
    scaled.rows.push_back(std::move(row));
    scaled.values.push_back(point.value / scaled.value_unit);
    // A share of a batch's own cost counts, not an amount: small shapes matter as large ones do.
    scaled.weights.push_back(point.weight / total / std::max(scaled.values.back(), 1e-6));
  }
  return scaled;
}

struct Law {
  std::vector<double> x;  // By columns.
  double deviation = 0;   // Weighted sum over the points that took part.
};

double Predict(const Scaled& scaled, size_t point, const std::vector<double>& x) {
  double value = 0;
  for (size_t j = 0; j < x.size(); ++j) value += scaled.rows[point][j] * x[j];
  return value;
}

// The law of the points in `taken`.
Law FitLinear(const Scaled& scaled, const std::vector<size_t>& taken) {
  const size_t columns = scaled.units.size();
  Law law;
  law.x.assign(columns, 0);
  // Squares that are divided by the deviation of the round before come to absolute deviations.
  std::vector<double> deviations(taken.size(), 1);
  for (int round = 0; round < kReweightings; ++round) {
    Matrix a(columns, std::vector<double>(columns, 0));
    std::vector<double> b(columns, 0);
    double total = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      const std::vector<double>& row = scaled.rows[taken[i]];
      const double weight = scaled.weights[taken[i]] / std::max(deviations[i], kLeastDeviation);
      total += weight;
      for (size_t j = 0; j < columns; ++j) {
        b[j] += weight * row[j] * scaled.values[taken[i]];
        for (size_t k = 0; k < columns; ++k) a[j][k] += weight * row[j] * row[k];
      }
    }
    // Of laws that explain the points alike, that with the smallest squares: it divides evenly.
    for (size_t j = 0; j < columns; ++j) {
      a[j][j] += total * (j + 2 == columns ? kGraphsEvenly : kEvenly);
    }
    law.x = SolveNonNegative(a, b);
    law.deviation = 0;
    double change = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      const double deviation = std::abs(scaled.values[taken[i]] - Predict(scaled, taken[i], law.x));
      change = std::max(change, std::abs(deviation - deviations[i]));
      deviations[i] = deviation;
      law.deviation += scaled.weights[taken[i]] * deviation;
    }
    if (change < 1e-7) break;
  }
  return law;
}

struct Knee {
  Law law;
  double least = 0;
};

// The best split into small points, which all cost `least`, and others, which follow a law.
std::optional<Knee> FindKnee(const Scaled& scaled, const Law& linear) {
  const size_t n = scaled.values.size();
  if (n < kLeastKneePoints || scaled.units.size() > kMostKneeColumns) return std::nullopt;
  std::vector<size_t> by_size(n);
  for (size_t i = 0; i < n; ++i) by_size[i] = i;
  const auto size_of = [&](size_t i) {
    double size = 0;
    for (size_t j = 0; j + 2 < scaled.rows[i].size(); ++j) size += scaled.rows[i][j];
    return size;
  };
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return size_of(a) < size_of(b); });
  std::optional<Knee> best;
  double least_deviation = kKneeGain * linear.deviation;
  // A third of what no law explains at all is not worth a knee.
  if (linear.deviation < 0.01) return std::nullopt;
  const size_t stride = std::max<size_t>(1, n / 16);
  for (size_t small = 2; small + 3 <= n; small += stride) {
    std::vector<double> values;
    for (size_t i = 0; i < small; ++i) values.push_back(scaled.values[by_size[i]]);
    std::sort(values.begin(), values.end());
    const double least = values[values.size() / 2];
    Knee knee{FitLinear(scaled, {by_size.begin() + static_cast<ptrdiff_t>(small), by_size.end()}),
              least};
    double deviation = 0;
    for (size_t i = 0; i < n; ++i) {
      deviation += scaled.weights[i] *
                   std::abs(scaled.values[i] - std::max(least, Predict(scaled, i, knee.law.x)));
    }
    if (deviation >= least_deviation) continue;
    least_deviation = deviation;
    best = std::move(knee);
  }
  return best;
}

}  // namespace

double CostFit::ValueOf(absl::Span<const uint64_t> capacities) const {
  double value = fixed;
  for (size_t k = 0; k < capacities.size() && k < per_row.size(); ++k) {
    value += per_row[k] * static_cast<double>(capacities[k]);
  }
  return std::max(value, least);
}

CostFit FitCost(absl::Span<const CostPoint> points) {
  CostFit fit;
  if (points.empty()) return fit;
  const Scaled scaled = Scale(points);
  std::vector<size_t> all(points.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  Law law = FitLinear(scaled, all);
  if (std::optional<Knee> knee = FindKnee(scaled, law)) {
    fit.least = knee->least * scaled.value_unit;
    law = std::move(knee->law);
  }
  fit.fixed = law.x.back() * scaled.value_unit;
  for (size_t k = 0; k + 1 < law.x.size(); ++k) {
    fit.per_row.push_back(law.x[k] * scaled.value_unit / scaled.units[k]);
  }
  std::vector<double> deviations;
  for (const CostPoint& point : points) {
    deviations.push_back(std::abs(point.value - fit.ValueOf(point.capacities)) / point.value);
  }
  std::sort(deviations.begin(), deviations.end());
  fit.spread = deviations[deviations.size() / 2];
  return fit;
}

}  // namespace packhouse
