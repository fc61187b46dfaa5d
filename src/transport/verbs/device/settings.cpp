// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/settings.hpp"

#include "system/variables.hpp"

namespace ccoll::verbs {
namespace {

/// Leaves `value` unchanged if the variable is not set.
template <typename T>
Status read(const char* name, T& value) {
  const auto number = read_number(name);
  if (!number) return tl::unexpected(number.error());
  if (*number) value = static_cast<T>(**number);
  return {};
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  auto ports = PortFilter::parse(read_variable("CCOLL_IB_HCA").value_or(""));
  if (!ports) return tl::unexpected(ports.error());
  settings.ports = std::move(*ports);
  int gid_index = -1;
  CCOLL_TRY(read("CCOLL_IB_GID_INDEX", gid_index));
  if (gid_index >= 0) settings.gid_index = gid_index;
  CCOLL_TRY(read("CCOLL_IB_TC", settings.traffic_class));
  CCOLL_TRY(read("CCOLL_IB_SL", settings.service_level));
  CCOLL_TRY(read("CCOLL_IB_TIMEOUT", settings.timeout));
  // At 7, some devices retry forever and never report a broken path.
  CCOLL_TRY(read("CCOLL_IB_RETRY_CNT", settings.retries));
  return settings;
}

}  // namespace ccoll::verbs
