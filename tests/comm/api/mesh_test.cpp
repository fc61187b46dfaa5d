// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "support/ranks.hpp"

using namespace ccoll;
using testing::expect;
using testing::message_of;
using testing::run_ranks;

TEST_CASE("mesh: ranks stand row by row, and an axis joins those that differ in it alone",
          "[comm]") {
  const auto errors = run_ranks(12, {}, [](Communicator& communicator) {
    Mesh mesh(communicator, {{"data", 2}, {"model", 3}, {"pipe", 2}});
    const int rank = communicator.rank();
    const std::vector<int> here = {rank / 6, rank / 2 % 3, rank % 2};
    expect(mesh.coordinates() == here, "coordinates");
    for (int other = 0; other < 12; other++)
      expect(mesh.rank_at(mesh.coordinates_of(other)) == other, "there and back");
    expect(mesh.rank_at({1, 2, 0}) == 10, "row-major");
    for (std::size_t i = 0; i < mesh.axes().size(); i++) {
      const auto& [name, size] = mesh.axes()[i];
      auto& line = mesh.axis(name);
      expect(line.size() == size && mesh.size(name) == size, "a line's size");
      expect(line.rank() == here[i] && mesh.coordinate(name) == here[i],
             "a rank's place in a line");
      for (int at = 0; at < size; at++) {
        auto there = here;
        there[i] = at;
        expect(line.job_rank(at) == mesh.rank_at(there), "who is in a line");
      }
      std::int64_t sum = rank;
      line.all_reduce(std::span(&sum, 1));
      std::int64_t wanted = 0;
      for (int at = 0; at < size; at++) wanted += line.job_rank(at);
      expect(sum == wanted, "a sum along " + name);
    }
    expect(mesh.axis("model").name() == fmt::format("world/model@data{}@pipe{}", here[0], here[2]),
           mesh.axis("model").name());
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("mesh: what does not fit is refused with sizes and names", "[comm]") {
  const auto errors = run_ranks(4, {}, [](Communicator& communicator) {
    const auto refuse = [&](std::vector<Mesh::Axis> axes, const std::string& wanted) {
      const auto got = message_of([&] { Mesh(communicator, std::move(axes)); });
      expect(got == "invalid_argument: mesh: " + wanted, got);
    };
    refuse({{"data", 2}, {"model", 3}}, "data 2 × model 3 is 6 ranks, the communicator has 4");
    refuse(
        {{"data", 1 << 30}, {"model", 1 << 30}, {"pipe", 1 << 30}},
        "data 1073741824 × model 1073741824 × pipe 1073741824 is too many ranks, the communicator "
        "has 4");
    refuse({}, "it has no axis; give at least one");
    refuse({{"data", 0}}, "axis data has size 0; sizes are at least 1");
    refuse({{"", 4}}, "axis 0 has no name");
    refuse({{"data", 2}, {"data", 2}}, "two axes are called data");
    Mesh mesh(communicator, {{"data", 2}, {"model", 2}});
    const auto axis = message_of([&] { mesh.axis("pipe"); });
    expect(axis == "invalid_argument: mesh: no axis is called 'pipe'; it is data 2 × model 2",
           axis);
    const auto far = message_of([&] { (void)mesh.rank_at({0, 2}); });
    expect(far == "invalid_argument: mesh: model 2 is out of range; it is data 2 × model 2", far);
    const auto few = message_of([&] { (void)mesh.rank_at({0}); });
    expect(few == "invalid_argument: mesh: 1 coordinates were given; it is data 2 × model 2", few);
    const auto none = message_of([&] { (void)mesh.coordinates_of(4); });
    expect(none == "invalid_argument: mesh: it has no rank 4; it is data 2 × model 2", none);
  });
  for (const auto& error : errors) CHECK(error == "");
}

TEST_CASE("mesh: ranks that lay it out differently learn both, and go on", "[comm]") {
  const auto errors = run_ranks(4, {}, [](Communicator& communicator) {
    std::vector<Mesh::Axis> axes = {{"data", 2}, {"model", 2}};
    if (communicator.rank() == 2) axes = {{"data", 4}};
    const auto got = message_of([&] { Mesh(communicator, axes); });
    expect(
        got == "mismatch: ranks give different arguments: rank 0 data 2 × model 2, rank 2 data 4",
        got);
    communicator.barrier();
  });
  for (const auto& error : errors) CHECK(error == "");
}
