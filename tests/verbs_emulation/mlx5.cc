// libmlx5.so.1: what it exports is in the emulation that it is linked with.
extern "C" const int mlx5Emulation;
const int mlx5Emulation = 1;
