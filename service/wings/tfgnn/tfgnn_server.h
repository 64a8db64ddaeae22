// What a server has of TF-GNN: examples, in and out.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_SERVER_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_SERVER_H_

#include "service/server/services/server_wing.h"

namespace packhouse::rpc {

// For ServerOptions::wings.
MakeServerWing ServeTfgnn();

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_SERVER_H_
