// systemd, or what else has started the process and waits to hear from it (sd_notify(3)).
#ifndef PACKHOUSE_SERVICE_PROGRAM_SERVICE_MANAGER_H_
#define PACKHOUSE_SERVICE_PROGRAM_SERVICE_MANAGER_H_

#include <string>

namespace packhouse {

// Sends `state`, such as "READY=1", to the socket that $NOTIFY_SOCKET names; does nothing without
// one. Whoever does not listen is not waited for.
void TellServiceManager(const std::string& state);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SERVICE_MANAGER_H_
