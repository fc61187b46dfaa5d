// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Processes that this one starts inherit none of its sockets. A child that kept them would keep
/// connections open whose rank has ended, and ports in use that a restarted job needs.

namespace ccoll::net {

/// For every socket, once it is made: a program that this process executes does not have it, and in
/// a forked child its number is that of a socket without a connection.
void keep_from_children(int socket);

}  // namespace ccoll::net
