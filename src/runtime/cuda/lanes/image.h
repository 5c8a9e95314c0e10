// The lane kernels as nvcc made them, for cuModuleLoadData. Where there was no nvcc it is none that a driver
// takes.
#pragma once

extern "C" __attribute__((visibility("hidden"))) const unsigned char eccl_lanes_image[];

namespace eccl::runtime::cuda {

inline constexpr const unsigned char* kLaneImage = eccl_lanes_image;

}  // namespace eccl::runtime::cuda
