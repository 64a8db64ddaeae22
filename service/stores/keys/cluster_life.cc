#include "service/stores/keys/cluster_life.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kMaxLifeBytes = 64;
// In 2001: smaller ones are no seconds since 1970.
constexpr uint64_t kEarliest = 1'000'000'000;

// "SECONDS", or more behind other characters than digits. Nullopt if it is no such text.
std::optional<uint64_t> BeganFrom(absl::string_view life) {
  if (life.size() > kMaxLifeBytes) return std::nullopt;
  size_t digits = 0;
  while (digits < life.size() && absl::ascii_isdigit(static_cast<unsigned char>(life[digits]))) {
    ++digits;
  }
  uint64_t seconds = 0;
  if (!absl::SimpleAtoi(life.substr(0, digits), &seconds) || seconds < kEarliest ||
      seconds > std::numeric_limits<uint32_t>::max()) {
    return std::nullopt;
  }
  return seconds;
}

std::string Named(absl::string_view life) {
  return life.empty() ? "the first" : absl::StrCat("'", absl::CHexEscape(life), "'");
}

}  // namespace

absl::StatusOr<std::unique_ptr<LivingStore>> LivingStore::Join(
    std::unique_ptr<KeyValueStore> store) {
  PH_ASSIGN_OR_RETURN(const std::optional<KeyValue> found, store->Get(kClusterLifeKey));
  std::string life;
  uint64_t began = 0;
  if (found) {
    const std::optional<uint64_t> seconds = BeganFrom(found->value);
    if (!seconds) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the key '", kClusterLifeKey, "', the life of the cluster, is ", Named(found->value),
          ": it must begin with the seconds since 1970, as `date +%s` says them, and have at most ",
          kMaxLifeBytes, " bytes"));
    }
    life = found->value;
    began = *seconds;
  }
  return std::unique_ptr<LivingStore>(new LivingStore(std::move(store), std::move(life), began));
}

absl::Status LivingStore::life() const {
  absl::MutexLock lock(&mutex_);
  return is_over_;
}

absl::Status LivingStore::room() const {
  absl::MutexLock lock(&mutex_);
  return room_;
}

absl::StatusOr<TransactionResult> LivingStore::Commit(const Transaction& transaction) {
  PH_RETURN_IF_ERROR(life());
  Transaction guarded = transaction;
  guarded.compares.push_back(life_.empty() ? Compare::Absent(kClusterLifeKey)
                                           : Compare::Value(kClusterLifeKey, life_));
  // Last: so the reads before it are the caller's.
  guarded.otherwise.push_back(Operation::Read(KeyRange::Of(kClusterLifeKey)));
  absl::StatusOr<TransactionResult> done = store_->Commit(guarded);
  const auto puts = [](const Operation& step) { return step.kind == Operation::Kind::kPut; };
  if (absl::IsResourceExhausted(done.status()) ||
      (done.ok() && done->succeeded && absl::c_any_of(transaction.then, puts))) {
    absl::MutexLock lock(&mutex_);
    room_ = done.status();
  }
  PH_RETURN_IF_ERROR(done.status());
  TransactionResult result = *std::move(done);
  if (result.succeeded) return result;
  if (result.reads.empty()) return absl::InternalError("the store has left out a read");
  const RangeResult now = std::move(result.reads.back());
  result.reads.pop_back();
  const std::string life_now = now.values.empty() ? "" : now.values[0].value;
  if (life_now == life_) return result;
  absl::MutexLock lock(&mutex_);
  is_over_ = absl::UnavailableError(
      absl::StrCat("the cluster was restored from a backup: its life is ", Named(life_now),
                   ", and this server is of ", Named(life_), ", so it ends; start it again"));
  return is_over_;
}

}  // namespace packhouse
