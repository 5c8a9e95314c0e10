#include "transport/net/address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "transport/net/endpoint.h"
#include "transport/net/interfaces.h"

namespace eccl::transport {
namespace {

SocketAddress at(const char* text) {
  auto found = SocketAddress::resolve(text);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? found->front() : SocketAddress();
}

TEST(SocketAddress, TextRoundTrips) {
  for (const char* text : {"192.0.2.1:5000", "[2001:db8::1]:65535", "[::1]:1", "0.0.0.0:80"})
    EXPECT_EQ(at(text).text(), text);
  EXPECT_EQ(SocketAddress().text(), "(no address)");
  EXPECT_EQ(at("192.0.2.1:1").withPort(77).text(), "192.0.2.1:77");
}

TEST(SocketAddress, RejectsWhatHasNoHostOrPort) {
  for (const char* text :
       {"", "localhost", ":80", "localhost:", "localhost:0", "localhost:65536", "localhost:8x", "localhost:-1",
        "::1:80", "[::1]", "[]:80", "localhost:999999999999"}) {
    auto found = SocketAddress::resolve(text);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_EQ(found.status().code(), Code::invalidArgument) << text;
    EXPECT_NE(found.status().message().find("HOST:PORT"), std::string::npos);
  }
  auto other = SocketAddress::resolve("127.0.0.1:80", AF_INET6);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().message().find("'127.0.0.1:80' cannot be resolved"), std::string::npos);
}

TEST(SocketAddress, KnowsItsKind) {
  EXPECT_TRUE(at("127.3.2.1:1").isLoopback());
  EXPECT_TRUE(at("[::1]:1").isLoopback());
  EXPECT_FALSE(at("128.0.0.1:1").isLoopback());
  EXPECT_FALSE(at("[2001:db8::1]:1").isLoopback());
  EXPECT_TRUE(at("[fe80::1]:1").isLinkLocal());
  EXPECT_FALSE(at("192.0.2.1:1").isLinkLocal());
}

TEST(SocketAddress, EncodingRoundTripsAndRejectsGarbage) {
  for (const char* text : {"192.0.2.1:5000", "[2001:db8::1]:65535"}) {
    ByteWriter out;
    at(text).encode(out);
    const std::string bytes = out.take();
    EXPECT_EQ(bytes.size(), SocketAddress::encodedSize(at(text).family()));
    for (size_t length = 0; length <= bytes.size(); ++length) {
      ByteReader in(std::string_view(bytes).substr(0, length));
      SocketAddress address = SocketAddress::decode(in);
      EXPECT_EQ(in.ok(), length == bytes.size());
      if (in.ok()) { EXPECT_EQ(address.text(), text); }
    }
  }
  ByteReader garbage(std::string_view("\x05\x01\x01zzzzzzzzzzzzzzzz", 19));
  EXPECT_FALSE(SocketAddress::decode(garbage).valid());
}

std::vector<Interface> machine() {
  std::vector<Interface> all;
  for (auto [name, address] : {std::pair("lo", "127.0.0.1:9"),
                               {"docker0", "172.17.0.1:9"},
                               {"eth0", "[2001:db8::2]:9"},
                               {"eth0", "192.0.2.2:9"},
                               {"eth1", "192.0.3.2:9"},
                               {"ib0", "10.0.0.2:9"},
                               {"lo", "[::1]:9"}}) {
    all.push_back({name, at(address).withPort(0)});
  }
  return all;
}

std::string chosen(const char* names, int family = AF_UNSPEC) {
  auto result = chooseInterfaces(machine(), {names, family});
  if (!result.ok()) return "error: " + result.status().message();
  std::string text;
  for (const Interface& one : *result) text += one.name + (one.address.family() == AF_INET6 ? "/6 " : " ");
  return text;
}

TEST(Interfaces, DefaultPutsContainersAndLoopbackLast) {
  EXPECT_EQ(chosen(""), "ib0 eth0 eth1 eth0/6 docker0 lo lo/6 ");
  EXPECT_EQ(chosen("", AF_INET6), "eth0/6 lo/6 ");
}

TEST(Interfaces, SelectsByPrefixInTheOrderGiven) {
  EXPECT_EQ(chosen("eth"), "eth0 eth1 eth0/6 ");
  EXPECT_EQ(chosen("eth1,ib"), "eth1 ib0 ");
  EXPECT_EQ(chosen("lo,eth0", AF_INET), "lo eth0 ");
  EXPECT_EQ(chosen(",,ib,"), "ib0 ");
}

TEST(Interfaces, CaretExcludesAndEqualsIsExact) {
  EXPECT_EQ(chosen("^lo,docker"), "ib0 eth0 eth1 eth0/6 ");
  EXPECT_EQ(chosen("=eth0"), "eth0 eth0/6 ");
  EXPECT_EQ(chosen("=eth").substr(0, 6), "error:");
  EXPECT_EQ(chosen("^=eth0,lo"), "ib0 eth1 docker0 ");
}

TEST(Interfaces, ASelectionOfNothingNamesWhatExists) {
  for (const char* names : {"wlan", "=docker", "^ib,eth,docker,lo"}) {
    const std::string text = chosen(names);
    EXPECT_NE(text.find(std::string("ECCL_SOCKET_IFNAME='") + names + "'"), std::string::npos) << text;
    for (const char* fact : {"ib0 (10.0.0.2)", "eth0 (192.0.2.2)", "eth0 ([2001:db8::2])", "lo (127.0.0.1)"}) {
      EXPECT_NE(text.find(fact), std::string::npos) << text;
    }
  }
  EXPECT_NE(chosen("ib", AF_INET6).find("IPv6"), std::string::npos);
  EXPECT_NE(chooseInterfaces({}, {}).status().message().find("it has none"), std::string::npos);
}

TEST(Interfaces, ThisMachineHasSome) {
  auto all = listInterfaces(System::real());
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_FALSE(all->empty());
  for (const Interface& one : *all) EXPECT_FALSE(one.address.isLinkLocal()) << one.name;
}

Endpoint sample() {
  Endpoint endpoint = localEndpoint(System::real());
  endpoint.identity = randomIdentity(System::real());
  endpoint.hasUnix = true;
  endpoint.addresses = {at("192.0.2.1:5000"), at("[2001:db8::1]:6000")};
  return endpoint;
}

TEST(Endpoint, RoundTrips) {
  const Endpoint before = sample();
  auto after = Endpoint::decode(before.encode());
  ASSERT_TRUE(after.ok()) << after.status().message();
  EXPECT_EQ(after->identity, before.identity);
  EXPECT_EQ(after->addresses, before.addresses);
  EXPECT_EQ(after->hasUnix, before.hasUnix);
  EXPECT_EQ(after->pid, getpid());
  EXPECT_EQ(after->host, before.host);
  EXPECT_EQ(after->bootId, before.bootId);
  EXPECT_EQ(after->unixName(), before.unixName());
}

TEST(Endpoint, EveryTruncationAndExtensionIsRefused) {
  const std::string bytes = sample().encode();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(Endpoint::decode(std::string_view(bytes).substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(Endpoint::decode(bytes + "x").ok());
}

TEST(Endpoint, ListsAreBoundedAndNamesArePrintable) {
  Endpoint endpoint = sample();
  endpoint.addresses.assign(100, at("192.0.2.1:5000"));
  auto cut = Endpoint::decode(endpoint.encode());
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  EXPECT_EQ(cut->addresses.size(), Endpoint::kMaxAddresses);
  endpoint.host = "evil\nhost";
  auto evil = Endpoint::decode(endpoint.encode());
  ASSERT_FALSE(evil.ok());
  EXPECT_NE(evil.status().message().find("host name"), std::string::npos);
}

}  // namespace
}  // namespace eccl::transport
