#include "service/base/limited_log.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "service/base/out_of_memory.h"

namespace packhouse {
namespace {

// Not a key that a caller uses.
constexpr absl::string_view kOthers = "others";
// Bytes that are kept of a key.
constexpr size_t kMaxKeyBytes = 256;

}  // namespace

void LimitedLog::Bucket::Fill(absl::Time now, double burst, absl::Duration interval) {
  // A clock that steps back must not take tokens away.
  if (now <= filled) return;
  tokens = filled == absl::InfinitePast()
               ? burst
               : std::min(burst, tokens + absl::FDivDuration(now - filled, interval));
  filled = now;
}

LimitedLog::Key& LimitedLog::FindKey(absl::string_view key) {
  key = key.substr(0, kMaxKeyBytes);
  if (const auto found = keys_.find(key); found != keys_.end()) return found->second;
  if (keys_.size() + 1 >= bounds_.max_keys) key = kOthers;
  return keys_.try_emplace(key, bounds_.burst).first->second;
}

void LimitedLog::ForgetQuiet(absl::Time now) {
  absl::erase_if(keys_, [&](auto& entry) {
    Key& key = entry.second;
    key.bucket.Fill(now, bounds_.burst, bounds_.interval);
    return key.suppressed == 0 && key.bucket.tokens >= bounds_.burst;
  });
}

void LimitedLog::Log(absl::string_view key, LogLevel level, absl::string_view event,
                     absl::Span<const LogField> fields) {
  // Logging must not make the caller's work fail.
  RunWithinMemory([&] { LogIfThereIsMemory(key, level, event, fields); });
}

void LimitedLog::LogIfThereIsMemory(absl::string_view key, LogLevel level, absl::string_view event,
                                    absl::Span<const LogField> fields) {
  const absl::Time now = now_();
  uint64_t suppressed = 0;
  {
    absl::MutexLock lock(&mutex_);
    Key& entry = FindKey(key);
    entry.bucket.Fill(now, bounds_.burst, bounds_.interval);
    total_.Fill(now, bounds_.total_burst, bounds_.total_interval);
    if (entry.bucket.tokens < 1 || total_.tokens < 1) {
      ++entry.suppressed;
      return;
    }
    --entry.bucket.tokens;
    --total_.tokens;
    suppressed = std::exchange(entry.suppressed, 0);
  }
  if (suppressed == 0) {
    log_->Log(level, event, fields);
    return;
  }
  std::vector<LogField> more(fields.begin(), fields.end());
  more.emplace_back("suppressed", suppressed);
  log_->Log(level, event, more);
}

void LimitedLog::LogSuppressed() {
  RunWithinMemory([this] { LogSuppressedIfThereIsMemory(); });
}

void LimitedLog::LogSuppressedIfThereIsMemory() {
  const absl::Time now = now_();
  std::vector<std::pair<std::string, uint64_t>> suppressed;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, entry] : keys_) {
      if (entry.suppressed == 0) continue;
      suppressed.emplace_back(key, std::exchange(entry.suppressed, 0));
    }
    ForgetQuiet(now);
  }
  std::sort(suppressed.begin(), suppressed.end(), [](const auto& a, const auto& b) {
    return std::make_pair(b.second, a.first) < std::make_pair(a.second, b.first);
  });
  uint64_t rest = 0;
  for (size_t i = 0; i < suppressed.size(); ++i) {
    const auto& [key, count] = suppressed[i];
    if (i >= bounds_.max_named) {
      rest += count;
      continue;
    }
    log_->Log(LogLevel::kInfo, "log lines suppressed", {{"of", key}, {"count", count}});
  }
  if (rest == 0) return;
  log_->Log(LogLevel::kInfo, "log lines suppressed", {{"of", "all others"}, {"count", rest}});
}

}  // namespace packhouse
