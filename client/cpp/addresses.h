// The addresses of servers, as users write them.
#ifndef PACKHOUSE_CLIENT_CPP_ADDRESSES_H_
#define PACKHOUSE_CLIENT_CPP_ADDRESSES_H_

#include <string>
#include <vector>

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

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_ADDRESSES_H_
