#include "transport/core/transport_module.h"
#include "transport/verbs/verbs_transport.h"

ECCL_TRANSPORT_MODULE(eccl::transport::verbs::kVerbsTransport)
