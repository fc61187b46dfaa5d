// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One rank's walk over all rows that the options ask for.

#include <string>

#include "ccoll/communicator.hpp"
#include "options.hpp"
#include "row.hpp"

namespace ccoll::bench {

/// Who is told of rows, on rank 0, as they are measured.
class RowSink {
 public:
  virtual ~RowSink() = default;
  /// Before an operation's rows.
  virtual void begin_operation(const Operation& operation, const std::string& note) = 0;
  /// What is measured at the moment.
  virtual void progress(const std::string& what) = 0;
  virtual void add(Row row) = 0;
};

/// Collective. `sink` is null except on rank 0. Returns false where any rank found a wrong
/// element; the same on all ranks. Throws ccoll::Error where a call fails.
bool measure_rows(Communicator& communicator, const Options& options, RowSink* sink);

}  // namespace ccoll::bench
