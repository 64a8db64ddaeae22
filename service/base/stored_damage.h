// Damage that a check has found in what is stored, and what a repair has done about it.
#ifndef PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_
#define PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace packhouse {

struct StoredDamage {
  std::string file;
  // Where in the file, in the words of its store; empty: all of it.
  std::string place;
  std::string what;
  // What is lost with it.
  std::string cost;
};

struct RepairOptions {
  // What must be there, and is missing or cannot be read, is given up.
  bool accept_missing = false;
};

struct RepairReport {
  // What was done about each damage, and what was given up, in words.
  std::vector<std::string> done;
  // In ascending order.
  std::vector<std::string> lost_jobs;
  // Whether anything was written.
  bool is_changed = false;
};

using DamageVisitor = absl::FunctionRef<void(StoredDamage)>;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_
