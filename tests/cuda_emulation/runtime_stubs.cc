// The runtime's functions that are not emulated: they are there, so that programs load, and fail by their
// names. Without the runtime's header: here none of them has parameters. Those that are emulated win over
// these.
extern "C" int cudartUnimplemented(const char* name);

#define X(name)                                                        \
  extern "C" __attribute__((weak, visibility("default"))) int name() { \
    return cudartUnimplemented(#name);                                 \
  }
#include "cuda_emulation/cudart_names.inc"
#undef X
