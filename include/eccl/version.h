/* The version of these headers: ECCL_VERSION_CODE is X*10000 + Y*100 + Z for version X.Y.Z. ecclGetVersion()
 * gives that of the loaded library. Before 1.0 a minor version may change the ABI, and the soname says so. To
 * compile for several versions:
 *
 *   #if ECCL_VERSION_CODE >= ECCL_VERSION(0, 2, 0)
 */
#ifndef ECCL_VERSION_H_
#define ECCL_VERSION_H_

#define ECCL_MAJOR 0
#define ECCL_MINOR 1
#define ECCL_PATCH 0
#define ECCL_VERSION(x, y, z) ((x)*10000 + (y)*100 + (z))
#define ECCL_VERSION_CODE ECCL_VERSION(ECCL_MAJOR, ECCL_MINOR, ECCL_PATCH)

#endif /* ECCL_VERSION_H_ */
