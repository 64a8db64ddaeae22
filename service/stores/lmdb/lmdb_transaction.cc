#include "service/stores/lmdb/lmdb_transaction.h"

#include <lmdb.h>

#include <cerrno>
#include <utility>

#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"

namespace packhouse {
namespace {

MDB_val ToVal(absl::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
absl::string_view FromVal(const MDB_val& value) {
  return absl::string_view(static_cast<const char*>(value.mv_data), value.mv_size);
}

}  // namespace

absl::StatusOr<LmdbTransaction> LmdbTransaction::Begin(const LmdbEnvironment& environment,
                                                       Kind kind) {
  MDB_txn* txn = nullptr;
  const unsigned flags = kind == Kind::kRead ? MDB_RDONLY : 0;
  PH_RETURN_IF_ERROR(environment.CheckFiles());
  const int code =
      environment.Run([&] { return mdb_txn_begin(environment.env_, nullptr, flags, &txn); });
  if (code != 0) {
    const bool writes = kind == Kind::kWrite;
    // LMDB returns "permission denied" for a write to an environment that was opened for reading.
    return environment.StatusOf(writes && environment.is_read_only() ? EROFS : code,
                                writes ? "cannot write" : "cannot read");
  }
  return LmdbTransaction(&environment, txn);
}

LmdbTransaction::LmdbTransaction(LmdbTransaction&& other) noexcept
    : environment_(other.environment_),
      txn_(std::exchange(other.txn_, nullptr)),
      num_writes_(other.num_writes_) {}

LmdbTransaction::~LmdbTransaction() {
  if (txn_ == nullptr) return;
  const auto abort = [this] {
    mdb_txn_abort(txn_);
    return 0;
  };
  if (environment_->Run(abort) != 0) LmdbEnvironment::LeaveBehind(txn_);
}

absl::StatusOr<std::optional<absl::string_view>> LmdbTransaction::GetRaw(
    absl::string_view key) const {
  MDB_val key_val = ToVal(key);
  MDB_val value;
  const int code =
      environment_->Run([&] { return mdb_get(txn_, environment_->database_, &key_val, &value); });
  if (code == MDB_NOTFOUND) return std::nullopt;
  if (code != 0) return environment_->StatusOf(code, "cannot read");
  return FromVal(value);
}

absl::StatusOr<std::optional<absl::string_view>> LmdbTransaction::Get(absl::string_view key) const {
  PH_ASSIGN_OR_RETURN(const auto raw, GetRaw(key));
  if (!raw) return std::nullopt;
  const auto payload = CheckedPayload(key, *raw);
  if (payload.ok()) return *payload;
  PH_RETURN_IF_ERROR(environment_->failure());
  return payload.status();
}

absl::Status LmdbTransaction::Put(absl::string_view key, std::string payload) {
  ++num_writes_;
  const std::string checked = WithChecksum(key, std::move(payload));
  MDB_val key_val = ToVal(key);
  MDB_val value = ToVal(checked);
  const int code = environment_->Run(
      [&] { return mdb_put(txn_, environment_->database_, &key_val, &value, 0); });
  return environment_->StatusOf(code, "cannot write");
}

absl::StatusOr<char*> LmdbTransaction::PutRaw(absl::string_view key, size_t bytes) {
  ++num_writes_;
  MDB_val key_val = ToVal(key);
  MDB_val value = {bytes, nullptr};
  const int code = environment_->Run([&] {
    return mdb_put(txn_, environment_->database_, &key_val, &value, MDB_RESERVE | MDB_NOOVERWRITE);
  });
  if (code != 0) return environment_->StatusOf(code, "cannot write");
  return static_cast<char*>(value.mv_data);
}

absl::Status LmdbTransaction::Erase(absl::string_view key) {
  ++num_writes_;
  MDB_val key_val = ToVal(key);
  const int code =
      environment_->Run([&] { return mdb_del(txn_, environment_->database_, &key_val, nullptr); });
  return code == MDB_NOTFOUND ? absl::OkStatus() : environment_->StatusOf(code, "cannot erase");
}

absl::Status LmdbTransaction::Commit() {
  const DataFileWatch& file = environment_->file_;
  PH_RETURN_IF_ERROR(file.BeforeCommit());
  MDB_txn* const txn = std::exchange(txn_, nullptr);
  const int code = environment_->Run([&] { return mdb_txn_commit(txn); });
  return file.AfterCommit(environment_->StatusOf(code, "cannot commit"));
}

absl::StatusOr<LmdbCursor> LmdbCursor::At(const LmdbTransaction& transaction,
                                          absl::string_view key) {
  MDB_cursor* cursor = nullptr;
  const LmdbEnvironment* const environment = transaction.environment_;
  const int code = environment->Run(
      [&] { return mdb_cursor_open(transaction.txn_, environment->database_, &cursor); });
  if (code != 0) return environment->StatusOf(code, "cannot read");
  LmdbCursor result(environment, cursor);
  PH_RETURN_IF_ERROR(result.Move(key, MDB_SET_RANGE));
  return result;
}

LmdbCursor::LmdbCursor(LmdbCursor&& other) noexcept
    : environment_(other.environment_),
      cursor_(std::exchange(other.cursor_, nullptr)),
      valid_(other.valid_),
      key_(other.key_),
      value_(other.value_) {}

LmdbCursor::~LmdbCursor() {
  if (cursor_ == nullptr) return;
  const auto close = [this] {
    mdb_cursor_close(cursor_);
    return 0;
  };
  if (environment_->Run(close) != 0) LmdbEnvironment::LeaveBehind(cursor_);
}

absl::Status LmdbCursor::Next() { return Move("", MDB_NEXT); }

absl::Status LmdbCursor::Move(absl::string_view key, int operation) {
  MDB_val key_val = ToVal(key);
  MDB_val value;
  const int code = environment_->Run([&] {
    return mdb_cursor_get(cursor_, &key_val, &value, static_cast<MDB_cursor_op>(operation));
  });
  valid_ = code == 0;
  if (code == MDB_NOTFOUND) return absl::OkStatus();
  if (code != 0) return environment_->StatusOf(code, "cannot read");
  key_ = FromVal(key_val);
  value_ = FromVal(value);
  return absl::OkStatus();
}

}  // namespace packhouse
