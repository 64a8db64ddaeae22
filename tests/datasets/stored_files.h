// What is below an embedded store: its file, to be looked at and damaged.
#ifndef PACKHOUSE_TESTS_DATASETS_STORED_FILES_H_
#define PACKHOUSE_TESTS_DATASETS_STORED_FILES_H_

#include <lmdb.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace packhouse {

inline constexpr size_t kPage = 4096;

inline std::string DataFile(const std::string& folder) { return folder + "/data.mdb"; }

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

inline void WriteFile(const std::string& path, absl::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

// Puts a value into a store as another version of packhouse would have.
inline void PutRaw(const std::string& folder, const std::string& key, const std::string& value) {
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, folder.c_str(), 0, 0640), 0);
  MDB_txn* txn = nullptr;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  MDB_val key_val = {key.size(), const_cast<char*>(key.data())};
  MDB_val value_val = {value.size(), const_cast<char*>(value.data())};
  ASSERT_EQ(mdb_put(txn, dbi, &key_val, &value_val, 0), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

inline void EraseKey(const std::string& folder, const std::string& key) {
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, folder.c_str(), 0, 0640), 0);
  MDB_txn* txn = nullptr;
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  MDB_val key_val = {key.size(), const_cast<char*>(key.data())};
  ASSERT_EQ(mdb_del(txn, dbi, &key_val, nullptr), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

// Numbers of the meta pages and of what may be pages of LMDB's trees.
inline std::vector<size_t> TreePages(const std::string& file) {
  std::vector<size_t> pages = {0, 1};
  for (size_t page = 2; page < file.size() / kPage; ++page) {
    // Every page of a tree says which one it is; a large value's first page does too, but not so
    // that it is a tree's.
    uint64_t number;
    std::memcpy(&number, file.data() + page * kPage, sizeof(number));
    const char flags = file[page * kPage + 10];
    if (number == page && (flags & 0x0f & ~0x03) == 0) pages.push_back(page);
  }
  return pages;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATASETS_STORED_FILES_H_
