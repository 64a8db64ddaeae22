// The flags that name what servers share: of a server, and of the commands that need none.
#ifndef PACKHOUSE_SERVICE_PROGRAM_WINGS_ADDRESS_FLAGS_H_
#define PACKHOUSE_SERVICE_PROGRAM_WINGS_ADDRESS_FLAGS_H_

#include "CLI/App.hpp"
#include "service/wings/cluster/shared/shared_datasets.h"
#include "service/wings/cluster/shared/store_uri.h"

namespace packhouse {

// All must outlive the parsing.

// Of etcd, but for its address; and PACKHOUSE_ETCD_USER.
void AddLedgerFlags(std::string& roots_file, std::string& certificate_file, std::string& key_file,
                    std::string& user, CLI::App& app);
// Of S3, but for its address, and of the cache's size.
void AddS3Flags(SharedDatasetsOptions& shared, CLI::App& app);
// All of a command's, but for the store's address.
void AddAddressFlags(StoreAddress& address, CLI::App& command);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_WINGS_ADDRESS_FLAGS_H_
