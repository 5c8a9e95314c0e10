/* The limit of small messages over TCP: two processes without a library send each other the whole input, poll
 * for the other's with recv, and add. From the environment also EXCHANGE_ADDRESS, HOST:PORT where rank 0
 * listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

static const Loop* theLoop = NULL;
static int peer = -1;

static void call(const Task* t) {
  const size_t bytes = t->count * sizeof(float);
  size_t sent = 0, received = 0;
  while (sent < bytes || received < bytes) {
    if (sent < bytes) {
      const ssize_t n = send(peer, (const char*)t->input + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) loopFail("send: %s", strerror(errno));
      if (n > 0) sent += (size_t)n;
    }
    if (received < bytes) {
      const ssize_t n = recv(peer, (char*)t->output + received, bytes - received, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN))
        loopFail("recv: %s", n == 0 ? "the peer has ended" : strerror(errno));
      if (n > 0) received += (size_t)n;
    }
    loopPause(theLoop);
  }
  for (size_t i = 0; i < t->count; ++i) t->output[i] += t->input[i];
}

static void meet(int rank) {
  char text[64] = "";
  const char* address = getenv("EXCHANGE_ADDRESS");
  const char* colon = address == NULL ? NULL : strrchr(address, ':');
  if (colon == NULL || (size_t)(colon - address) >= sizeof text)
    loopFail("EXCHANGE_ADDRESS has to be HOST:PORT");
  memcpy(text, address, (size_t)(colon - address));
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(colon + 1))};
  if (inet_pton(AF_INET, text, &where.sin_addr) != 1) loopFail("EXCHANGE_ADDRESS: %s is no IPv4 address", text);
  const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (rank == 0) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr*)&where, sizeof where) != 0 || listen(fd, 1) != 0 ||
        (peer = accept(fd, NULL, NULL)) < 0)
      loopFail("%s: %s", address, strerror(errno));
    close(fd);
  } else {
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int tries = 0; connect(fd, (struct sockaddr*)&where, sizeof where) != 0; ++tries) {
      if (tries == 1000) loopFail("%s: %s", address, strerror(errno));
      nanosleep(&pause, NULL);
    }
    peer = fd;
  }
  setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int main(void) {
  Loop loop = loopOpen();
  theLoop = &loop;
  if (loop.ranks != 2 || strcmp(getenv("LOOP_OPERATION"), "all_reduce") != 0)
    loopFail("unsupported: only AllReduce of 2 ranks");
  meet(loop.rank);
  const Contender contender = {.allocate = loopAllocate, .release = loopRelease, .call = call};
  loopRun(&loop, &contender);
  return 0;
}
