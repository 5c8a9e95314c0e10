#include "transport/bootstrap/unique_id.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "transport/bootstrap/ranks.h"
#include "transport/net/fd.h"

namespace eccl::transport {
namespace {

constexpr const char* kDigits = "00112233445566778899aabbccddeeff";

SocketAddress at(const std::string& text) {
  return SocketAddress::resolve(text)->front();
}

UniqueId someId() {
  UniqueId id = UniqueId::random(System::real());
  id.addresses = {at("192.0.2.1:5000"), at("[2001:db8::1]:6000")};
  return id;
}

TEST(UniqueId, RoundTrips) {
  for (bool byRank0 : {false, true}) {
    UniqueId before = someId();
    before.rootByRank0 = byRank0;
    auto after = UniqueId::decode(before.encode());
    ASSERT_TRUE(after.ok()) << after.status().message();
    EXPECT_EQ(after->communicator, before.communicator);
    EXPECT_EQ(after->secret.bytes, before.secret.bytes);
    EXPECT_EQ(after->addresses, before.addresses);
    EXPECT_EQ(after->rootByRank0, byRank0);
    EXPECT_EQ(after->root().identity, before.root().identity);
  }
  EXPECT_NE(UniqueId::random(System::real()).communicator, UniqueId::random(System::real()).communicator);
  EXPECT_NE(someId().root().identity, someId().root().identity);
}

TEST(UniqueId, HoldsAsManyAddressesAsFit) {
  UniqueId id = UniqueId::random(System::real());
  for (int i = 0; i < 4; ++i) id.addresses.push_back(at(format("[2001:db8::%d]:6000", i + 1)));
  EXPECT_EQ(UniqueId::decode(id.encode())->addresses, id.addresses) << "four IPv6 addresses fit";
  for (int i = 0; i < 20; ++i) id.addresses.push_back(at(format("192.0.2.%d:5000", i + 1)));
  auto cut = UniqueId::decode(id.encode());
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  ASSERT_GE(cut->addresses.size(), 4u);
  for (size_t i = 0; i < cut->addresses.size(); ++i)
    EXPECT_EQ(cut->addresses[i], id.addresses[i]) << "order is kept";
}

TEST(UniqueId, SaysWhatIsWrongAndWhereIdsComeFrom) {
  UniqueId::Bytes zero{}, garbage, flipped = someId().encode(), version = flipped;
  garbage.fill('z');
  flipped[60] = static_cast<char>(flipped[60] ^ 1);
  version[4] = 9;
  UniqueId none = someId();
  none.addresses.clear();
  for (auto& [bytes, why] : {std::pair(zero, "all bytes are zero"),
                             {garbage, "does not begin with 'ECCL'"},
                             {flipped, "checksum"},
                             {version, "checksum"},
                             {none.encode(), "contradict"}}) {
    auto id = UniqueId::decode(bytes);
    ASSERT_FALSE(id.ok()) << why;
    EXPECT_EQ(id.status().code(), Code::invalidArgument);
    EXPECT_NE(id.status().message().find(why), std::string::npos) << id.status().message();
    EXPECT_NE(id.status().message().find("ecclGetUniqueId"), std::string::npos);
  }
}

TEST(UniqueId, EveryChangedByteIsNoticed) {
  const UniqueId::Bytes good = someId().encode();
  for (size_t i = 0; i < good.size(); ++i) {
    UniqueId::Bytes bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    EXPECT_FALSE(UniqueId::decode(bad).ok()) << "byte " << i;
  }
}

class SecretFile {
 public:
  SecretFile(const char* content, mode_t mode) {
    int fd = mkstemp(path_);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, content, strlen(content)), static_cast<ssize_t>(strlen(content)));
    EXPECT_EQ(fchmod(fd, mode), 0);
    close(fd);
  }
  ~SecretFile() { unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/eccl-secret-XXXXXX";
};

TEST(CommId, TheSameSettingsGiveTheSameId) {
  SecretFile file((std::string(kDigits) + "\n").c_str(), 0600);
  CommIdSettings byValue{.commId = "127.0.0.1:4321", .secret = kDigits},
      byFile{.commId = "127.0.0.1:4321", .secretFile = file.path()};
  auto a = uniqueIdFromSettings(byValue), b = uniqueIdFromSettings(byFile);
  ASSERT_TRUE(a.ok()) << a.status().message();
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_EQ(a->encode(), b->encode());
  EXPECT_TRUE(a->rootByRank0);
  EXPECT_EQ(a->addresses[0].text(), "127.0.0.1:4321");
  byValue.commId = "127.0.0.1:4322";
  EXPECT_NE(uniqueIdFromSettings(byValue)->communicator, a->communicator);
}

std::string errorOf(const CommIdSettings& settings) {
  auto id = uniqueIdFromSettings(settings);
  EXPECT_FALSE(id.ok());
  return id.status().message();
}

TEST(CommId, NeedsASecret) {
  const std::string text = errorOf({.commId = "127.0.0.1:4321"});
  for (const char* fact :
       {"ECCL_COMM_ID='127.0.0.1:4321'", "ECCL_COMM_SECRET", "ECCL_COMM_SECRET_FILE", "openssl rand -hex 16"}) {
    EXPECT_NE(text.find(fact), std::string::npos) << text;
  }
  EXPECT_NE(errorOf({.commId = "127.0.0.1:4321", .secret = "abc"}).find("ECCL_COMM_SECRET holds 3 characters"),
            std::string::npos);
  EXPECT_NE(errorOf({.commId = "nonsense", .secret = kDigits}).find("ECCL_COMM_ID: 'nonsense'"),
            std::string::npos);
}

TEST(CommId, TheSecretFileMustBePrivate) {
  CommIdSettings settings{.commId = "127.0.0.1:4321", .secretFile = "/no/such/file"};
  EXPECT_NE(errorOf(settings).find("'/no/such/file' cannot be opened: No such file"), std::string::npos);
  settings.secretFile = "/tmp";
  EXPECT_NE(errorOf(settings).find("not a regular file"), std::string::npos);
  for (mode_t mode : {0644, 0660, 0604, 0700, 0400}) {
    SecretFile open(kDigits, mode);
    settings.secretFile = open.path();
    if (mode == 0400 && geteuid() != 0) continue;  // opens all the same for the owner; checked as root too
    const std::string text = errorOf(settings);
    EXPECT_NE(text.find(format("has mode %04o", mode)), std::string::npos) << text;
    EXPECT_NE(text.find(std::string("chmod 600 ") + open.path()), std::string::npos) << text;
  }
  SecretFile wrong("hello", 0600);
  settings.secretFile = wrong.path();
  EXPECT_NE(errorOf(settings).find(std::string("'") + wrong.path() + "' holds 5 characters"),
            std::string::npos);
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a file that belongs to somebody else";
  SecretFile foreign(kDigits, 0600);
  ASSERT_EQ(chown(foreign.path(), 12345, 12345), 0);
  settings.secretFile = foreign.path();
  EXPECT_NE(errorOf(settings).find("belongs to user 12345, not to this process's user 0"), std::string::npos);
}

TEST(Ranks, AreNamedInRuns) {
  EXPECT_EQ(nameRanks({}), "no rank");
  EXPECT_EQ(nameRanks({7}), "rank 7");
  EXPECT_EQ(nameRanks({3, 7}), "ranks 3, 7");
  EXPECT_EQ(nameRanks({3, 4}), "ranks 3, 4");
  EXPECT_EQ(nameRanks({3, 4, 5, 7}), "ranks 3-5, 7");
  EXPECT_EQ(nameRanks({0, 1, 2, 3}), "ranks 0-3");
  std::vector<int> even;
  for (int i = 0; i < 200; i += 2) even.push_back(i);
  EXPECT_EQ(nameRanks(even), "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 84 more");
}

TEST(Tree, EveryRankHasOneParentAndEveryRouteArrives) {
  for (int n : {1, 2, 9, 10, 73, 74, 600}) {
    std::vector<int> parents(static_cast<size_t>(n), -1);
    for (int r = 0; r < n; ++r) {
      for (int child : treeChildren(r, n)) {
        ASSERT_LT(child, n);
        EXPECT_EQ(std::exchange(parents[static_cast<size_t>(child)], r), -1);
        EXPECT_EQ(treeParent(child), r);
      }
    }
    EXPECT_EQ(std::count(parents.begin(), parents.end(), -1), 1) << "only rank 0 has none";
    for (int from = 0; from < n; from += 7) {
      for (int to = 0; to < n; ++to) {
        int hops = 0;
        for (int at = from; at != to; at = treeNextHop(at, to))
          ASSERT_LT(hops++, 8) << from << " to " << to << " of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace eccl::transport
