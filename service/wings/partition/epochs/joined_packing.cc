#include "service/wings/partition/epochs/joined_packing.h"

#include <list>

#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint32_t kNoBatch = UINT32_MAX;

// One that may join the open batch, and the edges of each set that it has with the batch's parts.
struct Candidate {
  uint32_t part;
  std::vector<uint64_t> edges;
};

class Packing {
 public:
  Packing(absl::Span<const uint32_t> order, size_t num_parts, const PartsSchema& schema,
          const PartLinks& links)
      : order_(order),
        schema_(schema),
        links_(links),
        batch_of_(num_parts, kNoBatch),
        candidate_of_(num_parts),
        rows_(schema.joined().num_components() + 1),
        tried_(rows_.size()) {}

  absl::StatusOr<JoinedPacks> Pack(
      const Making& making,
      absl::FunctionRef<void(uint32_t part, absl::Span<uint64_t> rows)> add_tuple,
      absl::FunctionRef<bool(absl::Span<const uint64_t> rows)> fits) {
    packs_.starts = {0};
    for (;;) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(packs_.parts.size()));
      FillWindow();
      if (window_.empty()) break;
      const auto found = FindFitting(add_tuple, fits);
      if (found != window_.end()) {
        Take(found);
        continue;
      }
      CloseBatch();
    }
    if (packs_.starts.back() != packs_.parts.size()) CloseBatch();
    return std::move(packs_);
  }

 private:
  using Window = std::list<Candidate>;

  void FillWindow() {
    while (window_.size() < kJoinedLookAhead && next_ < order_.size()) {
      const uint32_t part = order_[next_++];
      Candidate candidate = {part, std::vector<uint64_t>(schema_.edge_sets().size())};
      for (const PartLink& link : links_.of(part)) {
        if (batch_of_[link.other] == number_) candidate.edges[link.edge_set] += link.edges;
      }
      window_.push_back(std::move(candidate));
      candidate_of_[part] = &window_.back();
    }
  }

  Window::iterator FindFitting(
      absl::FunctionRef<void(uint32_t part, absl::Span<uint64_t> rows)> add_tuple,
      absl::FunctionRef<bool(absl::Span<const uint64_t> rows)> fits) {
    const bool is_first = packs_.starts.back() == packs_.parts.size();
    for (auto candidate = window_.begin(); candidate != window_.end(); ++candidate) {
      tried_ = rows_;
      add_tuple(candidate->part, absl::MakeSpan(tried_));
      for (size_t k = 0; k + 1 < tried_.size(); ++k) {
        const size_t e = schema_.edge_set_of()[k];
        if (e != PartsSchema::JoinedTensor::kNone) tried_[k] += candidate->edges[e];
      }
      ++tried_.back();
      if (is_first || fits(tried_)) return candidate;
    }
    return window_.end();
  }

  void Take(Window::iterator taken) {
    const uint32_t part = taken->part;
    for (const uint64_t edges : taken->edges) packs_.num_restored += edges;
    rows_ = tried_;
    batch_of_[part] = number_;
    candidate_of_[part] = nullptr;
    packs_.parts.push_back(part);
    window_.erase(taken);
    for (const PartLink& link : links_.of(part)) {
      if (candidate_of_[link.other] != nullptr) {
        candidate_of_[link.other]->edges[link.edge_set] += link.edges;
      }
    }
  }

  void CloseBatch() {
    packs_.starts.push_back(static_cast<uint32_t>(packs_.parts.size()));
    ++number_;
    rows_.assign(rows_.size(), 0);
    for (Candidate& candidate : window_) candidate.edges.assign(candidate.edges.size(), 0);
  }

  const absl::Span<const uint32_t> order_;
  const PartsSchema& schema_;
  const PartLinks& links_;
  size_t next_ = 0;
  uint32_t number_ = 0;
  std::vector<uint32_t> batch_of_;
  std::vector<Candidate*> candidate_of_;  // Null unless in the window.
  Window window_;
  std::vector<uint64_t> rows_;   // Of the open batch.
  std::vector<uint64_t> tried_;  // The same with a candidate.
  JoinedPacks packs_;
};

}  // namespace

absl::StatusOr<JoinedPacks> PackJoined(
    absl::Span<const uint32_t> order, size_t num_parts, const PartsSchema& schema,
    const PartLinks& links, const Making& making,
    absl::FunctionRef<void(uint32_t part, absl::Span<uint64_t> rows)> add_tuple,
    absl::FunctionRef<bool(absl::Span<const uint64_t> rows)> fits) {
  return Packing(order, num_parts, schema, links).Pack(making, add_tuple, fits);
}

}  // namespace packhouse
