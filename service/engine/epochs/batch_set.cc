#include "service/engine/epochs/batch_set.h"

#include <algorithm>

namespace packhouse {

BatchSet BatchSet::Of(absl::Span<const uint64_t> batches) {
  BatchSet set;
  for (const uint64_t batch : batches) set.Insert(batch);
  return set;
}

bool BatchSet::Insert(uint64_t batch) {
  if (Contains(batch)) return false;
  InsertRun({batch, batch + 1});
  return true;
}

void BatchSet::InsertRun(const BatchRun& run) {
  if (run.begin >= run.end) return;
  uint64_t begin = run.begin;
  uint64_t end = run.end;
  // All runs that overlap or touch become one.
  auto it = runs_.upper_bound(begin);
  if (it != runs_.begin() && std::prev(it)->second >= begin) --it;
  while (it != runs_.end() && it->first <= end) {
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    size_ -= it->second - it->first;
    it = runs_.erase(it);
  }
  runs_.emplace_hint(it, begin, end);
  size_ += end - begin;
}

void BatchSet::InsertAll(const BatchSet& other) {
  for (const auto& [begin, end] : other.runs_) InsertRun({begin, end});
}

bool BatchSet::Contains(uint64_t batch) const {
  const auto it = runs_.upper_bound(batch);
  return it != runs_.begin() && std::prev(it)->second > batch;
}

std::vector<BatchRun> BatchSet::Runs() const {
  std::vector<BatchRun> runs;
  runs.reserve(runs_.size());
  for (const auto& [begin, end] : runs_) runs.push_back({begin, end});
  return runs;
}

BatchSet BatchSet::Below(uint64_t end) const {
  BatchSet below;
  for (const auto& [run_begin, run_end] : runs_) {
    if (run_begin >= end) break;
    below.InsertRun({run_begin, std::min(run_end, end)});
  }
  return below;
}

uint64_t BatchSet::SizeBelow(uint64_t end) const {
  uint64_t size = 0;
  for (const auto& [run_begin, run_end] : runs_) {
    if (run_begin >= end) break;
    size += std::min(run_end, end) - run_begin;
  }
  return size;
}

std::vector<uint32_t> BatchSet::Missing(uint64_t begin, uint64_t end) const {
  std::vector<uint32_t> missing;
  uint64_t next = begin;
  const auto add_until = [&](uint64_t until) {
    for (; next < until; ++next) missing.push_back(static_cast<uint32_t>(next));
  };
  for (const auto& [run_begin, run_end] : runs_) {
    if (run_begin >= end) break;
    add_until(run_begin);
    next = std::max(next, run_end);
  }
  add_until(end);
  return missing;
}

}  // namespace packhouse
