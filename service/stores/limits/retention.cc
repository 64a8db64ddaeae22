#include "service/stores/limits/retention.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/access/policy.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kUsesTitle = "packhouse last uses 1\n";
constexpr absl::string_view kUsesEnd = "end ";

std::string EndOf(absl::string_view text) {
  return absl::StrCat(kUsesEnd, absl::Hex(Crc32c(text), absl::kZeroPad8), "\n");
}

absl::StatusOr<absl::Duration> ParsePart(absl::string_view whole, absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(whole), ": must be a duration of 0s or more, such as 720h, or NAMESPACE=DURATION"));
  }
  return duration == absl::ZeroDuration() ? absl::InfiniteDuration() : duration;
}

}  // namespace

absl::Duration Retention::Of(absl::string_view name) const {
  const auto found = of_namespace.find(std::string(NamespaceOf(name)));
  return found == of_namespace.end() ? otherwise : found->second;
}

bool Retention::is_for_ever() const {
  return otherwise == absl::InfiniteDuration() &&
         std::all_of(of_namespace.begin(), of_namespace.end(),
                     [](const auto& each) { return each.second == absl::InfiniteDuration(); });
}

absl::Duration Retention::Period() const {
  absl::Duration shortest = otherwise;
  for (const auto& [name, duration] : of_namespace) shortest = std::min(shortest, duration);
  return std::clamp(shortest / 8, absl::Seconds(1), absl::Minutes(10));
}

absl::StatusOr<Retention> ParseRetention(absl::string_view text) {
  Retention retention;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos) {
      PH_ASSIGN_OR_RETURN(retention.otherwise, ParsePart(part, part));
    } else {
      PH_ASSIGN_OR_RETURN(retention.of_namespace[std::string(part.substr(0, equals))],
                          ParsePart(part, part.substr(equals + 1)));
    }
  }
  return retention;
}

LastUses::LastUses(std::string path, Retention retention, std::function<absl::Time()> now,
                   InUse in_use)
    : path_(std::move(path)),
      retention_(std::move(retention)),
      now_(std::move(now)),
      in_use_(std::move(in_use)) {
  Load();
}

void LastUses::Load() {
  if (path_.empty()) return;
  const auto bytes = ReadWhole(path_);
  if (!bytes.ok()) return;
  absl::string_view rest = *bytes;
  const size_t end = rest.rfind(kUsesEnd);
  if (end == absl::string_view::npos || rest.substr(end) != EndOf(rest.substr(0, end)) ||
      !absl::ConsumePrefix(&rest, kUsesTitle)) {
    return;
  }
  rest = rest.substr(0, end - kUsesTitle.size());
  const absl::Time now = now_();
  absl::MutexLock lock(&mutex_);
  for (const absl::string_view line : absl::StrSplit(rest, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t seconds = 0;
    if (absl::SimpleAtoi(words.first, &seconds)) {
      const absl::Duration ago = absl::Seconds(seconds) - retention_.Period();
      uses_[std::string(words.second)] = {now - std::max(ago, absl::ZeroDuration())};
    }
  }
}

std::string LastUses::Encode(absl::Time now) const {
  std::string text(kUsesTitle);
  for (const auto& [name, use] : uses_) {
    absl::StrAppend(&text, std::max<int64_t>(0, absl::ToInt64Seconds(now - use.used)), " ", name,
                    "\n");
  }
  return text + EndOf(text);
}

absl::Status LastUses::Save() {
  if (path_.empty()) return absl::OkStatus();
  absl::MutexLock saving(&saving_);
  std::string text;
  std::vector<std::pair<std::string, absl::Time>> written;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = now_();
    CountUses(now);
    text = Encode(now);
    for (const auto& [name, use] : uses_) written.emplace_back(name, use.used);
  }
  const size_t slash = path_.rfind('/');
  PH_RETURN_IF_ERROR(WriteWhole(path_.substr(0, slash), path_.substr(slash + 1), text));
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, used] : written) {
    if (const auto found = uses_.find(name); found != uses_.end()) found->second.in_file = used;
  }
  return absl::OkStatus();
}

void LastUses::AwaitRemoval(absl::string_view name) {
  const auto is_free = [this, name]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return removing_ != name; };
  mutex_.Await(absl::Condition(&is_free));
}

void LastUses::Use(absl::string_view name) {
  const absl::Time now = now_();
  {
    absl::MutexLock lock(&mutex_);
    AwaitRemoval(name);
    const auto found = uses_.find(name);
    if (found == uses_.end()) return;
    found->second.used = now;
    if (now - found->second.in_file < retention_.Period()) return;
  }
  // Whoever sweeps tries again, and says so.
  Save().IgnoreError();
}

void LastUses::Know(const std::string& name) {
  const absl::Time now = now_();
  absl::MutexLock lock(&mutex_);
  AwaitRemoval(name);
  uses_.try_emplace(name, LastUse{now});
}

void LastUses::Add(const std::string& name) {
  const absl::Time now = now_();
  absl::MutexLock lock(&mutex_);
  AwaitRemoval(name);
  uses_[name] = {now};
}

void LastUses::Forget(absl::string_view name) {
  absl::MutexLock lock(&mutex_);
  AwaitRemoval(name);
  const auto used = uses_.find(name);
  if (used != uses_.end()) uses_.erase(used);
}

void LastUses::CountUses(absl::Time now) {
  in_use_([&](const std::string& name) {
    mutex_.AssertHeld();
    // Not if it was deleted, and another has its name.
    if (const auto used = uses_.find(name); used != uses_.end()) used->second.used = now;
  });
}

absl::StatusOr<std::optional<absl::Duration>> LastUses::RemoveIfUnused(
    const std::string& name, absl::FunctionRef<absl::Status()> remove) {
  const absl::Duration most = retention_.Of(name);
  if (most == absl::InfiniteDuration()) return std::nullopt;
  const absl::Time now = now_();
  absl::Duration unused;
  {
    absl::MutexLock lock(&mutex_);
    const auto is_free = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !removing_; };
    mutex_.Await(absl::Condition(&is_free));
    CountUses(now);
    unused = now - uses_.try_emplace(name, LastUse{now}).first->second.used;
    if (unused < most) return std::nullopt;
    // Who uses it waits from here until it is removed, or else was seen here.
    removing_ = name;
  }
  const absl::Cleanup let_go = [this] {
    absl::MutexLock lock(&mutex_);
    removing_.reset();
  };
  const absl::Status removed = remove();
  if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  {
    absl::MutexLock lock(&mutex_);
    uses_.erase(name);
  }
  if (!removed.ok()) return std::nullopt;
  num_expired_.fetch_add(1, std::memory_order_relaxed);
  return unused;
}

}  // namespace packhouse
