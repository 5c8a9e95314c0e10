// ECCL_LANES_IMAGE: the file that nvcc made. Without one the image is one that no driver takes.
#include "runtime/cuda/lanes/image.h"

#ifdef ECCL_LANES_IMAGE
#define ECCL_IMAGE_BYTES ".incbin \"" ECCL_LANES_IMAGE "\"\n"
#else
#define ECCL_IMAGE_BYTES ".zero 64\n"
#endif

asm(".pushsection .rodata\n"
    ".balign 64\n"
    ".global eccl_lanes_image\n"
    ".hidden eccl_lanes_image\n"
    "eccl_lanes_image:\n" ECCL_IMAGE_BYTES ".popsection\n");
