// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The variables of the environment that ccoll reads: the one table of them, and the one place that
/// asks the system for their values. docs/environment.md is this table for people.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ccoll {

struct Variable {
  std::string_view name;
  std::string_view otherwise;  ///< what holds where it is not set
  std::string_view meaning;
};

/// Those of one source: ccoll's own, or another program's that ccoll reads.
struct VariableGroup {
  std::string_view title;
  std::span<const Variable> variables;
};

std::span<const VariableGroup> variable_groups();
bool is_known_variable(std::string_view name);

/// The value of `name`, which is in the table; nullopt where it is not set or empty.
std::optional<std::string> read_variable(const std::string& name);

/// What is to be said of names of a whole environment that begin with CCOLL_ and are not in the
/// table, each with the variable that may have been meant.
std::vector<std::string> unknown_variables(std::span<const std::string> names);

/// Logs that of this process's environment as warnings, once however often it is called.
void warn_of_unknown_variables();

}  // namespace ccoll
