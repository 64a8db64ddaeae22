#include "service/wings/page/history.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace packhouse::page {
namespace {

// What "now" means.
constexpr absl::Duration kLately = absl::Seconds(15);

double PerSecond(uint64_t from, uint64_t to, absl::Duration elapsed) {
  const double seconds = absl::ToDoubleSeconds(elapsed);
  return seconds <= 0 || to < from ? 0 : static_cast<double>(to - from) / seconds;
}

}  // namespace

History::Sample History::SampleOf(absl::Time now, const ServedTotals& totals,
                                  std::vector<std::string>& components) {
  Sample sample = {now, totals.batches, totals.graphs, totals.bytes};
  for (const ServedTotals::Rows& rows : totals.components) {
    auto known = std::find(components.begin(), components.end(), rows.component);
    if (known == components.end()) {
      if (components.size() == kMostComponents) continue;
      components.push_back(rows.component);
      known = components.end() - 1;
    }
    sample.components[static_cast<size_t>(known - components.begin())] = {rows.real, rows.padding};
  }
  return sample;
}

void History::Add(absl::Time now, const ServedTotals& totals,
                  const std::vector<EpochProgress>& progress) {
  absl::MutexLock lock(&mutex_);
  samples_.push_back(SampleOf(now, totals, components_));
  if (samples_.size() > kMostSamples + 1) samples_.pop_front();

  std::map<EpochKey, std::deque<PaceSample>> paces;
  for (const EpochProgress& epoch : progress) {
    if (paces.size() == kMostEpochs) break;
    std::deque<PaceSample> pace;
    if (const auto known = paces_.find(epoch.key); known != paces_.end()) {
      pace = std::move(known->second);
    }
    // A trainer that goes back to a checkpoint begins anew.
    if (!pace.empty() && epoch.num_done < pace.back().done) pace.clear();
    pace.push_back({now, epoch.num_done});
    if (pace.size() > kMostPaceSamples) pace.pop_front();
    paces.emplace(epoch.key, std::move(pace));
  }
  paces_ = std::move(paces);
}

std::optional<double> History::BatchesPerSecond(const EpochKey& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = paces_.find(key);
  if (found == paces_.end() || found->second.size() < 2) return std::nullopt;
  const PaceSample& from = found->second.front();
  const PaceSample& to = found->second.back();
  return PerSecond(from.done, to.done, to.time - from.time);
}

Json History::EfficiencyJson(const Sample& from, const Sample& to, size_t component) {
  const Rows& before = from.components[component];
  const Rows& after = to.components[component];
  const uint64_t real = after.real - before.real;
  const uint64_t rows = real + after.padding - before.padding;
  if (rows == 0) return nullptr;
  return static_cast<double>(real) / static_cast<double>(rows);
}

Json History::ToJson(absl::Time now, const ServedTotals& totals) const {
  std::vector<Sample> samples;
  std::vector<std::string> names;
  {
    absl::MutexLock lock(&mutex_);
    samples.assign(samples_.begin(), samples_.end());
    names = components_;
  }
  if (samples.empty() || samples.back().time < now) {
    samples.push_back(SampleOf(now, totals, names));
  }
  Json components = Json::array();
  Json rates = {{"batches", 0.0}, {"graphs", 0.0}, {"bytes", 0.0}};
  Json seconds = Json::array();
  Json batches = Json::array();
  Json graphs = Json::array();
  Json bytes = Json::array();
  Json efficiency = Json::object();
  for (const std::string& name : names) efficiency[name] = Json::array();
  double span = 0;
  if (samples.size() > 1) {
    const Sample& last = samples.back();
    size_t lately = samples.size() - 2;
    while (lately > 0 && last.time - samples[lately].time < kLately) --lately;
    const Sample& recent = samples[lately];
    const absl::Duration elapsed = last.time - recent.time;
    rates = {{"batches", PerSecond(recent.batches, last.batches, elapsed)},
             {"graphs", PerSecond(recent.graphs, last.graphs, elapsed)},
             {"bytes", PerSecond(recent.bytes, last.bytes, elapsed)}};
    span = absl::ToDoubleSeconds(last.time - samples.front().time);
    for (size_t k = 0; k < names.size(); ++k) {
      components.push_back({{"component", names[k]},
                            {"efficiency_now", EfficiencyJson(recent, last, k)},
                            {"efficiency_hour", EfficiencyJson(samples.front(), last, k)}});
    }
    const size_t stride = (samples.size() - 2) / kMostPoints + 1;
    // The last point is the last sample.
    for (size_t to = (samples.size() - 1) % stride + stride; to < samples.size(); to += stride) {
      const Sample& begin = samples[to - stride];
      const Sample& end = samples[to];
      const absl::Duration step = end.time - begin.time;
      seconds.push_back(absl::ToDoubleSeconds(end.time - now));
      batches.push_back(PerSecond(begin.batches, end.batches, step));
      graphs.push_back(PerSecond(begin.graphs, end.graphs, step));
      bytes.push_back(PerSecond(begin.bytes, end.bytes, step));
      for (size_t k = 0; k < names.size(); ++k) {
        efficiency[names[k]].push_back(EfficiencyJson(begin, end, k));
      }
    }
  }
  return {{"rates", std::move(rates)},
          {"components", std::move(components)},
          {"span_seconds", span},
          {"series",
           {{"seconds", std::move(seconds)},
            {"batches", std::move(batches)},
            {"graphs", std::move(graphs)},
            {"bytes", std::move(bytes)},
            {"efficiency", std::move(efficiency)}}}};
}

}  // namespace packhouse::page
