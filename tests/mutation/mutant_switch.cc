#include "mutant_switch.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace packhouse_mutant {
namespace {

// The number of the test that runs, or 0: in memory that a test shares with the processes it
// starts.
const int* SharedTest(const char* reached) {
  static const int kNone = 0;
  char path[512];
  if (std::snprintf(path, sizeof(path), "%s.test", reached) >= static_cast<int>(sizeof(path))) {
    return &kNone;
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &kNone;
  void* const mapped = mmap(nullptr, sizeof(int), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? &kNone : static_cast<const int*>(mapped);
}

struct Variables {
  int active = 0;
  const char* reached = nullptr;
  const int* test = nullptr;
  bool notes_once = false;
};

const Variables& Read() {
  static const Variables variables = [] {
    Variables read;
    if (const char* const text = std::getenv("PACKHOUSE_MUTANT")) read.active = std::atoi(text);
    read.reached = std::getenv("PACKHOUSE_MUTANT_REACHED");
    if (read.reached != nullptr) read.test = SharedTest(read.reached);
    read.notes_once = std::getenv("PACKHOUSE_MUTANT_ONCE") != nullptr;
    return read;
  }();
  return variables;
}

// By system calls alone, since it may be asked where memory has run out.
void Note(const char* path, int test, int number) {
  char line[64];
  const int size = std::snprintf(line, sizeof(line), "reached %d %d\n", test, number);
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  static_cast<void>(!write(file, line, static_cast<size_t>(size)));
  close(file);
}

int last_tests[kMostMutants];  // One more than the test in which it was reached last.

}  // namespace

unsigned char states[kMostMutants];

bool Ask(int number) {
  const Variables& variables = Read();
  const bool is_on = number == variables.active;
  if (variables.reached == nullptr) {
    __atomic_store_n(&states[number], is_on ? kOn : kOff, __ATOMIC_RELAXED);
    return is_on;
  }
  const int test = __atomic_load_n(variables.test, __ATOMIC_RELAXED);
  if (__atomic_exchange_n(&last_tests[number], test + 1, __ATOMIC_RELAXED) != test + 1) {
    const int error = errno;
    Note(variables.reached, test, number);
    errno = error;
  }
  if (variables.notes_once) __atomic_store_n(&states[number], kOff, __ATOMIC_RELAXED);
  return is_on;
}

}  // namespace packhouse_mutant
