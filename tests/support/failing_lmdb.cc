#include "tests/support/failing_lmdb.h"

#include <dlfcn.h>
#include <lmdb.h>

#include <atomic>
#include <cerrno>

namespace packhouse {
namespace {

std::atomic<FailingLmdb*> current = nullptr;

// The function that this program's takes the place of.
template <typename Function>
Function* Real(const char* name, Function* /*replacement*/) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

FailingLmdb::FailingLmdb() { current = this; }
FailingLmdb::~FailingLmdb() { current = nullptr; }

int FailingLmdb::ErrorOf(const char* function) {
  FailingLmdb* const failing = current;
  // No disk is full, and no memory short.
  return failing != nullptr && failing->Fails(function) ? ENOTBLK : 0;
}

}  // namespace packhouse

#define PH_REPLACE(name, parameters, arguments)               \
  int name parameters {                                       \
    static auto* const real = packhouse::Real(#name, &name);  \
    const int error = packhouse::FailingLmdb::ErrorOf(#name); \
    return error != 0 ? error : real arguments;               \
  }

extern "C" {

PH_REPLACE(mdb_env_create, (MDB_env * *env), (env))
PH_REPLACE(mdb_env_open, (MDB_env * env, const char* path, unsigned flags, mdb_mode_t mode),
           (env, path, flags, mode))
PH_REPLACE(mdb_env_copyfd2, (MDB_env * env, mdb_filehandle_t fd, unsigned flags), (env, fd, flags))
PH_REPLACE(mdb_txn_begin, (MDB_env * env, MDB_txn* parent, unsigned flags, MDB_txn** txn),
           (env, parent, flags, txn))
PH_REPLACE(mdb_dbi_open, (MDB_txn * txn, const char* name, unsigned flags, MDB_dbi* dbi),
           (txn, name, flags, dbi))
PH_REPLACE(mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val* key, MDB_val* data),
           (txn, dbi, key, data))
PH_REPLACE(mdb_put, (MDB_txn * txn, MDB_dbi dbi, MDB_val* key, MDB_val* data, unsigned flags),
           (txn, dbi, key, data, flags))
PH_REPLACE(mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val* key, MDB_val* data),
           (txn, dbi, key, data))
PH_REPLACE(mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor** cursor), (txn, dbi, cursor))
PH_REPLACE(mdb_cursor_get, (MDB_cursor * cursor, MDB_val* key, MDB_val* data, MDB_cursor_op op),
           (cursor, key, data, op))

int mdb_txn_commit(MDB_txn* txn) {
  static auto* const real = packhouse::Real("mdb_txn_commit", &mdb_txn_commit);
  const int error = packhouse::FailingLmdb::ErrorOf("mdb_txn_commit");
  if (error == 0) return real(txn);
  // Either way the transaction is gone.
  mdb_txn_abort(txn);
  return error;
}

}  // extern "C"
