// SPDX-License-Identifier: Apache-2.0
// Calls of parts in streams of a device that the host plays (support/gpu/cuda_on_host).
#include <array>
#include <catch2/catch.hpp>

#include "comm/parts.hpp"
#include "support/gpu/cuda_on_host.hpp"
#include "support/gpu/device_buffer.hpp"
#include "support/ranks.hpp"

namespace ccoll::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using ccoll::testing::DeviceBuffer;
using ccoll::testing::expect;
using ccoll::testing::OwnedStream;
using ccoll::testing::run_threads;

using Values = std::vector<float>;
using OnDevice = DeviceBuffer<float>;

CommunicatorOptions on_gpu0() {
  CommunicatorOptions options;
  options.device.ordinal = 0;
  return options;
}

/// A sum over all ranks of what lies there, in place.
Call sum_at(float* data, std::size_t count) {
  Values none;
  auto call = Parts::sum_of(none);
  call.input.data = call.output.data = reinterpret_cast<std::byte*>(data);
  call.count = count;
  return call;
}

std::shared_ptr<MessageOperation> message(MessageOperation::What what, Rank peer, float* data,
                                          std::size_t count) {
  auto operation = std::make_shared<MessageOperation>();
  operation->what = what;
  operation->pattern = {peer, 7};
  operation->bytes = count * sizeof *data;
  operation->input = operation->output = reinterpret_cast<std::byte*>(data);
  if (what == MessageOperation::What::recv) operation->received.emplace();
  return operation;
}

/// Runs `body` on two ranks, which are ranks 3 and 5 of the job and have the same GPU.
std::vector<std::string> run_both(std::uint64_t communicator,
                                  const std::function<void(Parts&)>& body) {
  std::vector<std::unique_ptr<Parts>> ranks;
  for (Rank rank = 0; rank < 2; rank++)
    ranks.push_back(
        std::make_unique<Parts>(rank, std::vector<std::uint32_t>{3, 5}, communicator, on_gpu0()));
  return run_threads(2, [&](int rank) { body(*ranks[static_cast<std::size_t>(rank)]); });
}

}  // namespace

TEST_CASE("streams: calls on a GPU's memory belong there, calls on the host's do not", "[comm]") {
  Parts rank(0, {3, 5}, 980, on_gpu0());
  Values host(8);
  const OnDevice device(host);
  CHECK(rank.streams.are_for(sum_at(device.data(), 8)));
  CHECK(rank.streams.are_for(host.data(), device.data()));
  CHECK(rank.streams.are_for(device.data(), host.data()));
  CHECK_FALSE(rank.streams.are_for(sum_at(host.data(), 8)));
  CHECK_FALSE(rank.streams.are_for(host.data(), host.data()));
  // A block of no elements is nowhere.
  CHECK_FALSE(rank.streams.are_for(sum_at(device.data(), 0)));
  rank.progress.forked();
  CHECK_FALSE(rank.streams.are_for(sum_at(device.data(), 8)));
}

TEST_CASE("streams: calls leave their results on the device, in the stream's order", "[comm]") {
  const bool has_stream = GENERATE(false, true);
  const auto errors = run_both(has_stream ? 981 : 982, [&](Parts& rank) {
    const OwnedStream stream;
    const OnDevice device(Values(100, static_cast<float>(rank.self.rank() + 1)));
    for (int time = 0; time < 3; time++) {
      auto work = value_or_throw(
          rank.streams.begin(sum_at(device.data(), 100),
                             has_stream ? std::optional<cudaStream_t>(stream) : std::nullopt));
      work.wait();
      if (has_stream) stream.wait();
    }
    expect(device.values() == Values(100, 12), "another sum");
    const Owner owned(rank.progress);
    expect(rank.under_way.collectives(owned).next_number() == 3, "another number of calls");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("streams: messages travel from one device to the other", "[comm]") {
  const std::size_t count = GENERATE(1U, 1000U, 1U << 20);
  const auto errors = run_both(983 + count, [&](Parts& rank) {
    const bool sends = rank.self.rank() == 0;
    const OnDevice device(Values(count, sends ? 3.0F : 0.0F));
    auto work = value_or_throw(rank.streams.begin(
        {message(sends ? MessageOperation::What::send : MessageOperation::What::recv,
                 1 - rank.self.rank(), device.data(), count)},
        0ms, std::nullopt));
    work.wait();
    expect(device.values() == Values(count, 3), "another message");
    if (!sends) expect(work.received().bytes == count * sizeof(float), "another length");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("streams: buffers that the rank's GPU does not have are refused, which harms nothing",
          "[comm]") {
  Parts rank(0, {3, 5}, 984, on_gpu0());
  const OnDevice device(Values(8));
  auto* const data = device.data();
  std::string expected;
  std::size_t count = 8;
  SECTION("one that ends elsewhere") {
    count = std::size_t{1} << 38;
    expected = "begins in memory of GPU 0 and ends elsewhere";
  }
  SECTION("one of another GPU") {
    cuda_on_host_moves(data, count * sizeof *data, true);
    expected = "memory of GPU 1: expected memory of GPU 0";
  }
  const auto begun = rank.streams.begin(sum_at(data, count), std::nullopt);
  const auto sent = rank.streams.begin({message(MessageOperation::What::send, 1, data, count)}, 0ms,
                                       std::nullopt);
  cuda_on_host_moves(data, 8 * sizeof *data, false);
  for (const auto* const refused : {&begun, &sent}) {
    REQUIRE_FALSE(*refused);
    CHECK(refused->error().kind == ErrorKind::invalid_argument);
    CHECK_THAT(refused->error().message, Contains(expected));
  }
  CHECK_FALSE(rank.broken());
  CHECK(rank.control->floods.empty());
  const Owner owned(rank.progress);
  CHECK(rank.under_way.is_idle(owned));
  CHECK(rank.under_way.collectives(owned).next_number() == 0);
}

TEST_CASE("streams: in a broken communicator a call is refused and its stream goes on", "[comm]") {
  Parts rank(0, {3, 5}, 985, on_gpu0());
  rank.failures.hear({ErrorKind::aborted, "enough", 5});
  const OwnedStream stream;
  const OnDevice device(Values(8, 2.0F));
  const auto begun = rank.streams.begin(sum_at(device.data(), 8), stream);
  REQUIRE_FALSE(begun);
  CHECK_THAT(begun.error().message, Contains("enough"));
  stream.wait();
  CHECK(device.values() == Values(8, 2.0F));
}

TEST_CASE("streams: a call whose stream has reached it ends with the communicator", "[comm]") {
  Parts rank(0, {3, 5}, 986, on_gpu0());
  const OwnedStream stream;
  const OnDevice device(Values(8));
  auto begun = rank.streams.begin(sum_at(device.data(), 8), stream);
  REQUIRE(begun);
  rank.failures.hear({ErrorKind::aborted, "enough", 5});
  // The other rank does not come, but the stream goes on.
  rank.round();
  stream.wait();
  CHECK_THAT(ccoll::testing::message_of([&] { begun->wait(); }), Contains("enough"));
}

}  // namespace ccoll::test
