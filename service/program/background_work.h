// What the server does now and then for itself, each on a thread of its own until the process ends.
#ifndef PACKHOUSE_SERVICE_PROGRAM_BACKGROUND_WORK_H_
#define PACKHOUSE_SERVICE_PROGRAM_BACKGROUND_WORK_H_

#include "service/base/event_log.h"
#include "service/base/limited_log.h"
#include "service/program/membership.h"
#include "service/program/options.h"
#include "service/program/served_stores.h"
#include "service/server/listen/server.h"

namespace packhouse {

// Deletes what nobody uses any more, as the options say. Sweeps objects in S3 that no data set has.
// Saves named histograms that have changed. Tells those who watch the server's health. The
// references must be valid until the process ends. `membership` is null if the server is alone.
void StartBackgroundWork(const Options& options, rpc::Server& server, const ServedStores& stores,
                         Membership* membership, EventLog& log, LimitedLog& limited_log);

// Writes named histograms. If memory or the disk refuse, the result is false, and the log says so:
// the next time may be better.
bool SaveHistograms(rpc::Server& server, LimitedLog& log);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_BACKGROUND_WORK_H_
