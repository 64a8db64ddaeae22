#include "service/wings/partition/jobs/partition_states.h"

#include <algorithm>
#include <iterator>

namespace packhouse {

void PartitionStates::Wait(const Key& key, Entry& entry, std::shared_ptr<PartitionWork> work) {
  entry.state = State::kWaiting;
  queue_.Push(key, work->client);
  entry.work = std::move(work);
}

void PartitionStates::Ask(const Key& key, std::shared_ptr<PartitionWork> work) {
  const auto [found, is_new] = entries_.try_emplace(key);
  Entry& entry = found->second;
  if (is_new) {
    Wait(key, entry, std::move(work));
  } else if (entry.state == State::kEnding && entry.next == nullptr) {
    entry.next = std::move(work);
  }
  failures_.erase(key);
}

PartitionStates::Turn PartitionStates::Begin() {
  PartitionQueue::Next next = queue_.Pop();
  Entry& entry = entries_.at(next.key);
  entry.state = State::kRunning;
  entry.work->place.Reset();
  entry.work->has_memory = true;
  entry.work->began_share = -1;
  return {std::move(next.key), entry.work};
}

bool PartitionStates::GiveWay(const Turn& turn, absl::Duration took) {
  if (turn.work->cancelled) return false;
  // First, so that its client's time is kept.
  Wait(turn.key, entries_.at(turn.key), turn.work);
  queue_.Done(turn.work->client, took);
  return true;
}

bool PartitionStates::IsTurnOfOthers(const Turn& turn, absl::Duration took) const {
  return queue_.IsTurnOfOthers(turn.work->client, took);
}

void PartitionStates::Ending(const Turn& turn) { entries_.at(turn.key).state = State::kEnding; }

void PartitionStates::End(const Turn& turn, absl::Duration took, const absl::Status& failure) {
  queue_.Done(turn.work->client, took);
  const auto found = entries_.find(turn.key);
  if (std::shared_ptr<PartitionWork> next = std::move(found->second.next); next != nullptr) {
    Wait(turn.key, found->second, std::move(next));
    return;
  }
  entries_.erase(found);
  if (!failure.ok()) failures_[turn.key] = failure;
}

void PartitionStates::Cancel(Holds holds) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    if (holds(it->first)) {
      entry.work->cancelled = true;
      entry.next = nullptr;
      if (entry.state == State::kWaiting) {
        queue_.Remove(it->first);
        it = entries_.erase(it);
        continue;
      }
    }
    ++it;
  }
}

bool PartitionStates::HasCancelled(Holds holds) const {
  return std::any_of(entries_.begin(), entries_.end(), [&holds](const auto& entry) {
    return holds(entry.first) && entry.second.work->cancelled;
  });
}

bool PartitionStates::HasAny(Holds holds) const {
  for (const auto& [key, entry] : entries_) {
    if (holds(key)) return true;
  }
  return false;
}

std::shared_ptr<const PartitionWork> PartitionStates::Find(const Key& key, State* state) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  const Entry& entry = found->second;
  *state = entry.next != nullptr ? State::kWaiting : entry.state;
  return entry.next != nullptr ? entry.next : entry.work;
}

absl::Status PartitionStates::failure(const Key& key) const {
  const auto found = failures_.find(key);
  return found == failures_.end() ? absl::OkStatus() : found->second;
}

void PartitionStates::ForgetFailures(Holds holds) {
  for (auto it = failures_.begin(); it != failures_.end();) {
    it = holds(it->first) ? failures_.erase(it) : std::next(it);
  }
}

}  // namespace packhouse
