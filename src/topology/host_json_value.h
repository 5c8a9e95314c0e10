// A Host inside a larger JSON document. Internal to the files of src/topology that read and write JSON.
#pragma once

#include "topology/json_reader.h"
#include "topology/topology.h"

namespace eccl {

/// Of a valid host.
Json valueOf(const Host& host);
/// Errors stay in the reader; the host still has to be validated.
void readHost(Reader& reader, Host& host);

}  // namespace eccl
