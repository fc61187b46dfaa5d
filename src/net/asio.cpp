// SPDX-License-Identifier: Apache-2.0
// Asio's implementation, compiled once.
#include <asio/impl/src.hpp>
