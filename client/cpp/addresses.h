// The addresses of servers, as users write them.
#ifndef PACKHOUSE_CLIENT_CPP_ADDRESSES_H_
#define PACKHOUSE_CLIENT_CPP_ADDRESSES_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace packhouse::client {

// Those that "HOST:PORT", or several of these with commas between them, stands for; at least one.
// An address with one of gRPC's schemes ("dns:...", "ipv4:A,B", "unix:...") is one, with all its
// commas.
std::vector<std::string> AddressesOf(const std::string& addresses);

// Whether an address in gRPC's form is of this machine: a socket in a folder, a loopback address,
// or one that this machine has. Of names only `localhost` and the machine's own are known.
bool IsOwnAddress(const std::string& address);

// The variable of the environment by which gRPC may go to that address by an HTTP proxy; else
// empty.
std::string ProxyVariable(const std::string& address);

// What a plain connection to HOST:PORT or unix:PATH meets, to be put behind `no server at X`: that
// it is refused, that the name is not resolved, and so on. Each of a name's addresses is waited for
// at most `patience`. Empty for gRPC's other names.
std::string WhyUnreachable(const std::string& address, absl::Duration patience);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_ADDRESSES_H_
