// What is wrong with the keys that servers share, and the change that puts each of it right.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_KEY_DAMAGES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_KEY_DAMAGES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"
#include "service/stores/datasets/store_check.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_engines.h"

namespace packhouse {

struct KeyDamage {
  StoredDamage damage;
  // Puts it right, or gives up what it costs. Empty for a job: see JobGivenUp().
  Transaction mend = {};
  // Nothing that is stored is lost by it.
  bool is_free = false;
  // The job that it costs.
  std::string job = "";
};

// A damaged log or mark of jobs may have been of a generation that is this much later than all that
// can be read.
inline constexpr uint64_t kLostGenerations = uint64_t{1} << 40;

// "source graph 'NAME'", "histogram 'NAME'".
std::string NamedGraph(absl::string_view name);
std::string NamedHistogram(absl::string_view name);
// Of a partition's key.
std::string NamedPartition(absl::string_view key);

// Reads keys, and changes nothing. Each function adds what it finds; damage is no error. Errors of
// the store. O(keys) time, and memory for the names. For one thread.
class KeyDamages {
 public:
  // By place.
  using Found = std::map<std::string, KeyDamage>;

  // `file`: StoredDamage::file. What it points to must outlive it.
  KeyDamages(const ObjectEngines& engines, std::string file, StoredCounts& counts)
      : engines_(engines), keys_(*engines_.keys), file_(std::move(file)), counts_(counts) {}

  // What belongs to nothing, or misses something that goes with it. What a server is about to
  // write, or to delete, is another thing, or whole, some time later: only what is found twice is
  // damage while servers run.
  absl::Status FindStrays();
  // Jobs that FindStrays() has listed, histograms and measured models that cannot be read.
  absl::Status FindUnreadable();
  // The names of data sets, source graphs and partitions whose values cannot be read: no call
  // deletes these.
  absl::Status FindUnreadableNames();

  // What was found since the last time.
  Found Take() { return std::exchange(found_, {}); }
  // Of all jobs that could be read.
  uint64_t last_generation() const { return last_generation_; }

  // All keys that begin with `prefix`; those of a range that is known to be small.
  absl::StatusOr<std::vector<KeyValue>> All(absl::string_view prefix) const;
  absl::StatusOr<std::vector<KeyValue>> First(const KeyRange& range) const;

 private:
  void Add(std::string place, std::string what, std::string cost, Transaction mend,
           bool is_free = false);
  void AddJob(std::string place, std::string what, const std::string& job);

  absl::StatusOr<std::vector<std::string>> FoldersIn(absl::string_view prefix) const;
  absl::StatusOr<RangeResult> ReadOne(const KeyRange& range) const;
  absl::StatusOr<std::set<std::string>> ListedJobs() const;

  absl::Status FindStraysOfDatasets();
  absl::Status FindStraysOfGraphs();
  absl::Status CompareTotals();
  absl::Status FindStraysOfJobs();
  absl::Status FindStraysOfHistograms();
  absl::Status FindUnreadableJobs();
  absl::Status FindUnreadableHistograms();

  const ObjectEngines& engines_;
  KeyValueStore& keys_;
  const std::string file_;
  StoredCounts& counts_;
  Found found_;
  // With a head.
  std::vector<std::string> jobs_;
  uint64_t last_generation_ = 0;
};

// Deletes a job's keys, but for its owner's, and puts the mark of generations.
std::vector<Operation> JobGivenUp(const std::string& job, uint64_t mark);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_CHECK_KEY_DAMAGES_H_
