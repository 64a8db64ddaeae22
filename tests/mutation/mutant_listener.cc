// Tells mutant_switch.cc which test of a program of GoogleTest runs. It is linked into programs as
// it is.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace packhouse_mutant {
namespace {

class Listener : public testing::EmptyTestEventListener {
 public:
  Listener(std::string path, int* test) : path_(std::move(path)), test_(test) {}

  void OnTestStart(const testing::TestInfo& info) override {
    ++last_;
    std::ofstream(path_, std::ios::app)
        << "test " << last_ << " " << info.test_suite_name() << "." << info.name() << "\n";
    __atomic_store_n(test_, last_, __ATOMIC_RELAXED);
  }
  void OnTestEnd(const testing::TestInfo& info) override {
    __atomic_store_n(test_, 0, __ATOMIC_RELAXED);
    std::ofstream(path_, std::ios::app)
        << "took " << last_ << " " << info.result()->elapsed_time() << "\n";
  }

 private:
  const std::string path_;
  int* const test_;
  int last_ = 0;
};

bool Listen() {
  const char* const path = std::getenv("PACKHOUSE_MUTANT_REACHED");
  if (path == nullptr) return false;
  const int file = open((std::string(path) + ".test").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  void* const mapped = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return false;
  testing::UnitTest::GetInstance()->listeners().Append(
      new Listener(path, static_cast<int*>(mapped)));
  return true;
}

const bool is_listening = Listen();

}  // namespace
}  // namespace packhouse_mutant
