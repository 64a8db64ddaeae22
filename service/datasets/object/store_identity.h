// Which key-value store and which object store belong together.
#ifndef PACKHOUSE_SERVICE_DATASETS_OBJECT_STORE_IDENTITY_H_
#define PACKHOUSE_SERVICE_DATASETS_OBJECT_STORE_IDENTITY_H_

#include "absl/status/status.h"
#include "service/datasets/object/object_engines.h"

namespace packhouse {

// Both have the same random number, under a key and in an object. To a server that was given
// another key-value store, perhaps an empty one, all objects of the object store would be orphans
// and all data sets of the key-value store lost.

// Binds two stores of which neither has a number; of several servers that do so at once, all bind
// to the same, and of several key-value stores at most one is bound to an object store. Checks them
// otherwise. To be called before a server uses them. FAILED_PRECONDITION saying which of the two is
// another one; UNAVAILABLE if one of them does not answer, or naming the object if a server with
// another key-value store has begun to bind the object store, and has not ended.
absl::Status BindStores(const ObjectEngines& engines);

// FAILED_PRECONDITION unless the two are bound to each other. UNAVAILABLE.
absl::Status CheckStoresAreBound(const ObjectEngines& engines);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_OBJECT_STORE_IDENTITY_H_
