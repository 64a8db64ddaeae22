// Damage that a check has found in what is stored.
#ifndef PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_
#define PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_

#include <string>

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

using DamageVisitor = absl::FunctionRef<void(StoredDamage)>;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_STORED_DAMAGE_H_
