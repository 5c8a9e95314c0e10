// A Host inside a larger JSON document. Internal to the files of src/topology that read and write JSON.
#pragma once

#include "topology/formats/json_reader.h"
#include "topology/model/topology.h"

namespace eccl::topology {

/// The JSON value of a valid host.
Json valueOf(const Host& host);
/// Reads a host. Errors stay in the reader; the caller still has to validate the host.
void readHost(Reader& reader, Host& host);

}  // namespace eccl::topology
