#include "service/server/metrics/metrics.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "prometheus/text_serializer.h"
#include "service/server/metrics/open_metrics.h"

namespace packhouse::metrics {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kUnarySeconds = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05,
                                                   0.1,    0.5,    1,     5,     10};
const Histogram::BucketBoundaries kStreamSeconds = {0.01, 0.1, 1, 10, 60, 600, 3600, 36000};
constexpr char kRpcDuration[] = "packhouse_rpc_duration_seconds";
const Histogram::BucketBoundaries kGapBuckets = {0,    0.0001, 0.0005, 0.001, 0.005, 0.01,
                                                 0.02, 0.05,   0.1,    0.2,   0.5,   1};

// Most of a commit is the disk's flush.
const Histogram::BucketBoundaries kCommitSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                    0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                                                    1,      2.5,     5,      10};
const Histogram::BucketBoundaries kChangesBuckets = {1, 2, 4, 8, 16, 32, 64, 128, 256};

prometheus::Counter& Counter(prometheus::Registry& registry, const std::string& name,
                             const std::string& help, const prometheus::Labels& labels = {}) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}
prometheus::Gauge& Gauge(prometheus::Registry& registry, const std::string& name,
                         const std::string& help, const prometheus::Labels& labels = {}) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}
Histogram& Distribution(prometheus::Registry& registry, const std::string& name,
                        const std::string& help, const Histogram::BucketBoundaries& buckets,
                        const prometheus::Labels& labels = {}) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
}

// The buckets of packhouse_rpc_duration_seconds, by method.
absl::Span<const double> SecondsOf(size_t method) {
  return IsStream(static_cast<Method>(method)) ? kStreamSeconds : kUnarySeconds;
}
std::vector<absl::Span<const double>> SecondsOfMethods() {
  std::vector<absl::Span<const double>> all;
  for (size_t method = 0; method < kMethodNames.size(); ++method) all.push_back(SecondsOf(method));
  return all;
}

}  // namespace

// One store's commits, from one thread at a time.
class Metrics::StoreObserver final : public CommitObserver {
 public:
  StoreObserver(prometheus::Registry& registry, const std::string& name, uint64_t max_bytes)
      : durable_commits_(Commits(registry, name, "durable")),
        failed_commits_(Commits(registry, name, "failed")),
        duration_(Distribution(registry, "packhouse_commit_duration_seconds",
                               "Time of a commit of a store, the disk's flush included.",
                               kCommitSeconds, {{"store", name}})),
        changes_(Distribution(registry, "packhouse_commit_changes",
                              "Appends and other changes that became durable in one commit.",
                              kChangesBuckets, {{"store", name}})),
        committed_bytes_(Counter(registry, "packhouse_committed_bytes_total",
                                 "Bytes of the changes that became durable, by store.",
                                 {{"store", name}})),
        store_bytes_(Gauge(registry, "packhouse_store_bytes",
                           "Bytes that a store takes on the disk: all data sets, or the ledger of "
                           "delivery.",
                           {{"store", name}})) {
    Gauge(registry, "packhouse_store_max_bytes", "Bytes that a store may take on the disk.",
          {{"store", name}})
        .Set(static_cast<double>(max_bytes));
  }

  void OnCommitBegin() override { started_ = std::chrono::steady_clock::now(); }

  void OnCommitEnd(const CommitSummary& summary) override {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
    (summary.is_durable ? durable_commits_ : failed_commits_).Increment();
    duration_.Observe(elapsed.count());
    changes_.Observe(static_cast<double>(summary.num_changes));
    committed_bytes_.Increment(static_cast<double>(summary.num_bytes));
  }

  void OnStoreBytes(uint64_t num_bytes) override {
    store_bytes_.Set(static_cast<double>(num_bytes));
  }

 private:
  static prometheus::Counter& Commits(prometheus::Registry& registry, const std::string& name,
                                      const std::string& result) {
    return Counter(registry, "packhouse_commits_total",
                   "Commits, by store and result; after a failed one each of its changes is tried "
                   "on its own.",
                   {{"store", name}, {"result", result}});
  }

  prometheus::Counter& durable_commits_;
  prometheus::Counter& failed_commits_;
  Histogram& duration_;
  Histogram& changes_;
  prometheus::Counter& committed_bytes_;
  prometheus::Gauge& store_bytes_;
  std::chrono::steady_clock::time_point started_;  // Between OnCommitBegin() and OnCommitEnd().
};

Metrics::Metrics(const std::string& version, const std::string& commit)
    : exemplars_(SecondsOfMethods()),
      packing_(&events_),
      sampled_seeds_(events_.AddCounter("packhouse_sampled_seeds_total",
                                        "Seeds around which sub-graphs were drawn.")),
      sampled_nodes_(
          events_.AddCounter("packhouse_sampled_nodes_total", "Nodes of drawn sub-graphs.")),
      sampled_edges_(
          events_.AddCounter("packhouse_sampled_edges_total", "Edges of drawn sub-graphs.")),
      drawn_smaller_(events_.AddCounter(
          "packhouse_sampled_smaller_total",
          "Sub-graphs drawn smaller than their spec says, since they exceeded the limits.")),
      plan_duration_(Distribution(registry_, "packhouse_plan_duration_seconds",
                                  "Time to plan a histogram, all heuristics.", kUnarySeconds)),
      plan_gap_(Distribution(registry_, "packhouse_plan_gap_ratio",
                             "Packs of the best plan over the lower bound, less 1.", kGapBuckets)) {
  Gauge(registry_, "packhouse_build_info", "Always 1; the version and the commit are labels.",
        {{"version", version}, {"commit", commit}})
      .Set(1);
  for (const Method method : {Method::kPack, Method::kAppend}) {
    const auto counter = [&](const std::string& result) {
      return events_.AddCounter(
          "packhouse_malformed_examples_total",
          "Malformed tf.Examples, by method and result: each that was skipped, or one for each "
          "message that was refused.",
          {{"method", std::string(kMethodNames[static_cast<size_t>(method)])}, {"result", result}});
    };
    examples_[static_cast<size_t>(method)] = {counter("skipped"), counter("refused")};
  }
  for (size_t method = 0; method < kNumMethods; ++method) {
    const std::string name(kMethodNames[method]);
    const prometheus::Labels labels = {{"method", name}};
    if (IsStream(static_cast<Method>(method))) {
      streams_[method] = {
          events_.AddGauge("packhouse_open_streams", "Streams that are open now, by method.",
                           labels),
          events_.AddGauge("packhouse_unsent_responses",
                           "Responses that are built and that the client has not yet taken, all "
                           "streams, by method.",
                           labels),
          events_.AddGauge("packhouse_unsent_bytes",
                           "Bytes of responses that are built and that the client has not yet "
                           "taken, all streams, by method.",
                           labels)};
    }
    rpc_duration_.push_back(events_.AddHistogram(
        kRpcDuration, "Time from start to end of calls and streams, by method.", SecondsOf(method),
        labels));
    std::vector<EventMetrics::Counter>& codes = rpcs_.emplace_back();
    for (size_t code = 0; code < kNumCodes; ++code) {
      codes.push_back(events_.AddCounter(
          "packhouse_rpcs_total", "Calls and streams that ended, by method and status code.",
          {{"method", name},
           {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}}));
    }
  }
}

Metrics::~Metrics() = default;

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  std::shared_ptr<const DeliveryCollector> delivery;
  std::shared_ptr<const ServerCollector> server;
  std::shared_ptr<const StoreCollector> stores;
  {
    absl::MutexLock lock(&mutex_);
    delivery = delivery_;
    server = server_;
    stores = collected_stores_;
  }
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  const auto add = [&](std::vector<prometheus::MetricFamily> added) {
    families.insert(families.end(), std::make_move_iterator(added.begin()),
                    std::make_move_iterator(added.end()));
  };
  add(events_.Collect());
  if (delivery != nullptr) add(delivery->Collect());
  if (server != nullptr) add(server->Collect());
  if (stores != nullptr) add(stores->Collect());
  add(process_.Collect());
  return families;
}

std::string Metrics::Exposition() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

std::string Metrics::OpenMetrics() const {
  return OpenMetricsText(Collect(),
                         [this](const std::string& family, const prometheus::ClientMetric& metric) {
                           return family == kRpcDuration ? exemplars_.Of(metric.label.front().value)
                                                         : std::vector<std::optional<Exemplar>>();
                         });
}

ServedReading Metrics::Served() const {
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  std::vector<prometheus::MetricFamily> events = events_.Collect();
  families.insert(families.end(), std::make_move_iterator(events.begin()),
                  std::make_move_iterator(events.end()));
  return ServedFrom(families);
}

CommitObserver* Metrics::AddStore(const std::string& name, uint64_t max_bytes) {
  auto store = std::make_unique<StoreObserver>(registry_, name, max_bytes);
  CommitObserver* const observer = store.get();
  absl::MutexLock lock(&mutex_);
  stores_.push_back(std::move(store));
  return observer;
}

void Metrics::SetDelivery(DeliveryCollector::Snapshot snapshot) {
  auto delivery = std::make_shared<const DeliveryCollector>(std::move(snapshot));
  absl::MutexLock lock(&mutex_);
  delivery_ = std::move(delivery);
}

void Metrics::SetServer(ServerCollector::Read read) {
  auto server = std::make_shared<const ServerCollector>(std::move(read));
  absl::MutexLock lock(&mutex_);
  server_ = std::move(server);
}

void Metrics::SetStores(StoreCollector::Read read) {
  auto stores = std::make_shared<const StoreCollector>(std::move(read));
  absl::MutexLock lock(&mutex_);
  collected_stores_ = std::move(stores);
}

void Metrics::OnStarted(Method method) {
  auto& stream = streams_[static_cast<size_t>(method)];
  if (stream) stream->open.Change(1);
}

void Metrics::OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) {
  const auto index = static_cast<size_t>(method);
  if (streams_[index]) streams_[index]->open.Change(-1);
  rpcs_[index][static_cast<size_t>(code) % kNumCodes].Increment();
  rpc_duration_[index].Observe(absl::ToDoubleSeconds(elapsed));
}

void Metrics::OnPlanned(absl::Duration elapsed, double gap) {
  plan_duration_.Observe(absl::ToDoubleSeconds(elapsed));
  plan_gap_.Observe(gap);
}

void Metrics::OnDrawn(uint64_t seeds, uint64_t nodes, uint64_t edges, uint32_t level) {
  sampled_seeds_.Increment(seeds);
  sampled_nodes_.Increment(nodes);
  sampled_edges_.Increment(edges);
  if (level != 0) drawn_smaller_.Increment();
}

void Metrics::OnMalformedExamples(Method method, uint64_t skipped, uint64_t refused) {
  auto& examples = examples_[static_cast<size_t>(method)];
  if (!examples) return;
  examples->skipped.Increment(skipped);
  examples->refused.Increment(refused);
}

void Metrics::OnUnsent(Method method, int64_t responses, int64_t bytes) {
  auto& stream = streams_[static_cast<size_t>(method)];
  if (!stream) return;
  stream->unsent_responses.Change(responses);
  stream->unsent_bytes.Change(bytes);
}

}  // namespace packhouse::metrics
