// The golden files of partitions, from outside the repository.
#ifndef PACKHOUSE_TESTS_PARTITION_FILES_PARTITION_DATA_H_
#define PACKHOUSE_TESTS_PARTITION_FILES_PARTITION_DATA_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/shared_data.h"

namespace packhouse {

inline std::string PartitionData(const std::string& name) {
  return SharedData() + "/partition/" + name;
}

inline bool HasPartitionData() { return std::filesystem::exists(PartitionData("native")); }

inline std::string PartitionFile(const std::string& name) {
  std::ifstream file(PartitionData(name), std::ios::binary);
  EXPECT_TRUE(file) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace packhouse

#define PH_SKIP_WITHOUT_PARTITION_DATA() \
  if (!HasPartitionData()) GTEST_SKIP() << "no " << PartitionData("native")

#endif  // PACKHOUSE_TESTS_PARTITION_FILES_PARTITION_DATA_H_
