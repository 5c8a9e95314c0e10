/* A transport module of another version: what all versions of transport/core/transport_module.h begin with. */
#include <stdint.h>

struct module {
  uint32_t magic, interface;
  const char* version;
};

__attribute__((visibility("default"))) const struct module* eccl_transport_module(void);
const struct module* eccl_transport_module(void) {
  static const struct module other = {0x4d434345, 77, "0.0.9"};
  return &other;
}
