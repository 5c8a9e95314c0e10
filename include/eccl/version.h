/* The version of these headers; ecclGetVersion() gives that of the loaded library. */
#ifndef ECCL_VERSION_H_
#define ECCL_VERSION_H_

#define ECCL_MAJOR 0
#define ECCL_MINOR 1
#define ECCL_PATCH 0
#define ECCL_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define ECCL_VERSION_CODE ECCL_VERSION(ECCL_MAJOR, ECCL_MINOR, ECCL_PATCH)

#endif /* ECCL_VERSION_H_ */
