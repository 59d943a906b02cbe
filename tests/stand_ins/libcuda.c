/* Stands in for NVIDIA's libcuda.so.1, which belongs to a kernel driver and comes from no registry: a library by that
   name that tells its version, so that a test sees whether a program in a container loads the host's. */
int cuDriverGetVersion(int *version) {
    *version = 12040;
    return 0;
}
