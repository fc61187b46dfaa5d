// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Processes that this one starts inherit none of its sockets. A child with such sockets would keep
/// connections of ended ranks open, and ports in use that a restarted job needs.

namespace ccoll::net {

/// Call it for every new socket. A program that this process executes does not have it. In a forked
/// child its number belongs to a socket without a connection.
void keep_from_children(int socket);

}  // namespace ccoll::net
