#include "service/wings/partition/jobs/partition_queue.h"

#include <algorithm>

namespace packhouse {

void PartitionQueue::Push(const Key& key, const ClientId& client) {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [other, turns] : clients_) least = std::min(least, turns.time);
  if (clients_.empty()) least = absl::ZeroDuration();
  Client& turns = clients_.try_emplace(client, Client{least}).first->second;
  ++turns.partitions;
  waiting_.push_back({key, client});
}

void PartitionQueue::Leave(const ClientId& client) {
  const auto found = clients_.find(client);
  if (--found->second.partitions == 0) clients_.erase(found);
}

bool PartitionQueue::Remove(const Key& key) {
  const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&key](const Next& waiting) { return waiting.key == key; });
  if (found == waiting_.end()) return false;
  Leave(found->client);
  waiting_.erase(found);
  return true;
}

PartitionQueue::Next PartitionQueue::Pop() {
  const auto time_of = [this](const Next& waiting) { return clients_.at(waiting.client).time; };
  // Of equal ones the first.
  const auto next =
      std::min_element(waiting_.begin(), waiting_.end(),
                       [&](const Next& a, const Next& b) { return time_of(a) < time_of(b); });
  Next taken = std::move(*next);
  waiting_.erase(next);
  // While it runs, the others are before it.
  clients_.at(taken.client).time += absl::Nanoseconds(1);
  return taken;
}

bool PartitionQueue::IsTurnOfOthers(const ClientId& client, absl::Duration took) const {
  const absl::Duration own = clients_.at(client).time + took;
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Next& waiting) {
    return waiting.client != client && clients_.at(waiting.client).time < own;
  });
}

void PartitionQueue::Done(const ClientId& client, absl::Duration time) {
  clients_.at(client).time += std::max(time, absl::ZeroDuration());
  Leave(client);
}

}  // namespace packhouse
