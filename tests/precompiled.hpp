// SPDX-License-Identifier: Apache-2.0

/// The counterpart of src/precompiled.hpp for tests.

#include "../src/precompiled.hpp"

#include <catch2/catch.hpp>
