#include "service/server/metrics/packing_metrics.h"

#include <algorithm>
#include <array>
#include <vector>

#include "service/access/policy.h"
#include "service/algorithms/planning/limits.h"
#include "service/server/metrics/store_collector.h"

namespace packhouse::metrics {
namespace {

constexpr std::array<double, 10> kEfficiencyBounds = {0.5,  0.7,  0.8,  0.9,   0.95,
                                                      0.97, 0.98, 0.99, 0.995, 0.999};
constexpr char kOtherPacked[] = "other";

// The name itself, if it has a label of its own or gets one now. One of `most` places is kept for
// "other".
std::string LabelOf(absl::string_view name, size_t most, absl::flat_hash_set<std::string>& labels) {
  if (labels.contains(name)) return std::string(name);
  if (labels.size() + 1 >= most) return kOtherPacked;
  return *labels.emplace(name).first;
}

}  // namespace

// One stream's share of the metrics.
class PackingMetrics::StreamObserver final : public PackObserver {
 public:
  StreamObserver(SourceMetrics* source, std::vector<RowMetrics> components)
      : source_(source), components_(std::move(components)) {}
  ~StreamObserver() override { SetLoses(false); }

  void OnBatch(const Batch& batch, absl::Span<const uint64_t> capacities) override {
    source_->batches.Increment();
    source_->graphs.Increment(batch.real_rows.back());
    source_->batch_bytes.Increment(
        batch.framed.empty() ? batch.sizes.size() * sizeof(batch.sizes[0]) : batch.framed.size());
    for (size_t k = 0; k < components_.size(); ++k) {
      // The client lays out a batch of sizes or without padding, up to the capacity.
      const uint64_t rows = capacities[k] == kUnlimited ? batch.rows[k] : capacities[k];
      const uint64_t real = batch.real_rows[k];
      components_[k].real_rows.Increment(real);
      components_[k].padding_rows.Increment(rows - std::min(rows, real));
      if (rows != 0) {
        components_[k].efficiency.Observe(static_cast<double>(real) / static_cast<double>(rows));
      }
    }
  }

  void OnRejectedTooLarge(uint64_t graphs) override {
    source_->rejected_too_large.Increment(graphs);
  }

  void OnPending(uint64_t graphs, uint64_t bytes) override {
    source_->pending_graphs.Change(static_cast<int64_t>(graphs - last_graphs_));
    source_->pending_bytes.Change(static_cast<int64_t>(bytes - last_bytes_));
    last_graphs_ = graphs;
    last_bytes_ = bytes;
  }

  void OnSizeChange(double loss, bool loses) override {
    if (loss == kNotJudged) {
      source_->drift_not_judged.Increment();
      return;
    }
    (loses ? source_->drift_loses : source_->drift_harmless).Increment();
    SetLoses(loses);
  }

 private:
  void SetLoses(bool loses) {
    source_->drift_streams.Change(static_cast<int64_t>(loses) - static_cast<int64_t>(loses_));
    loses_ = loses;
  }

  SourceMetrics* const source_;
  std::vector<RowMetrics> components_;  // `graphs` last.
  uint64_t last_graphs_ = 0;
  uint64_t last_bytes_ = 0;
  bool loses_ = false;
};

PackingMetrics::PackingMetrics(EventMetrics* events) : events_(events) {
  absl::MutexLock lock(&mutex_);
  // So that there are series before the first stream.
  SourceOf(LabelOf(NamespaceOf(""), kMaxNamespaceLabels, namespaces_), "");
}

PackingMetrics::SourceMetrics& PackingMetrics::SourceOf(const std::string& where,
                                                        const std::string& dataset) {
  const auto found = sources_.find({where, dataset});
  if (found != sources_.end()) return found->second;
  prometheus::Labels labels = {{"namespace", where}};
  if (!dataset.empty()) labels.emplace("dataset", dataset);
  const auto counter = [&](const char* name, const char* help, prometheus::Labels more = {}) {
    more.insert(labels.begin(), labels.end());
    return events_->AddCounter(name, help, more);
  };
  const auto gauge = [&](const char* name, const char* help) {
    return events_->AddGauge(name, help, labels);
  };
  const auto drift = [&](const char* result) {
    return counter("packhouse_drift_changes_total",
                   "Changes of sizes that were found in watched streams, by result: the limits "
                   "lose by it as much as the stream wants to be told (loses), or not (harmless), "
                   "or there was no memory to find out (not_judged).",
                   {{"result", result}});
  };
  SourceMetrics added = {
      labels,
      counter("packhouse_batches_total", "Batches handed out."),
      counter("packhouse_graphs_total", "Graphs in batches handed out."),
      counter("packhouse_batch_bytes_total",
              "Bytes of the tensors of batches handed out; of batches of sizes, bytes of the "
              "sizes."),
      counter("packhouse_rejected_graphs_total", "Graphs that are in no batch, by reason.",
              {{"reason", "too_large"}}),
      drift("loses"),
      drift("harmless"),
      drift("not_judged"),
      gauge("packhouse_drift_streams",
            "Watched streams that are open now and whose limits lose since the latest change of "
            "sizes."),
      gauge("packhouse_pending_graphs", "Graphs accepted and not yet in a batch, all streams."),
      gauge("packhouse_pending_bytes", "Bytes held for pending graphs, all streams."),
      {}};
  return sources_.emplace(std::pair(where, dataset), std::move(added)).first->second;
}

PackingMetrics::RowMetrics PackingMetrics::AddRows(prometheus::Labels labels) {
  return {events_->AddCounter("packhouse_real_rows_total",
                              "Rows of real data in batches handed out, by component.", labels),
          events_->AddCounter("packhouse_padding_rows_total",
                              "Rows that batches handed out have room for beyond the real ones, by "
                              "component: padded here, or by the client.",
                              labels),
          events_->AddHistogram("packhouse_batch_efficiency_ratio",
                                "Real rows over capacity of a batch, by component.",
                                kEfficiencyBounds, labels)};
}

PackingMetrics::RowMetrics PackingMetrics::RowsOf(SourceMetrics& source,
                                                  absl::string_view component) {
  const auto found = source.components.find(component);
  if (found != source.components.end()) return found->second;
  const std::string label = LabelOf(component, kMaxComponentLabels, components_);
  const auto labelled = source.components.find(label);
  if (labelled != source.components.end()) return labelled->second;
  // One place is kept for "other" in all.
  if (num_rows_ + 1 >= kMaxRowLabels) {
    SourceMetrics& others = SourceOf(kOtherPacked, kOtherPacked);
    if (&source != &others || label != kOtherPacked) return RowsOf(others, kOtherPacked);
  }
  ++num_rows_;
  prometheus::Labels labels = source.labels;
  labels.emplace("component", label);
  return source.components.emplace(label, AddRows(std::move(labels))).first->second;
}

std::unique_ptr<PackObserver> PackingMetrics::ForStream(const SizeSchema& schema,
                                                        const PackedFor& packed_for) {
  absl::MutexLock lock(&mutex_);
  const absl::string_view named = packed_for.where.empty() ? NamespaceOf("") : packed_for.where;
  const std::string where = LabelOf(named, kMaxNamespaceLabels, namespaces_);
  const std::string dataset =
      packed_for.dataset.empty() ? "" : LabelOf(packed_for.dataset, kMaxDatasetLabels, datasets_);
  SourceMetrics& source = SourceOf(where, dataset);
  std::vector<RowMetrics> components;
  for (size_t k = 0; k <= schema.num_components(); ++k) {
    components.push_back(RowsOf(source, schema.name(k)));
  }
  return std::make_unique<StreamObserver>(&source, std::move(components));
}

}  // namespace packhouse::metrics
