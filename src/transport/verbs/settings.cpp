// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/settings.hpp"

#include <charconv>

#include "core/variables.hpp"

namespace ccoll::verbs {
namespace {

/// Leaves `value` alone where the variable is not set.
template <typename T>
Status read(const char* name, int least, int most, T& value) {
  const auto text = read_variable(name);
  if (!text) return {};
  int number = 0;
  const auto* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || rest != end || number < least || number > most)
    return fail(ErrorKind::invalid_argument, "{}={} is not a whole number from {} to {}", name,
                *text, least, most);
  value = static_cast<T>(number);
  return {};
}

}  // namespace

Result<Settings> Settings::from_environment() {
  Settings settings;
  auto ports = PortFilter::parse(read_variable("CCOLL_IB_HCA").value_or(""));
  if (!ports) return tl::unexpected(ports.error());
  settings.ports = std::move(*ports);
  int gid_index = -1;
  CCOLL_TRY(read("CCOLL_IB_GID_INDEX", -1, 1023, gid_index));
  if (gid_index >= 0) settings.gid_index = gid_index;
  CCOLL_TRY(read("CCOLL_IB_TC", 0, 255, settings.traffic_class));
  CCOLL_TRY(read("CCOLL_IB_SL", 0, 15, settings.service_level));
  CCOLL_TRY(read("CCOLL_IB_TIMEOUT", 1, 31, settings.timeout));
  // 7 is for ever on some devices, which then never report a broken path.
  CCOLL_TRY(read("CCOLL_IB_RETRY_CNT", 0, 7, settings.retries));
  return settings;
}

}  // namespace ccoll::verbs
